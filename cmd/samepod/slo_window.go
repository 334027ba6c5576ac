package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/samepod/samepod/creation"
)

// reader reads one window.
type reader func(ctx context.Context, from, to time.Time) (creation.Window, error)

// settled reads the window until now. A good sandbox is known at once, and a bad one
// after deadline and grace: so good ones are counted for a shorter time, in which
// whatever was bound has failed by now if it ever does. Bad ones from before the window
// stay in it: they lean to FAIL, and without them failed Pods that were deleted soon
// would be nowhere.
func (f *gateFlags) settled(ctx context.Context, read reader, begin, now time.Time) (creation.Window, error) {
	end := now.Add(-f.settle)
	if !end.After(begin) {
		return nothing(), nil // nothing can be told yet
	}
	early, err := read(ctx, begin, end) // first, so that a replica that restarts meanwhile covers less
	if err != nil {
		return early, err
	}
	w, err := read(ctx, begin, now)
	w.Good = early.Good
	for version, c := range w.NodeVersions {
		c.Good = early.NodeVersions[version].Good
		w.NodeVersions[version] = c
	}
	maps.DeleteFunc(w.NodeVersions, func(_ string, c creation.Counts) bool { return c.Total() == 0 })
	return w, err
}

// longestGap is between two samples of a replica that is taken to have counted in
// between. A scrape_interval is two minutes at most, or Prometheus forgets in between.
const longestGap = 150 * time.Second

// coverage is for how long of a window some replica counted, by the series of
// samepod_pod_sandbox_counting: two samples of a replica in a row say that it does.
// The counters tell nothing of that. They are there, and at rest, on each replica that
// does not count, while the one that does is not scraped.
func coverage(counting []series, from, to time.Time) time.Duration {
	type span struct{ begin, end time.Duration } // since from
	var spans []span
	for _, s := range counting {
		for i := 1; i < len(s.Values); i++ {
			a, b := s.Values[i-1], s.Values[i]
			if a.n == 1 && b.n == 1 && b.at.Sub(a.at) <= longestGap {
				spans = append(spans, span{a.at.Sub(from), min(b.at.Sub(from), to.Sub(from))})
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
	var sum, end time.Duration
	for _, s := range spans { // of two replicas that say so at a time, one counts
		sum += max(s.end-max(s.begin, end), 0)
		end = max(end, s.end)
	}
	return sum
}
