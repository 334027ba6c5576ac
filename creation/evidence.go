package creation

import "time"

// Bounds of what is remembered of Events. Beyond them nothing is learnt, which is
// "unknown", and never "good".
const (
	mostEvents  = 64     // Event objects of one Pod
	mostOrphans = 10_000 // Pods of which there are Events and nothing else
)

// evidence is what Events have told of one uid.
type evidence struct {
	counts map[string]int // by the Event's uid: replays after a new list count nothing
	heard  time.Time      // by our clock

	failures int // of the present generation, as far as they are told
	cause    Cause
	last     time.Time // of the event that said so
	blocked  Exclusion
}

// add takes one Event. Only what happened at from or later counts: the time of the
// present generation.
func (v *evidence) add(e Event, from, now time.Time) {
	v.heard = now
	before, known := v.counts[e.UID]
	if !known && len(v.counts) >= mostEvents {
		return
	}
	count := max(e.Count, 1)
	if count <= before {
		return
	}
	v.counts[e.UID] = count
	if e.At.Before(from) {
		return
	}
	if e.Reason != failedSandbox {
		if v.blocked == NotExcluded {
			v.blocked = blockedBy(e.Reason)
		}
		return
	}
	v.failures += count - before
	if e.At.Before(v.last) {
		return
	}
	v.last = e.At
	// "Name reserved" is the echo of an attempt that timed out and goes on.
	if cause := ParseCause(e.Message); cause != NameReserved || v.cause == UnknownCause {
		v.cause = cause
	}
}

// reset begins a generation: what failed before says nothing about it.
func (v *evidence) reset() {
	v.failures, v.cause, v.last, v.blocked = 0, UnknownCause, time.Time{}, NotExcluded
}
