package creation

import (
	"sync"
	"time"

	"github.com/samepod/samepod/identity"
)

// Config says what is measured.
type Config struct {
	// Deadline is how long the creation of a sandbox may take: T of the SLI.
	Deadline time.Duration
	// Grace is how long after the deadline the verdict waits for what is under way:
	// the kubelet's status update, and the watch. It makes no sandbox good that was
	// late.
	Grace time.Duration
	// Handover is until when another replica has counted, zero if none has. What
	// became known until then is its, and what was open is ours.
	Handover time.Time
	// Tell is called with each outcome, in order; it must not call the Tracker.
	Tell func(Outcome)
	// Version is told the version of each Node, before anything can fail there; it
	// may be nil.
	Version func(string)
}

// A Tracker gives one [Outcome] for each sandbox of each Pod. Its methods may be
// called by several goroutines at a time; they read the time themselves.
//
// Time is read from three clocks. Whether a sandbox was in time is told by the
// cluster's: the condition's time less the binding's. When to stop waiting is told by
// ours, counted from when we saw the Pod bound, so that a cluster whose clock is
// wrong makes nothing bad.
type Tracker struct {
	config Config
	began  time.Time

	mu     sync.Mutex
	pods   map[identity.UID]*tracked
	events map[identity.UID]*evidence
	nodes  map[string]Node
	// queue has who is waited for, by due time: the wait is the same for all, so
	// that is the order in which they came.
	queue   []appointment
	orphans int
}

type appointment struct {
	due        time.Time
	pod        *tracked
	generation int
}

// NewTracker makes a Tracker that counts from now on.
func NewTracker(c Config) *Tracker {
	t := &Tracker{config: c, began: time.Now(), pods: map[identity.UID]*tracked{}, events: map[identity.UID]*evidence{}, nodes: map[string]Node{}}
	if !c.Handover.IsZero() && t.began.Sub(c.Handover) > c.Deadline {
		t.config.Handover = time.Time{} // too long ago: Pods came and went that nobody has seen
	}
	return t
}

// Pod tells the present state of a Pod.
func (t *Tracker) Pod(p Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.see(&p, time.Now())
}

// Gone tells that a Pod is deleted, with its last state as far as that is known:
// after a break of the watch it may be older than what was told before.
func (t *Tracker) Gone(p Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if p.Deleted.IsZero() {
		p.Deleted = now
	}
	s := t.see(&p, now)
	if s.phase == waiting {
		t.conclude(s, now)
	}
	s.phase = ended
	delete(t.pods, p.UID)
	delete(t.events, p.UID)
}

// Event tells an Event about a Pod, which need not be known yet. One that comes
// again, as after a new list, changes nothing.
func (t *Tracker) Event(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Reason != failedSandbox && blockedBy(e.Reason) == NotExcluded {
		return
	}
	var from time.Time
	s := t.pods[e.Pod]
	if s != nil && s.generation > 1 {
		from = s.bound
	}
	v := t.events[e.Pod]
	if v == nil {
		if s == nil {
			if t.orphans >= mostOrphans {
				return
			}
			t.orphans++
		}
		v = &evidence{counts: map[string]int{}}
		t.events[e.Pod] = v
	}
	v.add(e, from, time.Now())
}

// Node tells the present state of a Node.
func (t *Tracker) Node(n Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes[n.Name] = n
	if t.config.Version != nil {
		t.config.Version(n.Version)
	}
}

// NodeGone tells that a Node is deleted.
func (t *Tracker) NodeGone(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.nodes, name)
}

// Pending is how many sandboxes are waited for.
func (t *Tracker) Pending() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, a := range t.queue {
		if a.open() {
			n++
		}
	}
	return n
}

// Tick gives the verdicts whose time had come when the source of Pods was heard last:
// of what a source that is silent does not tell, no sandbox is bad. It also forgets
// Events of Pods that never appeared. Call it about once a second.
func (t *Tracker) Tick(heard time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for len(t.queue) > 0 && (!t.queue[0].open() || !t.queue[0].due.After(heard)) {
		if a := t.queue[0]; a.open() {
			t.conclude(a.pod, now)
		}
		t.queue[0] = appointment{}
		t.queue = t.queue[1:]
	}
	if t.orphans == 0 {
		return
	}
	for uid, v := range t.events {
		if t.pods[uid] == nil && now.Sub(v.heard) > t.wait() {
			delete(t.events, uid)
			t.orphans--
		}
	}
}

func (t *Tracker) wait() time.Duration { return t.config.Deadline + t.config.Grace }

// open reports whether the sandbox is still waited for.
func (a appointment) open() bool { return a.pod.phase == waiting && a.pod.generation == a.generation }

// await waits for a sandbox of a generation.
func (t *Tracker) await(s *tracked, bound, now time.Time) {
	s.phase, s.bound = waiting, bound
	t.queue = append(t.queue, appointment{now.Add(t.wait()), s, s.generation})
}

// see takes the present state of a Pod.
func (t *Tracker) see(p *Pod, now time.Time) *tracked {
	s := t.pods[p.UID]
	if s == nil {
		s = &tracked{}
		t.pods[p.UID] = s
		if t.events[p.UID] != nil {
			t.orphans--
		}
	}
	s.pod = p
	if s.phase == unbound {
		bound, ok := p.bound()
		if !ok || p.Mirror {
			return s
		}
		t.enter(s, bound, now)
	}
	t.advance(s, now)
	return s
}

// enter begins the first generation, or leaves it to others.
func (t *Tracker) enter(s *tracked, bound, now time.Time) {
	s.generation = 1
	t.await(s, bound, now)
	node := t.nodes[s.pod.Node]
	s.nodeWasBad, s.nodeKnown = !node.wasReady(bound), node.Ready.Status != Absent
	if t.censored(s, now) {
		t.tell(s, Outcome{Result: Excluded, Exclusion: LeftCensored}, now)
		s.phase = judged
	}
}

// censored reports whether the Pod is not ours to judge. That must not depend on how
// the creation went: without a predecessor it depends on the time of binding alone,
// and with one, what it has not judged is judged here, whatever came of it. After a
// while what is seen first and is old was missed by a watch, and not by a predecessor.
func (t *Tracker) censored(s *tracked, now time.Time) bool {
	handover := t.config.Handover
	if handover.IsZero() || now.Sub(t.began) > t.config.Deadline {
		return now.Sub(s.bound) > t.config.Deadline
	}
	since, by := s.pod.created()
	if by == NoEvidence {
		return s.bound.Add(t.wait()).Before(handover)
	}
	return !since.After(handover)
}

// conclude gives the verdict about a sandbox that was not there in time.
func (t *Tracker) conclude(s *tracked, now time.Time) {
	if s.generation > 1 && (s.pod.Terminal || !s.pod.Deleted.IsZero()) {
		s.generation-- // the Pod has ended; nobody makes a sandbox for it
		s.phase = judged
		return
	}
	node := t.nodes[s.pod.Node]
	v := t.evidenceOf(s)
	o := Outcome{Attempts: v.failures}
	o.Result, o.Exclusion, o.Evidence = judge(question{
		pod: s.pod, events: v, bound: s.bound, deadline: t.config.Deadline, deleted: s.pod.Deleted,
		nodeWasBad: s.generation == 1 && (s.nodeWasBad || s.foundBad(node)), nodeIsBad: node.Ready.Status == False,
	})
	if o.Result == Bad {
		o.Cause = v.cause
	}
	s.bad = o.Result == Bad
	t.tell(s, o, now)
	s.phase = judged
}

// foundBad reports whether it became known only since that the node was not ready when
// the Pod was bound. One that was, went down and came back, as in an upgrade that
// breaks it, says so no more: its condition tells the last change alone.
func (s *tracked) foundBad(n Node) bool {
	return (!s.nodeKnown || n.Ready.Status == False) && !n.wasReady(s.bound)
}

func (t *Tracker) evidenceOf(s *tracked) *evidence {
	if v := t.events[s.pod.UID]; v != nil {
		return v
	}
	return &evidence{}
}

// tell completes an outcome.
func (t *Tracker) tell(s *tracked, o Outcome, now time.Time) {
	p := s.pod
	o.NamespacedName, o.UID, o.Node, o.RuntimeClass, o.Owner = p.NamespacedName, p.UID, p.Node, p.RuntimeClass, p.Owner
	o.NodeVersion, o.Generation, o.At = t.nodes[p.Node].Version, s.generation, now
	t.config.Tell(o)
}
