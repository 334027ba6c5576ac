package authz

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/samepod/samepod/identity"
)

// sandboxClaim is on sandbox "s", port 80.
func sandboxClaim() identity.Claim {
	return identity.Claim{Sandbox: "s", Port: 80, Authorized: true}
}

// bound is the sandbox ns/s that means this Pod, in a world of its own.
func bound(p identity.Pod) identity.Target {
	return identity.Target{
		State: identity.Bound, Sandbox: identity.NamespacedName{Namespace: "ns", Name: "s"}, SandboxUID: "S",
		View: world(p).Look(p.NamespacedName, identity.Claim{}.Recorded.Addr()), Pin: identity.PinHolds,
	}
}

// TestOwnHost: what a claim hides of its host is hidden, and only that.
func TestOwnHost(t *testing.T) {
	for _, hides := range []bool{false, true} {
		c := sandboxClaim()
		c.HidesHost = hides
		p := policy()
		if v := p.decide(c, bound(pod("a", on(addrX)))); v.Reason != SamePod || v.OwnHost != hides {
			t.Errorf("hides %v: %+v", hides, v)
		}
	}
}

// TestDecideSandbox is what an engine's answer comes to, one a line.
func TestDecideSandbox(t *testing.T) {
	good := bound(pod("a", on(addrX)))
	state := func(s identity.TargetState) identity.Target { t := good; t.State = s; return t }
	pin := func(p identity.PinState) identity.Target { t := good; t.Pin = p; return t }
	with := func(change func(*identity.Target)) identity.Target { t := good; change(&t); return t }
	elsewhere := func(c *identity.Claim) { c.Namespace = "kube-system" }
	unauthorized := func(c *identity.Claim) { c.Authorized = false }
	port := func(c *identity.Claim) { c.Port = 81 }
	for _, tc := range []struct {
		want    Reason
		rule    string
		target  identity.Target
		change  func(*identity.Claim)
		confirm bool
	}{
		{SamePod, "its Pod", good, nil, false},
		{Internal, "nothing was resolved", state(identity.Unresolved), nil, false},
		{Internal, "nobody can check the access", state(identity.AccessUnverifiable), nil, false},
		{AccessDenied, "no access", state(identity.AccessDenied), nil, false},
		{UnknownSandbox, "unknown as far as was watched", state(identity.SandboxUnknown), nil, true},
		{UnknownSandbox, "unknown to the API server", with(func(t *identity.Target) { t.State, t.Live = identity.SandboxUnknown, true }), nil, false},
		{SandboxGone, "gone", state(identity.SandboxGone), nil, false},
		{SandboxReplaced, "replaced", state(identity.SandboxReplaced), nil, false},
		{SandboxAmbiguous, "ambiguous", state(identity.SandboxAmbiguous), nil, false},
		{SandboxSuspended, "suspended", state(identity.SandboxSuspended), nil, false},
		{Unverifiable, "unreadable", state(identity.SandboxUnreadable), nil, false},
		{NotAssigned, "not assigned", state(identity.NotAssigned), nil, false},
		{PodGone, "taken away", state(identity.Releasing), nil, false},
		{PodShared, "claimed twice", state(identity.PodShared), nil, false},
		{PodReplaced, "of something else", state(identity.PodForeign), nil, false},
		{Internal, "a state that is none", state(99), nil, false},

		{TargetNotAllowed, "not the caller's to name, whether it exists or not", state(identity.SandboxUnknown), unauthorized, false},
		{TargetNotAllowed, "a namespace out of scope is not asked about", state(identity.SandboxUnknown), elsewhere, false},
		{TargetNotAllowed, "the sandbox is out of scope", with(func(t *identity.Target) { t.Sandbox.Namespace = "kube-system" }), nil, false},
		{PortNotAllowed, "another port", good, port, false},
		{SandboxGone, "gone comes before the port", state(identity.SandboxGone), port, false},
		{PortNotAllowed, "the port comes before the Pod", state(identity.Releasing), port, false},

		{PodReplaced, "another Pod than was pinned", pin(identity.PinBroken), nil, false},
		{Unverifiable, "a pin that cannot be believed", pin(identity.PinRefused), nil, false},
		{ContainerReplaced, "another container than was pinned", pin(identity.PinRestarted), nil, false},
		{Overloaded, "not pinned yet: never an allow", pin(identity.PinWanted), nil, true},
		{SamePod, "no pins", pin(identity.NoPins), nil, false},
		{Overloaded, "handed on without a trace, perhaps: never an allow", with(func(t *identity.Target) { t.Reread = true }), nil, true},
		{SamePod, "not handed on, says the API server", with(func(t *identity.Target) { t.Reread, t.Live = true, true }), nil, false},
		{Overloaded, "read, and not pinned", with(func(t *identity.Target) { t.Pin, t.Live = identity.PinWanted, true }), nil, true},
		{HintStale, "a hint that must be forgotten", with(func(t *identity.Target) { t.HintDiffers, t.HintStale = true, true }), nil, false},
		{SamePod, "it asks for renewal, and the caller does not want to", with(func(t *identity.Target) { t.Renew = true }), func(c *identity.Claim) { c.NoRenewal = true }, false},
		{SamePod, "a hint that is only old", with(func(t *identity.Target) { t.HintDiffers = true }), nil, false},

		{PodTerminal, "dead, and not pinned: there is nothing to pin", with(func(t *identity.Target) {
			t.View, t.Pin = bound(pod("a", on(addrX), phase(failed))).View, identity.PinWanted
		}), nil, false},
		{PodTerminating, "leaving", bound(pod("a", on(addrX), terminating)), nil, false},
		{PodNotReady, "pending", bound(pod("a", phase(pending))), nil, false},
		{PodGone, "no Pod", with(func(t *identity.Target) { t.View.Found = false }), nil, false},
	} {
		c, p := sandboxClaim(), policy()
		if tc.change != nil {
			tc.change(&c)
		}
		got := p.decide(c, tc.target)
		if got.Reason != tc.want || got.confirm != tc.confirm {
			t.Errorf("%s: %v, confirm %v; want %v, %v", tc.rule, got.Reason, got.confirm, tc.want, tc.confirm)
		}
		if got.Renew != (got.Reason == SamePod && tc.target.Renew && !c.NoRenewal) {
			t.Errorf("%s: renews %v", tc.rule, got.Renew)
		}
		if (got.Reason == SamePod) != (got.Upstream.IsValid() && got.UID == "U-a" && got.SandboxID == "s") {
			t.Errorf("%s: %+v", tc.rule, got)
		}
	}
}

// engineServer answers a sandbox claim by target and confirm.
func engineServer(target func(identity.Claim) identity.Target, confirm func(context.Context, identity.Claim, identity.Target) (identity.Target, error)) *Server {
	server, _, _ := testServer(world())
	server.config.Claim = func(*authv3.AttributeContext) (identity.Claim, error) { return sandboxClaim(), nil }
	server.config.Target, server.config.Confirm = target, confirm
	return server
}

// TestConfirm: what the API server says decides, and no word of it denies.
func TestConfirm(t *testing.T) {
	good := bound(pod("a", on(addrX)))
	is := func(change func(*identity.Target)) identity.Target { t := good; change(&t); return t }
	unknown := is(func(t *identity.Target) { t.State = identity.SandboxUnknown })
	unknownLive := is(func(t *identity.Target) { t.State, t.Live = identity.SandboxUnknown, true })
	unpinned := is(func(t *identity.Target) { t.Pin = identity.PinWanted })
	reread := is(func(t *identity.Target) { t.Reread = true })
	rereadLive := is(func(t *identity.Target) { t.Reread, t.Live = true, true })
	for _, tc := range []struct {
		rule      string
		watched   identity.Target
		confirmed identity.Target
		err       error
		want      Reason
		asked     int
	}{
		{"nothing to ask", good, good, nil, SamePod, 0},
		{"a denial that stands", is(func(t *identity.Target) { t.State = identity.SandboxGone }), good, nil, SandboxGone, 0},
		{"unknown to both", unknown, unknownLive, nil, UnknownSandbox, 1},
		{"unknown to the watch only", unknown, good, nil, SamePod, 1},
		{"pinned", unpinned, good, nil, SamePod, 1},
		{"still not pinned", unpinned, unpinned, nil, Overloaded, 1},
		{"not handed on", reread, rereadLive, nil, SamePod, 1},
		{"not read", reread, reread, nil, Overloaded, 1},
		{"handed on", reread, is(func(t *identity.Target) { t.State, t.Live = identity.Releasing, true }), nil, PodGone, 1},
		{"no answer", unknown, good, errors.New("connection refused"), Overloaded, 1},
	} {
		asked := 0
		server := engineServer(func(identity.Claim) identity.Target { return tc.watched }, func(context.Context, identity.Claim, identity.Target) (identity.Target, error) {
			asked++
			return tc.confirmed, tc.err
		})
		if got := checked(t, server); got != tc.want.String() || asked != tc.asked {
			t.Errorf("%s: %s, asked %d times; want %v, %d", tc.rule, got, asked, tc.want, tc.asked)
		}
	}
	server := engineServer(func(identity.Claim) identity.Target { return unpinned }, nil)
	if got := checked(t, server); got != Overloaded.String() {
		t.Errorf("nobody to ask: %s", got)
	}
}

// checked is the reason of one check.
func checked(t *testing.T, s *Server) string {
	t.Helper()
	resp, err := s.Check(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	return reasonOf(resp)
}

// TestWait: a check waits for a Pod that is not ready yet, as long as Envoy does at most,
// and for nothing else.
func TestWait(t *testing.T) {
	ready, pendingPod := bound(pod("a", on(addrX))), bound(pod("a", phase(pending)))
	in := func(s identity.TargetState) identity.Target { t := ready; t.State = s; return t }
	for _, tc := range []struct {
		rule     string
		first    identity.Target
		then     identity.Target // after ready
		ready    time.Duration   // when the change comes; 0 for never
		longest  time.Duration
		deadline time.Duration // of Envoy; 0 for none
		most     int
		want     Reason
		took     time.Duration
	}{
		{"off", pendingPod, ready, 100 * time.Millisecond, 0, 0, 1, PodNotReady, 0},
		{"ready at once", ready, ready, 0, time.Second, 0, 1, SamePod, 0},
		{"ready in time", pendingPod, ready, 100 * time.Millisecond, time.Second, 0, 1, SamePod, 100 * time.Millisecond},
		{"assigned in time", in(identity.NotAssigned), ready, 100 * time.Millisecond, time.Second, 0, 1, SamePod, 100 * time.Millisecond},
		{"never ready", pendingPod, pendingPod, 0, time.Second, 0, 1, PodNotReady, time.Second},
		{"a change that does not help", pendingPod, pendingPod, 100 * time.Millisecond, time.Second, 0, 1, PodNotReady, time.Second},
		{"a change to another answer", pendingPod, in(identity.SandboxGone), 100 * time.Millisecond, time.Second, 0, 1, SandboxGone, 100 * time.Millisecond},
		{"Envoy does not wait as long", pendingPod, ready, time.Minute, time.Second, 500 * time.Millisecond, 1, PodNotReady, 450 * time.Millisecond},
		{"too many wait", pendingPod, ready, 100 * time.Millisecond, time.Second, 0, 0, PodNotReady, 0},
		{"what time does not mend", in(identity.SandboxSuspended), ready, 100 * time.Millisecond, time.Second, 0, 1, SandboxSuspended, 0},
		{"what is unknown", in(identity.Unresolved), ready, 100 * time.Millisecond, time.Second, 0, 1, Internal, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			started := time.Now()
			var bell identity.Bell
			var changed atomic.Bool
			server := engineServer(func(identity.Claim) identity.Target {
				if changed.Load() {
					return tc.then
				}
				return tc.first
			}, nil)
			config := server.config
			config.Wait = Wait{Longest: tc.longest, Most: tc.most, Changed: bell.Next}
			server = NewServer(config)
			if tc.ready > 0 {
				time.AfterFunc(tc.ready, func() { changed.Store(true); bell.Ring() })
			}
			ctx := t.Context()
			if tc.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.deadline)
				defer cancel()
			}
			resp, err := server.Check(ctx, request())
			if got, took := reasonOf(resp), time.Since(started); err != nil || got != tc.want.String() || took != tc.took {
				t.Errorf("%s: %s after %v, %v; want %v after %v", tc.rule, got, took, err, tc.want, tc.took)
			}
			time.Sleep(2 * time.Minute) // for the change that comes too late
		})
	}
}

// TestRoute: what a dialect reads of a request, and what a token says beside it.
func TestRoute(t *testing.T) {
	read := func(r identity.Request) (identity.Claim, error) {
		name, present, err := r.Header("x-box")
		if err != nil || !present {
			return identity.Claim{}, err
		}
		return identity.Claim{Sandbox: name, Path: r.Path(), Namespace: r.Host(), Port: 80}, nil
	}
	token := Source{Metadata: MetadataPath{"jwt", "box"}}
	says := func(v any) func(*authv3.AttributeContext) { return withMetadata("jwt", map[string]any{"box": v}) }
	host := func(h string) func(*authv3.AttributeContext) {
		return func(a *authv3.AttributeContext) { a.Request.Http.Host = h }
	}
	fault := func(f identity.ClaimFault) *identity.ClaimError { return &identity.ClaimError{Fault: f} }
	for _, tc := range []struct {
		rule    string
		allowed Source
		options []func(*authv3.AttributeContext)
		want    identity.Claim
		err     *identity.ClaimError
	}{
		{"a header", Source{}, []func(*authv3.AttributeContext){set("x-box", "s")}, identity.Claim{Sandbox: "s", Path: "/command", Namespace: "gateway", Port: 80, Authorized: true}, nil},
		{"joined", Source{}, []func(*authv3.AttributeContext){set("x-box", "s,t")}, identity.Claim{}, fault(identity.ClaimConflict)},
		{"repeated", Source{}, []func(*authv3.AttributeContext){set("x-box", "s"), raw("x-box", "s")}, identity.Claim{}, fault(identity.ClaimConflict)},
		{"the token says the same", token, []func(*authv3.AttributeContext){set("x-box", "s"), says("gateway/s")}, identity.Claim{Sandbox: "s", Path: "/command", Namespace: "gateway", Port: 80, Authorized: true}, nil},
		{"the token says the same, where claims have no namespace", token, []func(*authv3.AttributeContext){set("x-box", "s"), says("s"), host("")}, identity.Claim{Sandbox: "s", Path: "/command", Port: 80, Authorized: true}, nil},
		{"the token says a name, in whatever namespace", token, []func(*authv3.AttributeContext){set("x-box", "s"), says("s")}, identity.Claim{Sandbox: "s", Path: "/command", Namespace: "gateway", Port: 80}, nil},
		{"the token says the name in another namespace", token, []func(*authv3.AttributeContext){set("x-box", "s"), says("other/s")}, identity.Claim{Sandbox: "s", Path: "/command", Namespace: "gateway", Port: 80}, nil},
		{"the token says another", token, []func(*authv3.AttributeContext){set("x-box", "s"), says("gateway/t")}, identity.Claim{Sandbox: "s", Path: "/command", Namespace: "gateway", Port: 80}, nil},
		{"the token says nothing", token, []func(*authv3.AttributeContext){set("x-box", "s")}, identity.Claim{Sandbox: "s", Path: "/command", Namespace: "gateway", Port: 80}, nil},
		{"the token is no string", token, []func(*authv3.AttributeContext){set("x-box", "s"), says(1)}, identity.Claim{Sandbox: "s", Path: "/command", Namespace: "gateway", Port: 80}, nil},
		{"the token is empty, and so is the claim", token, []func(*authv3.AttributeContext){setEmpty("x-box"), says("")}, identity.Claim{Path: "/command", Namespace: "gateway", Port: 80}, nil},
	} {
		got, err := Route(read, tc.allowed)(request(tc.options...).GetAttributes())
		e, _ := errors.AsType[*identity.ClaimError](err)
		if got != tc.want || (e == nil) != (tc.err == nil) || e != nil && e.Fault != tc.err.Fault {
			t.Errorf("%s: %+v, %v; want %+v", tc.rule, got, err, tc.want)
		}
	}
}

// TestRenews: who wants to hear of a sandbox that asks for renewal hears of its allows.
func TestRenews(t *testing.T) {
	good := bound(pod("a", on(addrX)))
	asks := func(s identity.TargetState) identity.Target { t := good; t.State, t.Renew = s, true; return t }
	for _, tc := range []struct {
		rule   string
		target identity.Target
		want   string
	}{
		{"allowed, and it asks", asks(identity.Bound), "ns s"},
		{"allowed, and it does not ask", good, ""},
		{"denied", asks(identity.SandboxGone), ""},
	} {
		server := engineServer(func(identity.Claim) identity.Target { return tc.target }, nil)
		got := ""
		server.config.Renews = func(namespace, id string) { got = namespace + " " + id }
		checked(t, server)
		if got != tc.want {
			t.Errorf("%s: hears of %q, want %q", tc.rule, got, tc.want)
		}
	}
}
