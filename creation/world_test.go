package creation

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/samepod/samepod/identity"
)

const (
	testDeadline = 60 * time.Second
	testGrace    = 10 * time.Second
)

// world is a Tracker, one Pod, and what was said about it. Its seconds count from
// when the Tracker began.
type world struct {
	t       *testing.T
	tracker *Tracker
	zero    time.Time
	pod     Pod
	said    []string
	all     []Outcome
	metrics *Metrics
}

// step is what is told at a second.
type step struct {
	at int
	do func(*world)
}

// play runs a script to its end and for as long again as a verdict can take, and
// returns all that was said.
func play(t *testing.T, config Config, steps ...step) string {
	t.Helper()
	var said string
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, config)
		for _, s := range steps {
			w.until(s.at)
			s.do(w)
		}
		w.until(int(time.Since(w.zero).Seconds()) + 200)
		if n := w.tracker.Pending(); n != 0 {
			t.Errorf("%d are waited for without end", n)
		}
		said = strings.Join(w.said, "; ")
	})
	return said
}

func newWorld(t *testing.T, config Config) *world {
	// As in a cluster, whose clocks stand a day away from the start of any.
	time.Sleep(24 * time.Hour)
	w := &world{t: t, zero: time.Now()}
	w.pod = Pod{NamespacedName: identity.NamespacedName{Namespace: "ns", Name: "a"}, UID: "uid-a", Owner: "rs"}
	config.Deadline, config.Grace = testDeadline, testGrace
	if !config.Handover.IsZero() { // given in seconds of the world
		config.Handover = w.second(int(config.Handover.Unix()))
	}
	config.Tell = func(o Outcome) {
		w.all = append(w.all, o)
		w.said = append(w.said, describe(o))
		if w.metrics != nil {
			w.metrics.Add(o)
		}
	}
	w.tracker = NewTracker(config)
	return w
}

func (w *world) second(n int) time.Time { return w.zero.Add(time.Duration(n) * time.Second) }

// until lets time pass, with a tick each second.
func (w *world) until(second int) {
	for time.Now().Before(w.second(second)) {
		time.Sleep(time.Second)
		w.tracker.Tick(time.Now())
	}
}

func describe(o Outcome) string {
	var b strings.Builder
	if o.Generation != 1 {
		fmt.Fprintf(&b, "#%d ", o.Generation)
	}
	b.WriteString(o.Result.String())
	for _, s := range []string{o.Exclusion.String(), o.Evidence.String()} {
		if s != "" {
			b.WriteString(" " + s)
		}
	}
	if o.Result == Bad && o.Cause != UnknownCause {
		b.WriteString(" " + o.Cause.String())
	}
	if o.Attempts > 0 {
		fmt.Fprintf(&b, " x%d", o.Attempts)
	}
	if o.Took > 0 {
		fmt.Fprintf(&b, " %v", o.Took)
	}
	if o.Skewed {
		b.WriteString(" skewed")
	}
	return b.String()
}

// change is what a kubelet, or a scheduler, writes of a Pod.
type change func(w *world, p *Pod)

// pod tells the Pod with these changes.
func pod(changes ...change) func(*world) {
	return func(w *world) {
		for _, c := range changes {
			c(w, &w.pod)
		}
		w.tracker.Pod(w.pod)
	}
}

// gone tells the Pod's end with these last changes.
func gone(changes ...change) func(*world) {
	return func(w *world) {
		for _, c := range changes {
			c(w, &w.pod)
		}
		w.tracker.Gone(w.pod)
	}
}

// bound is a Pod that a scheduler has given a node.
func bound(at int) change {
	return func(w *world, p *Pod) { p.Node, p.Scheduled = "n1", Condition{True, w.second(at)} }
}

// acknowledged is what a kubelet writes first: fixtures, kubelet-1.35.4-podstatus.json.
func acknowledged(at int) change {
	return func(w *world, p *Pod) {
		p.Acknowledged, p.Sandbox = w.second(at), Condition{False, w.second(at)}
	}
}

func created(at int) change {
	return func(w *world, p *Pod) {
		p.Sandbox, p.Acknowledged = Condition{True, w.second(at)}, w.second(min(at, 0))
	}
}
func isFalse(at int) change {
	return func(w *world, p *Pod) { p.Sandbox = Condition{False, w.second(at)} }
}
func isTrue(at int) change {
	return func(w *world, p *Pod) { p.Sandbox = Condition{True, w.second(at)} }
}
func container(at int) change {
	return func(w *world, p *Pod) { p.Container, p.Begun = true, w.second(at) }
}
func deleted(at int) change        { return func(w *world, p *Pod) { p.Deleted = w.second(at) } }
func hostNetwork(_ *world, p *Pod) { p.HostNetwork = true }
func mirror(_ *world, p *Pod)      { p.Mirror = true }
func ip(s string) change           { return func(_ *world, p *Pod) { p.IP = netip.MustParseAddr(s) } }
func terminal(reason string) change {
	return func(_ *world, p *Pod) { p.Terminal, p.Reason = true, reason }
}

const bootEOF = `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox "735aa570a29556b150444a1a112813b584379c306761e20a5a9a0bfd9a2b1557": failed to create containerd task: failed to create shim task: OCI runtime create failed: creating container: cannot create sandbox: cannot read client sync file: waiting for sandbox to start: EOF`

// event tells that something happened for the count-th time, in the Event object uid.
func event(uid, reason, message string, count int) func(*world) {
	return func(w *world) {
		w.tracker.Event(Event{UID: uid, Pod: w.pod.UID, Reason: reason, Message: message, Count: count, At: time.Now()})
	}
}

func failure(uid string, count int) func(*world) { return event(uid, failedSandbox, bootEOF, count) }

func node(status Status, since int) func(*world) {
	return func(w *world) {
		w.tracker.Node(Node{Name: "n1", Ready: Condition{status, w.second(since)}, Version: "containerd://2.2.2"})
	}
}
