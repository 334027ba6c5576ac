package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/samepod/samepod/identity"
)

// mostConflicts is how often a pin is tried that others write at the same time: two
// replicas that pin one sandbox meet once.
const mostConflicts = 4

// Confirm asks the API server what a claim means, because what was watched is not
// enough: the sandbox is not known, its Pod may have been handed on without a trace
// ([identity.Target.Reread]), or it has no pin yet ([identity.PinWanted]). It then
// writes the pin. t is what [Index.Target] said. The reads begin after the call.
//
// What was read is dropped where the watch has seen newer. The error is [ErrBusy] if
// too many reads are under way.
func (x *Index) Confirm(ctx context.Context, c identity.Claim, t identity.Target) (identity.Target, error) {
	select {
	case x.reads <- struct{}{}:
		defer func() { <-x.reads }()
	default:
		return identity.Target{}, ErrBusy
	}
	for range mostConflicts {
		next, s, err := x.read(ctx, c, t)
		if err != nil {
			return identity.Target{}, err
		}
		next.Live = true
		if next.State != identity.Bound || next.Pin != identity.PinWanted {
			return next, nil
		}
		err = x.pin(ctx, s, &next)
		if !errors.Is(err, ErrConflict) {
			return next, err
		}
		t = next
	}
	return identity.Target{}, fmt.Errorf("pin: %w, %d times", ErrConflict, mostConflicts)
}

// read asks for the sandbox of t, or for every one that the claim may mean.
func (x *Index) read(ctx context.Context, c identity.Claim, t identity.Target) (identity.Target, *Sandbox, error) {
	var called []*Sandbox
	if t.SandboxUID == "" && !x.finds.Allow() {
		return identity.Target{}, nil, ErrBusy
	}
	if t.SandboxUID != "" {
		s, found, err := x.engine.Live.Get(ctx, t.SandboxKind, t.Sandbox)
		if err != nil {
			return identity.Target{}, nil, fmt.Errorf("read sandbox %s: %w", t.Sandbox, err)
		}
		if found {
			called = append(called, &s)
		}
	} else {
		all, err := x.engine.Live.Find(ctx, c)
		if err != nil {
			return identity.Target{}, nil, fmt.Errorf("find sandbox %s: %w", c.Sandbox, err)
		}
		for i := range all {
			called = append(called, &all[i])
		}
	}
	now := time.Now()
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i, s := range called {
		called[i] = x.newer(s)
	}
	s, state := one(called, c, x.engine.InScope)
	switch {
	case s != nil:
		return x.worst(x.resolve(c, s, now), now), s, nil
	case t.SandboxUID != "":
		t.State = identity.SandboxGone
	default:
		t.State = state
	}
	return x.worst(t, now), nil, nil
}

// newer is what the watch has of s, if that is newer. It must be called with mu held.
func (x *Index) newer(s *Sandbox) *Sandbox {
	for _, known := range x.names[s.Name] {
		if known.UID == s.UID && later(known.Version, s.Version) {
			return known
		}
	}
	return s
}

// later compares two resourceVersions of one kind, which are decimal numbers without
// leading zeros (KEP-5504).
func later(a, b string) bool {
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}

// pin writes the pin of s to the Pod of t, which is read first: what was watched of it
// may be old, and a pin outlives that.
func (x *Index) pin(ctx context.Context, s *Sandbox, t *identity.Target) error {
	policy := x.engine.Pins
	name := t.View.Pod.NamespacedName
	pod, found, err := x.engine.Live.Pod(ctx, name)
	switch {
	case err != nil:
		return fmt.Errorf("read Pod %s: %w", name, err)
	case !found || pod.UID != t.View.Pod.UID || pod.Terminal() || pod.Terminating:
		// The watch will say so in a moment.
		t.State, t.Why = identity.NotAssigned, "its Pod is another one by now"
		return nil
	case pod.Phase != identity.PhaseRunning:
		// Engines build a Pod again that never ran: it is no state that is lost.
		t.State, t.Why = identity.NotAssigned, "its Pod does not run yet"
		return nil
	}
	p := Pin{Sandbox: s.UID, Pod: pod.UID, Generation: s.Generation}
	if policy.Containers {
		p.Container = pod.Container
		if p.Container == "" {
			t.State, t.Why = identity.NotAssigned, "its container has not started"
			return nil
		}
	}
	if policy.Annotate {
		_, err = x.engine.Live.Annotate(ctx, *s, p.Text(policy.Key))
		if !errors.Is(err, ErrForbidden) || policy.Required {
			if err != nil {
				return fmt.Errorf("pin sandbox %s: %w", s.NamespacedName, err)
			}
			t.Pin = identity.PinHolds
			return nil
		}
	}
	wanted := func(now Pin) bool {
		return now.judge(s, &pod, policy.Follow, policy.Containers) == identity.PinWanted
	}
	if !x.pins.keep(s, p, wanted) {
		return ErrConflict
	}
	x.unkept.Store(true)
	t.Pin = identity.PinHolds
	return nil
}

// PinsInMemory reports whether pins had to be kept in memory, where a restart and other
// replicas forget them.
func (x *Index) PinsInMemory() bool { return x.unkept.Load() }
