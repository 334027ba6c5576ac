package sandbox

import (
	"net/netip"
	"slices"
	"time"

	"github.com/samepod/samepod/identity"
)

// Target says what a claim on a sandbox means, by what was watched. It does not
// allocate or block.
func (x *Index) Target(c identity.Claim) identity.Target {
	now := time.Now()
	x.mu.RLock()
	defer x.mu.RUnlock()
	s, state := one(x.names[c.Sandbox], c, x.engine.InScope)
	if s == nil {
		return x.worst(identity.Target{State: state, View: x.pods.Look(identity.NamespacedName{}, netip.Addr{})}, now)
	}
	return x.worst(x.resolve(c, s, now), now)
}

// one picks the sandbox that the claim means.
func one(called []*Sandbox, c identity.Claim, inScope func(string) bool) (*Sandbox, identity.TargetState) {
	var found *Sandbox
	for _, s := range called {
		switch {
		case !inScope(s.Namespace), c.Namespace != "" && s.Namespace != c.Namespace:
		case found != nil:
			return nil, identity.SandboxAmbiguous
		default:
			found = s
		}
	}
	if found == nil {
		return nil, identity.SandboxUnknown
	}
	return found, identity.Bound
}

// worst gives a Target the freshness of the engine's own feeds, if that is worse than
// the Pods'. It must be called with mu held.
func (x *Index) worst(t identity.Target, now time.Time) identity.Target {
	v := &t.View
	pods := identity.FeedStatus{Freshness: v.Freshness, Age: v.Age}
	if w := x.freshness(now); w.Worse(pods) {
		v.Freshness, v.Feed, v.Age = w.Freshness, w.Name, w.Age
	}
	return t
}

// resolve says which Pod s means to this claim. It must be called with mu held.
func (x *Index) resolve(c identity.Claim, s *Sandbox, now time.Time) identity.Target {
	t := identity.Target{State: identity.Bound, Sandbox: s.NamespacedName, SandboxUID: s.UID, SandboxKind: s.Kind, Renew: s.Renew}
	state, path := x.engine.Access(c, s)
	t.Path = path
	switch {
	case state != identity.Bound:
		t.State = state
	case c.SandboxUID != "" && c.SandboxUID != s.UID:
		t.State = identity.SandboxReplaced
	case s.gone(now):
		t.State = identity.SandboxGone
	case s.Malformed != "":
		t.State, t.Why = identity.SandboxUnreadable, s.Malformed
	case s.Suspended:
		t.State = identity.SandboxSuspended
	case s.Unassigned:
		t.State = identity.NotAssigned
	}
	recorded, published := x.recorded(s)
	switch {
	case t.State != identity.Bound:
		t.View = x.pods.Look(identity.NamespacedName{}, netip.Addr{})
		return t
	case s.Pool != "":
		x.pooled(&t, s, recorded)
	default:
		x.owned(&t, s, recorded)
	}
	if s.Resuming && (t.State == identity.Bound || t.State == identity.NotAssigned) && !runs(&t.View) {
		t.State = identity.SandboxSuspended
	}
	if t.State != identity.Bound || !t.View.Found {
		return t
	}
	if t.State = x.engine.Refuse(s, t.View.Pod); t.State != identity.Bound {
		return t
	}
	if !published {
		t.State, t.Why = identity.NotAssigned, "the engine publishes no address"
		return t
	}
	if x.engine.Pins.Enabled {
		t.Pin = x.pins.of(s).judge(s, &t.View.Pod, x.engine.Pins.Follow, x.engine.Pins.Containers)
		if t.Pin == identity.PinRefused {
			t.Why = s.PinFault
		}
	}
	t.HintDiffers = c.Hint.IsValid() && !slices.Contains(t.View.Pod.IPs, c.Hint)
	t.HintStale = t.HintDiffers && x.engine.Assert
	return t
}

func runs(v *identity.View) bool {
	return v.Found && v.Pod.Phase == identity.PhaseRunning && !v.Pod.Terminating
}

// recorded is the address that an operator's own cluster dials: the first that the
// engine publishes. Where samepod says what is dialled, nobody asks for it.
func (x *Index) recorded(s *Sandbox) (addr netip.Addr, published bool) {
	if !x.engine.Assert {
		return netip.Addr{}, true
	}
	if len(s.Published) == 0 || !s.Published[0].IsValid() {
		return netip.Addr{}, false
	}
	return s.Published[0], true
}

// owned finds the Pod of a sandbox that controls its own.
func (x *Index) owned(t *identity.Target, s *Sandbox, recorded netip.Addr) {
	var live int
	t.View, live = x.pods.LookOwned(s.Namespace, s.UID, recorded)
	switch {
	case live > 1:
		t.State, t.Why = identity.SandboxAmbiguous, "it controls several live Pods"
	case !t.View.Found && !x.lost(s):
		t.State, t.Why = identity.NotAssigned, "it has no Pod"
	case t.View.Found && t.View.Pod.Owner.Kind != s.Kind:
		t.State = identity.PodForeign
	}
}

// lost reports whether s had a Pod that was let through, and that nothing replaces: it
// is then not a Pod that is still to come.
func (x *Index) lost(s *Sandbox) bool {
	p := x.pins.of(s)
	return p != (Pin{}) && !x.engine.Pins.Follow && s.Generation <= p.Generation
}

// pooled finds the Pod of a sandbox that is given one of a Pool. The Pod does not say
// whose it is: only the sandboxes do, so nobody else may claim it.
func (x *Index) pooled(t *identity.Target, s *Sandbox, recorded netip.Addr) {
	switch {
	case len(s.Pods) == 0 && s.Released:
		t.State = identity.Releasing
	case len(s.Pods) == 0:
		t.State = identity.NotAssigned
	case len(s.Pods) > 1:
		t.State, t.Why = identity.SandboxAmbiguous, "it is given several Pods"
	}
	if t.State != identity.Bound {
		t.View = x.pods.Look(identity.NamespacedName{}, netip.Addr{})
		return
	}
	name := identity.NamespacedName{Namespace: s.Namespace, Name: s.Pods[0]}
	t.View = x.pods.Look(name, recorded)
	for _, other := range x.claims[name] {
		if other.UID != s.UID {
			t.State, t.Why = identity.PodShared, other.Name
		}
	}
	owner := t.View.Pod.Owner
	if t.State == identity.Bound && t.View.Found && (owner.Kind != x.engine.PoolKind || owner.Name != s.Pool) {
		t.State = identity.PodForeign
	}
	t.Reread = x.pools[identity.NamespacedName{Namespace: s.Namespace, Name: s.Pool}] != RecycleDelete
}
