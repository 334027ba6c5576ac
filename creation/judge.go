package creation

import "time"

// question is about a sandbox that was not there in time; see [judge].
type question struct {
	pod        *Pod
	events     *evidence
	bound      time.Time
	deadline   time.Duration
	deleted    time.Time // zero if it is not
	nodeWasBad bool      // not ready when the Pod was bound
	nodeIsBad  bool      // not ready now
}

// judge says what it means that a sandbox was not there in time. The order is that
// of the rules: what has nothing to do with sandboxes goes before, but for a sandbox
// that is known to have failed.
func judge(q question) (Result, Exclusion, Evidence) {
	p := q.pod
	switch {
	case q.nodeWasBad:
		return Excluded, NodeDown, NoEvidence
	case q.events.failures > 0:
		return Bad, NotExcluded, ByEvent
	case q.events.blocked != NotExcluded:
		return Excluded, q.events.blocked, ByEvent
	case p.refused():
		return Excluded, Admission, ByPhase
	case !q.deleted.IsZero() && q.deleted.Sub(q.bound) <= q.deadline:
		return Excluded, DeletedEarly, NoEvidence
	case p.Terminal:
		return Bad, NotExcluded, ByPhase
	case p.Sandbox.Status != Absent:
		return Bad, NotExcluded, ByCondition
	case !p.Acknowledged.IsZero():
		return Bad, NotExcluded, ByDeadline
	case q.nodeIsBad:
		return Excluded, NodeDown, NoEvidence
	}
	return Excluded, Silent, NoEvidence
}

// wasReady reports whether the Node was ready at a time, as far as its condition
// tells now. A Node that is not known is taken for ready: nothing is excluded for it.
func (n Node) wasReady(at time.Time) bool {
	switch n.Ready.Status {
	case True:
		return !n.Ready.Since.After(at)
	case False:
		return n.Ready.Since.After(at)
	case Absent:
	}
	return true
}

// elapsed is the time from binding to a transition, all of them whole seconds of
// clocks that need not agree: the API server's, the kubelet's, and for seen ours.
//
// A transition cannot come after it was seen, nor before the Pod was bound. The
// kubelet cannot have acknowledged a Pod (zero if it has not) before that either; if
// its clock says so, the time since then, by the same clock, is at least right.
func elapsed(bound, acknowledged, told, seen time.Time) (took time.Duration, skewed bool) {
	if told.IsZero() {
		told = seen
	}
	const rounding = time.Second // a clock of whole seconds is not wrong for that
	if told.After(seen.Add(rounding)) {
		told, skewed = seen, true
	}
	took = told.Sub(bound)
	if !acknowledged.IsZero() && acknowledged.Before(bound.Add(-rounding)) {
		took, skewed = told.Sub(acknowledged), true
	}
	if took < 0 {
		return 0, skewed || took < -rounding
	}
	return took, skewed
}
