package creation

import (
	"net/netip"
	"time"
)

// phase is how far the present generation of a Pod's sandbox is.
type phase uint8

const (
	unbound phase = iota // to no node, as far as is known
	waiting              // for the sandbox, or for the deadline
	judged               // without having been seen
	running              // the sandbox is there
	ended                // nothing is expected any more
)

// tracked is one Pod uid.
type tracked struct {
	pod        *Pod // as told last
	phase      phase
	generation int
	bound      time.Time // or when the sandbox before ended
	nodeWasBad bool
	nodeKnown  bool // when the Pod was bound: what is told of it since is news
	bad        bool // the verdict was Bad

	// What tells this generation from the next: the condition's time and the address.
	// They change in one update or in two, so each says whether it is this
	// generation's own, or still that of the one before.
	since    time.Time
	sinceOwn bool
	ip       netip.Addr
	ipOwn    bool
}

// advance takes the Pod's state as far as it goes.
func (t *Tracker) advance(s *tracked, now time.Time) {
	switch s.phase {
	case waiting:
		t.advanceWaiting(s, now)
	case judged:
		if since, by := s.created(); by != NoEvidence {
			t.recovered(s, since, by, now)
		}
	case running:
		t.advanceRunning(s, now)
	case unbound, ended:
	}
}

// created is the evidence for a sandbox of this generation: an earlier one leaves its
// containers and its address in the status.
func (s *tracked) created() (since time.Time, by Evidence) {
	since, by = s.pod.created()
	if s.generation > 1 && by != ByCondition {
		return time.Time{}, NoEvidence
	}
	return since, by
}

func (t *Tracker) advanceWaiting(s *tracked, now time.Time) {
	since, by := s.created()
	switch {
	case by == NoEvidence && s.generation > 1 && s.pod.ending():
		t.conclude(s, now)
	case by == NoEvidence && s.pod.Terminal:
		t.conclude(s, now)
	case by != NoEvidence:
		took, skewed := s.elapsed(since, now)
		if took > t.config.Deadline {
			t.conclude(s, now)
			t.recovered(s, since, by, now)
			return
		}
		t.tell(s, Outcome{Result: Good, Evidence: by, Took: took, Skewed: skewed}, now)
		s.run()
	}
}

// recovered takes a sandbox that is there after the verdict.
func (t *Tracker) recovered(s *tracked, since time.Time, by Evidence, now time.Time) {
	if s.bad {
		took, skewed := s.elapsed(since, now)
		t.tell(s, Outcome{Result: Recovered, Evidence: by, Took: took, Skewed: skewed}, now)
	}
	s.bad = false
	s.run()
}

// run says that the sandbox of this generation is there.
func (s *tracked) run() {
	p := s.pod
	s.phase = running
	s.sinceOwn = p.Sandbox.Status == True
	if s.sinceOwn {
		s.since = p.Sandbox.Since
	}
	if p.IP.IsValid() {
		s.ipOwn = s.generation == 1 || p.IP != s.ip
		s.ip = p.IP
	} else {
		s.ipOwn = false
	}
}

func (s *tracked) elapsed(told, seen time.Time) (took time.Duration, skewed bool) {
	acknowledged := s.pod.Acknowledged
	if s.generation > 1 {
		acknowledged = time.Time{} // long ago; the kubelet itself says when this one began
	}
	return elapsed(s.bound, acknowledged, told, seen)
}

func (p *Pod) ending() bool { return p.Terminal || !p.Deleted.IsZero() }

// advanceRunning looks for the next generation. When a Pod ends its condition becomes
// False too; that is no sandbox that died.
func (t *Tracker) advanceRunning(s *tracked, now time.Time) {
	p := s.pod
	if p.ending() {
		return
	}
	if p.Sandbox.Status == False && s.sinceOwn {
		t.next(s)
		t.await(s, p.Sandbox.Since, now)
		return
	}
	moved := p.Sandbox.Status == True && p.Sandbox.Since.After(s.since)
	other := p.IP.IsValid() && p.IP != s.ip && !p.HostNetwork
	switch {
	case moved && s.sinceOwn, other && s.ipOwn: // its end was missed
		t.next(s)
		s.sinceOwn, s.ipOwn = moved, other
		by := ByAddress
		if moved {
			by = ByCondition
		}
		t.tell(s, Outcome{Result: Good, Evidence: by}, now)
	default:
		s.sinceOwn, s.ipOwn = s.sinceOwn || moved, s.ipOwn || other || p.IP.IsValid() && s.generation == 1
	}
	if moved {
		s.since = p.Sandbox.Since
	}
	if p.IP.IsValid() {
		s.ip = p.IP
	}
}

// next begins another generation.
func (t *Tracker) next(s *tracked) {
	s.generation++
	s.bad = false
	if v := t.events[s.pod.UID]; v != nil {
		v.reset()
	}
}
