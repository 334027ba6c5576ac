package sandbox_test

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// TestTarget is what a claim on "a" means, one state of the world a line.
func TestTarget(t *testing.T) {
	const none = identity.UID("")
	own := pod("a-0", "10.0.0.1", ownedBy("a"))
	given := pod("p-1", "10.0.0.1", ofPool("del"))
	for _, tc := range []struct {
		rule  string
		want  identity.TargetState
		pod   identity.UID // of the View; none for no Pod
		world []any
	}{
		{"its own Pod", identity.Bound, "P-a-0", []any{box("a"), own}},
		{"the order of arrival does not matter", identity.Bound, "P-a-0", []any{own, box("a")}},
		{"called by another name", identity.Bound, "P-b-0", []any{box("b", called("a")), pod("b-0", "10.0.0.1", ownedBy("b"))}},
		{"no such sandbox", identity.SandboxUnknown, none, []any{box("b"), own}},
		{"a sandbox out of scope is not seen", identity.SandboxUnknown, none, []any{box("a", outOfScope), own}},
		{"a name that is taken again out of scope is not ambiguous", identity.Bound, "P-a-0", []any{box("a"), own, box("a", outOfScope, uid("S-x"))}},
		{"in two namespaces", identity.SandboxAmbiguous, none, []any{box("a"), own, box("a", elsewhere, uid("S-x"))}},
		{"a name and another's id", identity.SandboxAmbiguous, none, []any{box("a"), own, box("b", called("a"))}},
		{"called twice the same is once", identity.Bound, "P-a-0", []any{box("a", called("a", "a")), own}},
		{"being deleted", identity.SandboxGone, none, []any{box("a", deleting), own}},
		{"ended", identity.SandboxGone, none, []any{box("a", ended), own}},
		{"expired, though nobody has noticed", identity.SandboxGone, none, []any{box("a", expired), own}},
		{"suspended", identity.SandboxSuspended, none, []any{box("a", suspended), own}},
		{"resuming, and its Pod runs", identity.Bound, "P-a-0", []any{box("a", resuming), own}},
		{"resuming, and it has none", identity.SandboxSuspended, none, []any{box("a", resuming)}},
		{"resuming, and its Pod is on its way out", identity.SandboxSuspended, "P-a-0", []any{box("a", resuming), pod("a-0", "10.0.0.1", ownedBy("a"), terminating)}},
		{"not anybody's yet", identity.NotAssigned, none, []any{box("a", unassigned), own}},
		{"its object cannot be read", identity.SandboxUnreadable, none, []any{box("a", unreadable), own}},
		{"secret, and none is shown", identity.AccessDenied, none, []any{box("a", secret("t")), own}},
		{"access comes before what else is wrong", identity.AccessDenied, none, []any{box("a", secret("t"), deleting), own}},

		{"no Pod yet", identity.NotAssigned, none, []any{box("a")}},
		{"a Pod of a sandbox that had the name before", identity.NotAssigned, none, []any{box("a", uid("S-new")), own}},
		{"two live Pods", identity.SandboxAmbiguous, "P-a-1", []any{box("a"), own, pod("a-1", "10.0.0.2", ownedBy("a"))}},
		{"one live Pod beside one that has ended", identity.Bound, "P-a-1", []any{box("a"), pod("a-0", "10.0.0.1", ownedBy("a"), failed), pod("a-1", "10.0.0.2", ownedBy("a"))}},
		{"one live Pod beside one that is being deleted", identity.Bound, "P-a-1", []any{box("a"), pod("a-1", "10.0.0.2", ownedBy("a")), pod("a-0", "10.0.0.1", ownedBy("a"), terminating)}},
		{"a Pod elsewhere that calls it its owner", identity.NotAssigned, none, []any{box("a"), pod("e", "10.0.0.1", ownedBy("a"), podElsewhere)}},
		{"its own Pod, and one elsewhere that calls it its owner", identity.Bound, "P-a-0", []any{box("a"), own, pod("e", "10.0.0.2", ownedBy("a"), podElsewhere)}},
		{"only a Pod that has ended", identity.Bound, "P-a-0", []any{box("a"), pod("a-0", "10.0.0.1", ownedBy("a"), failed)}},
		{"a controller of another kind with the same uid", identity.PodForeign, "P-a-0", []any{box("a"), pod("a-0", "10.0.0.1", ofPool("del"), func(p *identity.Pod) { p.Owner.UID = "S-a" })}},
		{"the engine's own marks refuse", identity.PodForeign, "P-a-0", []any{box("a"), pod("a-0", "10.0.0.1", ownedBy("a"), marked)}},

		{"a Pod of a Pool", identity.Bound, "P-p-1", []any{box("a", pooled("del", "p-1")), given}},
		{"given a Pod that is gone", identity.Bound, none, []any{box("a", pooled("del", "p-1"))}},
		{"given none yet", identity.NotAssigned, none, []any{box("a", pooled("del")), given}},
		{"given one and it was taken away", identity.Releasing, none, []any{box("a", pooled("del"), released), given}},
		{"given two", identity.SandboxAmbiguous, none, []any{box("a", pooled("del", "p-1", "p-2")), given}},
		{"of another Pool by now", identity.PodForeign, "P-p-1", []any{box("a", pooled("noop", "p-1")), given}},
		{"nobody's Pod", identity.PodForeign, "P-p-1", []any{box("a", pooled("del", "p-1")), pod("p-1", "10.0.0.1")}},
		{"its own Pod is none of a Pool", identity.PodForeign, "P-a-0", []any{box("a", pooled("del", "a-0")), own}},
		{"claimed twice", identity.PodShared, "P-p-1", []any{box("a", pooled("del", "p-1")), box("b", pooled("del", "p-1")), given}},
		{"claimed by one that is being deleted", identity.Bound, "P-p-1", []any{box("a", pooled("del", "p-1")), box("b", pooled("del", "p-1"), deleting), given}},
		{"claimed by one that has gone", identity.Bound, "P-p-1", []any{box("b", pooled("del", "p-1")), box("b"), box("a", pooled("del", "p-1")), given}},
		{"another namespace's Pod of the name", identity.Bound, "P-p-1", []any{box("a", pooled("del", "p-1")), box("b", pooled("del", "p-1"), elsewhere), given}},
	} {
		got := newWorld(engine(), tc.world...).index.Target(claim("a"))
		if got.State != tc.want || got.View.Pod.UID != tc.pod || got.View.Freshness != identity.Fresh {
			t.Errorf("%s: state %d, Pod %q, %v; want state %d, Pod %q", tc.rule, got.State, got.View.Pod.UID, got.View.Freshness, tc.want, tc.pod)
		}
	}
}

// TestTargetClaims varies the claim.
func TestTargetClaims(t *testing.T) {
	w := newWorld(engine(), box("a", secret("t")), pod("a-0", "10.0.0.1", ownedBy("a")), box("a", elsewhere, uid("S-other")), pod("o-0", "10.0.0.2", ownedBy("other")))
	in := func(namespace string) identity.Claim {
		c := claim("a")
		c.Namespace, c.Access.Token, c.Path = namespace, "t", "/rest"
		return c
	}
	of := func(u identity.UID) identity.Claim { c := in("ns"); c.SandboxUID = u; return c }
	hint := func(ip string) identity.Claim { c := in("ns"); c.Hint = netip.MustParseAddr(ip); return c }
	for _, tc := range []struct {
		rule    string
		claim   identity.Claim
		want    identity.TargetState
		differs bool
	}{
		{"its namespace", in("ns"), identity.Bound, false},
		{"no namespace", in(""), identity.SandboxAmbiguous, false},
		{"a namespace out of scope", in("kube-system"), identity.SandboxUnknown, false},
		{"its uid", of("S-a"), identity.Bound, false},
		{"another uid", of("S-old"), identity.SandboxReplaced, false},
		{"a hint that is right", hint("10.0.0.1"), identity.Bound, false},
		{"a hint that is old", hint("10.0.0.9"), identity.Bound, true},
	} {
		got := w.index.Target(tc.claim)
		if got.State != tc.want || got.HintDiffers != tc.differs || got.HintStale {
			t.Errorf("%s: %+v, want state %d, differs %v", tc.rule, got, tc.want, tc.differs)
		}
		if tc.want == identity.Bound {
			check(t, tc.rule+": path", got.Path, "/rest")
			check(t, tc.rule+": address", got.View.Addr, netip.MustParseAddr("10.0.0.1"))
		}
	}
}

// TestAssert: where an operator's cluster picks the host, the published address is what
// the Pod must hold.
func TestAssert(t *testing.T) {
	e := engine()
	e.Assert = true
	dual := func(p *identity.Pod) { p.IPs = append(p.IPs, netip.MustParseAddr("fd00::1")) }
	for _, tc := range []struct {
		rule  string
		box   sandbox.Sandbox
		hint  string
		want  identity.TargetState
		addr  string
		holds bool
		stale bool
	}{
		{"the Pod's", box("a", publishes("10.0.0.1")), "", identity.Bound, "10.0.0.1", true, false},
		{"the Pod's other family", box("a", publishes("fd00::1")), "", identity.Bound, "fd00::1", true, false},
		{"another", box("a", publishes("10.0.0.9")), "", identity.Bound, "10.0.0.9", false, false},
		{"only the first counts", box("a", publishes("10.0.0.9", "10.0.0.1")), "", identity.Bound, "10.0.0.9", false, false},
		{"none", box("a"), "", identity.NotAssigned, "", false, false},
		{"one that cannot be read", box("a", publishes("")), "", identity.NotAssigned, "", false, false},
		{"a hint that is old", box("a", publishes("10.0.0.1")), "10.0.0.9", identity.Bound, "10.0.0.1", true, true},
	} {
		c := claim("a")
		if tc.hint != "" {
			c.Hint = netip.MustParseAddr(tc.hint)
		}
		got := newWorld(e, tc.box, pod("a-0", "10.0.0.1", ownedBy("a"), dual)).index.Target(c)
		if got.State != tc.want || got.HintStale != tc.stale || tc.want == identity.Bound && (got.View.Addr != netip.MustParseAddr(tc.addr) || got.View.Holds != tc.holds) {
			t.Errorf("%s: %+v", tc.rule, got)
		}
	}
}

// TestReread: only a Pool that deletes its Pods leaves a trace.
func TestReread(t *testing.T) {
	for _, tc := range []struct {
		pool string
		want bool
	}{{"del", false}, {"noop", true}, {"unheard-of", true}} {
		got := newWorld(engine(), box("a", pooled(tc.pool, "p-1")), pod("p-1", "10.0.0.1", ofPool(tc.pool))).index.Target(claim("a"))
		if got.State != identity.Bound || got.Reread != tc.want {
			t.Errorf("pool %s: %+v", tc.pool, got)
		}
	}
}

// TestPinStates is what a pin makes of a Pod.
func TestPinStates(t *testing.T) {
	strict := sandbox.PinPolicy{Enabled: true}
	follow := sandbox.PinPolicy{Enabled: true, Follow: true}
	containers := sandbox.PinPolicy{Enabled: true, Containers: true}
	followContainers := sandbox.PinPolicy{Enabled: true, Containers: true, Follow: true}
	foreign := func(s *sandbox.Sandbox) { s.Pin = sandbox.Pin{Sandbox: "S-other", Pod: "P-a-0"} }
	noContainer := func(s *sandbox.Sandbox) { s.Pin.Container = "" }
	own := pod("a-0", "10.0.0.1", ownedBy("a"))
	for _, tc := range []struct {
		rule   string
		policy sandbox.PinPolicy
		box    sandbox.Sandbox
		pod    identity.Pod
		want   identity.PinState
	}{
		{"off", sandbox.PinPolicy{}, box("a", pinned("P-old", 0)), own, identity.NoPins},
		{"none yet", strict, box("a"), own, identity.PinWanted},
		{"the same", strict, box("a", pinned("P-a-0", 0)), own, identity.PinHolds},
		{"another Pod", strict, box("a", pinned("P-old", 0)), own, identity.PinBroken},
		{"another Pod, followed", follow, box("a", pinned("P-old", 0)), own, identity.PinWanted},
		{"another Pod after a pause", strict, box("a", generation(3), pinned("P-old", 1)), own, identity.PinWanted},
		{"the same Pod after a pause is pinned anew", strict, box("a", generation(3), pinned("P-a-0", 1)), own, identity.PinWanted},
		{"a generation that went back", strict, box("a", generation(1), pinned("P-a-0", 3)), own, identity.PinBroken},
		{"another sandbox's pin", strict, box("a", foreign), own, identity.PinRefused},
		{"another sandbox's pin is not followed", follow, box("a", foreign), own, identity.PinRefused},
		{"one that cannot be believed", strict, box("a", badPin), own, identity.PinRefused},
		{"one that cannot be believed is not followed", follow, box("a", badPin), own, identity.PinRefused},
		{"a new container is nobody's business", strict, box("a", pinned("P-a-0", 0)), pod("a-0", "10.0.0.1", ownedBy("a"), restarted), identity.PinHolds},
		{"a new container, and containers are pinned", containers, box("a", pinned("P-a-0", 0)), pod("a-0", "10.0.0.1", ownedBy("a"), restarted), identity.PinRestarted},
		{"a new container, followed", followContainers, box("a", pinned("P-a-0", 0)), pod("a-0", "10.0.0.1", ownedBy("a"), restarted), identity.PinWanted},
		{"a pin from before containers were pinned", containers, box("a", pinned("P-a-0", 0), noContainer), own, identity.PinWanted},
	} {
		e := engine()
		e.Pins = tc.policy
		got := newWorld(e, tc.box, tc.pod).index.Target(claim("a"))
		if got.State != identity.Bound || got.Pin != tc.want {
			t.Errorf("%s: state %d, pin %d, want pin %d", tc.rule, got.State, got.Pin, tc.want)
		}
	}
}

// TestNoPod: a Pod that was let through and is gone is lost, and no Pod that is still to
// come.
func TestNoPod(t *testing.T) {
	for _, tc := range []struct {
		rule   string
		follow bool
		box    sandbox.Sandbox
		want   identity.TargetState
	}{
		{"never let through", false, box("a"), identity.NotAssigned},
		{"lost", false, box("a", pinned("P-a-0", 0)), identity.Bound},
		{"lost, and another is followed", true, box("a", pinned("P-a-0", 0)), identity.NotAssigned},
		{"resumed, and the Pod is still to come", false, box("a", pinned("P-a-0", 0), generation(2)), identity.NotAssigned},
	} {
		e := engine()
		e.Pins = sandbox.PinPolicy{Enabled: true, Follow: tc.follow}
		got := newWorld(e, tc.box).index.Target(claim("a"))
		if got.State != tc.want || got.View.Found {
			t.Errorf("%s: %+v, want state %d", tc.rule, got, tc.want)
		}
	}
}

// TestFreshness: the worst word of everything that is read decides.
func TestFreshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := identity.NewIndex(identity.HistoryConfig{})
		index := sandbox.NewIndex(engine(), pods)
		podFeed, boxFeed := pods.NewFeed("pods", "told", time.Hour), index.NewFeed("boxes", "told", time.Minute)
		is := func(rule string, want identity.Freshness) {
			t.Helper()
			for _, n := range []string{"a", "unknown"} {
				check(t, rule+": "+n, index.Target(claim(n)).View.Freshness, want)
			}
		}
		podFeed.Replace([]identity.Pod{pod("a-0", "10.0.0.1", ownedBy("a"))}, time.Now())
		is("the sandboxes are not listed", identity.NotSynced)
		boxFeed.Replace([]sandbox.Sandbox{box("a")}, time.Now())
		is("listed", identity.Fresh)
		time.Sleep(time.Minute + 1)
		is("the sandboxes are too old", identity.Stale)
		check(t, "which feed", index.Target(claim("a")).View.Feed, "boxes")
		boxFeed.Renew(time.Now())
		is("fresh again", identity.Fresh)
		check(t, "a fault is news", boxFeed.Fail(errors.New("gone")), true)
		check(t, "a fault is news once", boxFeed.Fail(errors.New("gone")), false)
		check(t, "a fault is told", index.Feeds()[0].Fault, "gone")
		time.Sleep(time.Hour)
		boxFeed.Renew(time.Now())
		is("the Pods are too old", identity.Stale)
		check(t, "which feed", index.Target(claim("a")).View.Feed, "pods")
	})
}

func TestTargetDoesNotAllocate(t *testing.T) {
	e := engine()
	e.Pins = sandbox.PinPolicy{Enabled: true}
	w := newWorld(e, box("a", pinned("P-a-0", 0)), pod("a-0", "10.0.0.1", ownedBy("a")), box("b", pooled("noop", "p-1")), pod("p-1", "10.0.0.2", ofPool("noop")))
	for _, n := range []string{"a", "b", "unknown"} {
		c := claim(n)
		if got := testing.AllocsPerRun(100, func() { w.index.Target(c) }); got != 0 {
			t.Errorf("Target of %s allocates %v times", n, got)
		}
	}
}
