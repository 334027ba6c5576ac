package authz

import (
	"context"
	"time"
)

// Wait lets a check wait for a Pod that is not ready yet, in place of an answer that
// makes the caller ask again. The zero Wait does not.
type Wait struct {
	// Longest is how long; it must be less than Envoy waits for the check.
	Longest time.Duration
	// Most is how many checks may wait at a time; others are answered at once.
	Most int
	// Changed is closed with the next change of anything that a Target is made of.
	Changed func() <-chan struct{}
}

// beforeEnvoy is how long before Envoy gives up an answer must be on its way.
const beforeEnvoy = 50 * time.Millisecond

// wait goes on deciding while the verdict is one that time can mend.
func (s *Server) wait(ctx context.Context, d *decision) {
	if s.config.Wait.Longest == 0 || !mends(d.verdict.Reason) {
		return
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return
	}
	until := d.started.Add(s.config.Wait.Longest)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-beforeEnvoy).Before(until) {
		until = deadline.Add(-beforeEnvoy)
	}
	over := time.NewTimer(time.Until(until))
	defer over.Stop()
	for {
		changed := s.config.Wait.Changed()
		if s.judge(ctx, d); !mends(d.verdict.Reason) {
			return
		}
		select {
		case <-changed:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// mends reports whether a verdict may become an allow by itself, in a moment.
func mends(r Reason) bool { return r == PodNotReady || r == NotAssigned }
