package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
// What was read is dropped where the watch has seen newer. Checks of one sandbox share
// reads. The error is [ErrBusy] if too many are under way.
func (x *Index) Confirm(ctx context.Context, c identity.Claim, t identity.Target) (identity.Target, error) {
	for range mostConflicts {
		next, s, err := x.read(ctx, c, t)
		if err != nil {
			return identity.Target{}, err
		}
		next.Live = true
		if next.State != identity.Bound || next.Pin != identity.PinWanted {
			return next, nil
		}
		pod := next.View.Pod
		why, err := x.pinning.ask(ctx, pinKey{s.UID, s.Version, pod.UID}, func(ctx context.Context) (string, error) {
			return x.pin(ctx, s, pod.NamespacedName, pod.UID)
		})
		switch {
		case err == nil && why == "":
			next.Pin = identity.PinHolds
			return next, nil
		case err == nil:
			next.State, next.Why = identity.NotAssigned, why
			return next, nil
		case !errors.Is(err, ErrConflict):
			return identity.Target{}, err
		}
		t = next
	}
	return identity.Target{}, fmt.Errorf("pin: %w, %d times", ErrConflict, mostConflicts)
}

// getKey is a sandbox that is read, pinKey a pin that is written.
type (
	getKey struct {
		kind string
		name identity.NamespacedName
	}
	pinKey struct {
		sandbox identity.UID
		version string
		pod     identity.UID
	}
)

// read asks for the sandbox of t, or for every one that the claim may mean.
func (x *Index) read(ctx context.Context, c identity.Claim, t identity.Target) (identity.Target, *Sandbox, error) {
	ask := x.find
	if t.SandboxUID != "" {
		ask = func(ctx context.Context, _ identity.Claim) ([]*Sandbox, error) {
			return x.get(ctx, t.SandboxKind, t.Sandbox)
		}
	}
	called, err := ask(ctx, c)
	if err != nil {
		return identity.Target{}, nil, err
	}
	now := time.Now()
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i, s := range called {
		called[i] = x.newer(s)
	}
	called = slices.DeleteFunc(called, func(s *Sandbox) bool { return !slices.Contains(s.callable(), c.Sandbox) })
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

// get reads one sandbox; none if it does not exist.
func (x *Index) get(ctx context.Context, kind string, name identity.NamespacedName) ([]*Sandbox, error) {
	all, err := x.gets.ask(ctx, getKey{kind, name}, func(ctx context.Context) ([]*Sandbox, error) {
		if !x.enter(mostReads) {
			return nil, ErrBusy
		}
		defer x.leave()
		var all []*Sandbox
		s, found, err := x.engine.Live.Get(ctx, kind, name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read sandbox %s: %w", name, err)
		case found:
			all = append(all, &s)
		}
		return all, nil
	})
	return slices.Clone(all), err
}

// find reads every sandbox that the claim may mean. Anybody can make names up, so these
// reads leave places to others.
func (x *Index) find(ctx context.Context, c identity.Claim) ([]*Sandbox, error) {
	if !x.finds.Allow() || !x.enter(mostReads/2) {
		return nil, ErrBusy
	}
	defer x.leave()
	all, err := x.engine.Live.Find(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("find sandbox %s: %w", c.Sandbox, err)
	}
	called := make([]*Sandbox, len(all))
	for i := range all {
		called[i] = &all[i]
	}
	return called, nil
}

// enter takes a place for a read, unless most are taken.
func (x *Index) enter(most int32) bool {
	if x.reads.Add(1) > most {
		x.reads.Add(-1)
		return false
	}
	return true
}

func (x *Index) leave() { x.reads.Add(-1) }

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

// pin writes the pin of s to its Pod, which is read first: what was watched of it may be
// old, and a pin outlives that. why says why there is none to pin.
func (x *Index) pin(ctx context.Context, s *Sandbox, name identity.NamespacedName, uid identity.UID) (why string, err error) {
	if !x.enter(mostReads) {
		return "", ErrBusy
	}
	defer x.leave()
	policy := x.engine.Pins
	pod, found, err := x.engine.Live.Pod(ctx, name)
	switch {
	case err != nil:
		return "", fmt.Errorf("read Pod %s: %w", name, err)
	case !found || pod.UID != uid || pod.Terminal() || pod.Terminating:
		return "its Pod is another one by now", nil // the watch will say so in a moment
	case pod.Phase != identity.PhaseRunning:
		// Engines build a Pod again that never ran: it is no state that is lost.
		return "its Pod does not run yet", nil
	}
	p := Pin{Sandbox: s.UID, Pod: pod.UID, Generation: s.Generation}
	if policy.Containers {
		if p.Container = pod.Container; p.Container == "" {
			return "its container has not started", nil
		}
	}
	if policy.Annotate {
		_, err := x.engine.Live.Annotate(ctx, *s, p.Text(policy.Key))
		switch {
		case err == nil:
			return "", nil
		case !errors.Is(err, ErrForbidden), policy.Required:
			return "", fmt.Errorf("pin sandbox %s: %w", s.NamespacedName, err)
		}
	}
	wanted := func(now Pin) bool {
		return now.judge(s, &pod, policy.Follow, policy.Containers) == identity.PinWanted
	}
	if !x.pins.keep(s, p, wanted) {
		return "", ErrConflict
	}
	x.unkept.Store(true)
	return "", nil
}

// PinsInMemory reports whether pins had to be kept in memory, where a restart and other
// replicas forget them.
func (x *Index) PinsInMemory() bool { return x.unkept.Load() }
