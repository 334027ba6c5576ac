package authz

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/samepod/samepod/identity"
)

// TestDecide is the product, one situation a line: the verdict on a claim in a
// world of Pods.
func TestDecide(t *testing.T) {
	a, b := pod("a", on(addrX)), pod("b", on(addrX))
	claimA, recordedA := claim("a", "U-a", ""), claim("a", "U-a", addrX)
	for _, tc := range []struct {
		want  Reason
		rule  string
		claim identity.Claim
		world []any
	}{
		{SamePod, "the Pod holds its address", claimA, []any{a}},
		{SamePod, "the Pod holds the recorded address", recordedA, []any{a}},
		{SamePod, "any uid, where that is allowed", claim("a", "", addrX), []any{a}},
		{SamePod, "any uid takes a rebuilt Pod", claim("a", "", addrX), []any{a, pod("a", uid("U2"), on(addrX))}},
		{SamePod, "the second family", claim("a", "U-a", addrV6), []any{pod("a", on(addrX, addrV6))}},
		{SamePod, "an IPv6 Pod", claim("a", "U-a", addrV6), []any{pod("a", on(addrV6))}},
		{SamePod, "unready is about the application", recordedA, []any{pod("a", on(addrX), unready)}},
		{SamePod, "the other holder has ended", recordedA, []any{a, pod("b", on(addrX), phase(succeeded))}},
		{SamePod, "the other holder is being deleted", recordedA, []any{a, pod("b", on(addrX), terminating)}},

		{PodGone, "never seen", claimA, nil},
		{PodGone, "deleted", recordedA, []any{a, gone(a)}},
		{PodGone, "deleted, and the address is another's", recordedA, []any{a, gone(a), b}},
		{PodReplaced, "another uid under the name", recordedA, []any{a, pod("a", uid("U2"), on(addrX))}},
		{PodReplaced, "another uid, ended", recordedA, []any{pod("a", uid("U2"), on(addrX), phase(failed))}},
		{Unverifiable, "host network", recordedA, []any{pod("a", on(addrX), hostNetwork)}},
		{Unverifiable, "mirror Pod", recordedA, []any{pod("a", on(addrX), mirror)}},
		{Unverifiable, "unreadable record", recordedA, []any{pod("a", on(addrX), malformed)}},
		{Unverifiable, "no uid", claim("a", "", addrX), []any{pod("a", uid(""), on(addrX))}},
		{PodTerminal, "failed", recordedA, []any{pod("a", on(addrX), phase(failed))}},
		{PodTerminal, "succeeded", recordedA, []any{pod("a", on(addrX), phase(succeeded))}},
		{PodTerminal, "failed, and being deleted", recordedA, []any{pod("a", on(addrX), phase(failed), terminating)}},
		{PodTerminating, "being deleted", recordedA, []any{pod("a", on(addrX), terminating)}},
		{PodNotReady, "pending without address", claimA, []any{pod("a", phase(pending))}},
		{PodNotReady, "pending with address", recordedA, []any{pod("a", on(addrX), phase(pending))}},
		{PodNotReady, "phase unknown", recordedA, []any{pod("a", on(addrX), phase(identity.PhaseUnknown))}},
		{PodNotReady, "running without address", claimA, []any{pod("a")}},
		{PodNotReady, "running, address lost", recordedA, []any{a, pod("a")}},
		{IPMoved, "the recorded address was another's all along", claim("a", "U-a", addrY), []any{a, pod("b", on(addrY))}},
		{IPMoved, "the recorded address is nobody's", claim("a", "U-a", addrY), []any{a}},
		{IPMoved, "the live Pod moved", recordedA, []any{a, pod("a", on(addrY))}},
		{IPMoved, "the live Pod moved and another took its address", recordedA, []any{a, pod("a", on(addrY)), b}},
		{IPAmbiguous, "two live holders", recordedA, []any{a, b}},
		{IPAmbiguous, "two live holders, nothing recorded", claimA, []any{a, b}},
		{IPAmbiguous, "the other holder is pending", recordedA, []any{a, pod("b", on(addrX), phase(pending))}},
		{IPAmbiguous, "the other holder is a mirror Pod", recordedA, []any{a, pod("b", on(addrX), mirror)}},
		{IPAmbiguous, "the other holder is elsewhere and not selected", recordedA, []any{a, pod("b", on(addrX), in("other"), unselected)}},
		{IPAmbiguous, "the other holder shares the second family", claim("a", "U-a", addrV6), []any{pod("a", on(addrX, addrV6)), pod("b", on(addrV6))}},

		{TargetNotAllowed, "out of scope", identity.Claim{Pod: identity.NamespacedName{Namespace: "kube-system", Name: "a"}, UID: "U-a", Port: 80, Authorized: true}, []any{pod("a", on(addrX), in("kube-system"))}},
		{TargetNotAllowed, "not selected", recordedA, []any{pod("a", on(addrX), unselected)}},
		{TargetNotAllowed, "not the caller's to name", identity.Claim{Pod: recordedA.Pod, UID: "U-a", Port: 80}, []any{a}},
		{PortNotAllowed, "another port", identity.Claim{Pod: recordedA.Pod, UID: "U-a", Port: 81, Authorized: true}, []any{a}},
		{PortNotAllowed, "no port", identity.Claim{Pod: recordedA.Pod, UID: "U-a", Authorized: true}, []any{a}},
		{AddressNotAllowed, "the Pod's address is its node's", recordedA, []any{pod("a", on(addrX), node(addrX))}},
		{AddressNotAllowed, "the Pod's address is another's node", recordedA, []any{a, pod("b", node(addrX))}},
		{AddressNotAllowed, "the Pod's address is that of a host-network Pod", recordedA, []any{a, pod("b", on(addrX), hostNetwork)}},
		{AddressNotAllowed, "cloud metadata", claim("a", "U-a", "169.254.169.254"), []any{pod("a", on("169.254.169.254"))}},
		{AddressNotAllowed, "loopback", claimA, []any{pod("a", on("127.0.0.1"))}},
		{AddressNotAllowed, "a forbidden record comes before a moved one", claim("a", "U-a", "127.0.0.1"), []any{a}},

		{TargetNotAllowed, "the zero claim", identity.Claim{}, []any{a}},
		{PodReplaced, "a claim without a uid that nobody made optional", identity.Claim{Pod: recordedA.Pod, Port: 80, Authorized: true}, []any{a}},
	} {
		got := decide(tc.claim, world(tc.world...))
		if got.Reason != tc.want {
			t.Errorf("%s: %v, want %v", tc.rule, got.Reason, tc.want)
		}
		if (got.rule != "") != (got.Reason.Status() == 403) {
			t.Errorf("%s: %v by rule %q", tc.rule, got.Reason, got.rule)
		}
		checkVerdict(t, tc.rule, got, tc.claim)
	}
}

// checkVerdict holds for every verdict whatever.
func checkVerdict(t *testing.T, rule string, v Verdict, c identity.Claim) {
	t.Helper()
	allowed := v.Reason == SamePod
	if v.Upstream.IsValid() != allowed || (v.UID != "") != allowed {
		t.Errorf("%s: %v with upstream %v and uid %q", rule, v.Reason, v.Upstream, v.UID)
	}
	if allowed && c.Recorded.IsValid() && v.Upstream != c.Recorded {
		t.Errorf("%s: allowed %v, but %v is recorded", rule, v.Upstream, c.Recorded)
	}
	if allowed && !c.AnyUID && v.UID != c.UID {
		t.Errorf("%s: allowed uid %q, but %q is claimed", rule, v.UID, c.UID)
	}
}

func TestDecideAddress(t *testing.T) {
	for _, tc := range []struct {
		rule, recorded string
		ips            []string
		want           string
	}{
		{"the primary address", "", []string{addrX, addrV6}, addrX + ":80"},
		{"the recorded address", addrV6, []string{addrX, addrV6}, "[" + addrV6 + "]:80"},
	} {
		if got := decide(claim("a", "U-a", tc.recorded), world(pod("a", on(tc.ips...)))); got.Upstream.String() != tc.want || got.UID != "U-a" {
			t.Errorf("%s: %+v, want %s", tc.rule, got, tc.want)
		}
	}
}

func TestDecideFreshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index := identity.NewIndex(identity.HistoryConfig{})
		feed := index.NewFeed("pods", "told", time.Minute)
		c := claim("a", "U-a", addrX)
		check := func(rule string, want Reason) {
			t.Helper()
			if got := decide(c, index).Reason; got != want {
				t.Errorf("%s: %v, want %v", rule, got, want)
			}
		}
		feed.Apply(pod("a", on(addrX)), time.Now())
		check("before the first list", NotSynced)
		feed.Replace([]identity.Pod{pod("a", on(addrX))}, time.Now())
		check("listed", SamePod)
		time.Sleep(time.Minute + 1)
		check("too old", ViewStale)
		c.Pod.Name = "gone"
		check("too old for a no as well", ViewStale)
		feed.Renew(time.Now())
		check("fresh again", PodGone)
	})
}

func TestDecideRequireReady(t *testing.T) {
	p := policy()
	p.RequireReady = true
	c := claim("a", "U-a", addrX)
	for _, tc := range []struct {
		want Reason
		pod  identity.Pod
	}{
		{SamePod, pod("a", on(addrX))},
		{PodNotReady, pod("a", on(addrX), unready)},
	} {
		if got := p.decide(c, at(world(tc.pod), c)).Reason; got != tc.want {
			t.Errorf("ready %v: %v, want %v", tc.pod.Ready, got, tc.want)
		}
	}
}

// TestZeroValuesDeny: forgetting something denies.
func TestZeroValuesDeny(t *testing.T) {
	c, full := claim("a", "U-a", addrX), policy()
	v := at(world(pod("a", on(addrX))), c)
	if got := full.decide(c, v).Reason; got != SamePod {
		t.Fatalf("the control is %v", got)
	}
	for _, tc := range []struct {
		rule string
		got  Verdict
	}{
		{"policy", (&Policy{}).decide(c, v)},
		{"scope", (&Policy{Ports: full.Ports}).decide(c, v)},
		{"ports", (&Policy{Scope: full.Scope}).decide(c, v)},
		{"claim", full.decide(identity.Claim{}, v)},
		{"target", full.decide(c, identity.Target{View: v.View})},
		{"view", full.decide(c, identity.Target{State: identity.Bound})},
		{"view but fresh", full.decide(c, identity.Target{State: identity.Bound, View: identity.View{Freshness: identity.Fresh}})},
		{"Pod but found", full.decide(c, identity.Target{State: identity.Bound, View: identity.View{Freshness: identity.Fresh, Found: true}})},
		{"verdict", Verdict{}},
	} {
		if tc.got.Reason == SamePod {
			t.Errorf("the zero %s allows", tc.rule)
		}
	}
}

// TestHotPathDoesNotAllocate covers everything that is samepod's own between
// Envoy's message and the answer's.
func TestHotPathDoesNotAllocate(t *testing.T) {
	index := world(pod("a", on(addrX, addrV6)), pod("b", on(addrY)))
	mapping, p := DefaultMapping(), policy()
	attrs := request().GetAttributes()
	var got Verdict
	if n := testing.AllocsPerRun(200, func() {
		c, err := mapping.Claim(attrs)
		if err != nil {
			t.Fatal(err)
		}
		got = p.decide(c, at(index, c))
	}); n != 0 {
		t.Errorf("request to verdict allocates %v times", n)
	}
	if want := netip.MustParseAddrPort(addrX + ":80"); got.Upstream != want {
		t.Errorf("verdict = %+v, want %v", got, want)
	}
}

func BenchmarkRequestToVerdict(b *testing.B) {
	index := world(pod("a", on(addrX, addrV6)), pod("b", on(addrY)))
	mapping, p := DefaultMapping(), policy()
	attrs := request().GetAttributes()
	b.ReportAllocs()
	for b.Loop() {
		c, err := mapping.Claim(attrs)
		if err != nil {
			b.Fatal(err)
		}
		if p.decide(c, at(index, c)).Reason != SamePod {
			b.Fatal("denied")
		}
	}
}
