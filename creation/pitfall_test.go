package creation

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/samepod/samepod/identity"
)

// The pitfalls of an SLI that is made of Pods and Events, by the number that
// docs/creation.md gives them. 8 and 10 are where Kubernetes is: identity/kube and
// deploy; 9 is in the lab.

// 1. Events are aggregated after ten, dropped after 25, and gone after an hour. What
// they count is seen at the next that is let through; a missing one is unknown, and
// never good.
func TestPitfall1EventsAreBestEffort(t *testing.T) {
	if got, want := play(t, Config{},
		step{0, pod(bound(0), acknowledged(0))},
		step{5, failure("single", 1)},
		step{20, event("combined", failedSandbox, "(combined from similar events): "+bootEOF, 11)},
		step{55, event("combined", failedSandbox, "(combined from similar events): "+bootEOF, 14)}),
		"bad event runsc-boot-eof x15"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := play(t, Config{}, step{0, pod(bound(0), acknowledged(0))}), "bad condition"; got != want {
		t.Errorf("without events: %s, want %s", got, want)
	}
}

// 2. A new list after a break replays old events.
func TestPitfall2RelistReplaysEvents(t *testing.T) {
	if got, want := play(t, Config{},
		step{0, pod(bound(0), acknowledged(0))},
		step{5, failure("e", 1)}, step{9, failure("e", 3)},
		step{20, failure("e", 3)}, step{20, failure("e", 1)}),
		"bad event runsc-boot-eof x3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// Old events of a Pod that is not ours count nothing.
	if got, want := play(t, Config{}, step{0, failure("e", 40)}, step{0, pod(bound(-90), acknowledged(-90))}), "excluded left_censored"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// Those of an earlier sandbox say nothing about the next.
	if got, want := play(t, Config{},
		step{0, pod(bound(0), acknowledged(0))}, step{5, failure("e", 1)}, step{9, pod(created(8), ip("10.0.0.1"))},
		step{20, pod(isFalse(20))},
		step{21, func(w *world) {
			w.tracker.Event(Event{UID: "late", Pod: w.pod.UID, Reason: failedSandbox, Message: bootEOF, Count: 1, At: w.second(6)})
		}}),
		"good condition 8s; #2 bad condition"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// 3. A flood of other warnings can starve FailedCreatePodSandBox: the condition is
// enough. And a flood of Event objects is bounded.
func TestPitfall3Starved(t *testing.T) {
	flood := func(w *world) {
		for i := range 5000 {
			event(fmt.Sprint("other-", i), "Unhealthy", "probe failed", 1)(w)
		}
		if n := len(w.tracker.events); n != 0 {
			w.t.Errorf("%d events of other reasons are kept", n)
		}
	}
	if got, want := play(t, Config{}, step{0, pod(bound(0), acknowledged(0))}, step{5, flood}), "bad condition"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		for i := range 2 * mostOrphans {
			w.tracker.Event(Event{UID: fmt.Sprint(i), Pod: "uid-x", Reason: failedSandbox, At: time.Now()})
			w.tracker.Event(Event{UID: "e", Pod: identityUID(i), Reason: failedSandbox, At: time.Now()})
		}
		if n := len(w.tracker.events["uid-x"].counts); n != mostEvents {
			t.Errorf("%d Events of one Pod are kept", n)
		}
		if n := len(w.tracker.events); n != mostOrphans {
			t.Errorf("%d Pods of which there are only Events", n)
		}
		w.until(100)
		if len(w.tracker.events) != 0 || w.tracker.orphans != 0 {
			t.Errorf("%d are kept of Pods that never came", len(w.tracker.events))
		}
	})
}

// 4. A deletion may be the first thing that is seen of a Pod, and fleets of agents
// delete within seconds: the verdict is given then.
func TestPitfall4Deleted(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"the first thing that is seen", []step{{5, gone(bound(2), isTrue(3))}}, "good condition 1s"},
		{"the first thing, of a failure", []step{{5, failure("e", 1)}, {6, gone(bound(2), acknowledged(2))}}, "bad event runsc-boot-eof x1"},
		{"the last state tells", []step{{0, pod(bound(0), acknowledged(0))}, {3, gone(container(2))}}, "good container 2s"},
		{"the last state is not known", []step{{0, pod(bound(0), created(1))}, {3, gone()}}, "good condition 1s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := play(t, Config{}, tc.steps...); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // and nothing of it stays
		w := newWorld(t, Config{})
		pod(bound(0), acknowledged(0))(w)
		failure("e", 1)(w)
		gone()(w)
		if len(w.tracker.pods)+len(w.tracker.events) != 0 {
			t.Error("something of a Pod stays that is gone")
		}
	})
}

// 5. A controller that makes its Pod anew is many uids and one fault.
func TestPitfall5DistinctOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Ledger
		for i, owner := range []string{"rs", "rs", "rs", "other", ""} {
			l.Add(Outcome{UID: identityUID(i), Generation: 1, Result: Bad, Owner: owner, At: time.Now()})
		}
		if w := l.Window(time.Now().Add(-time.Minute), time.Now().Add(time.Minute)); w.Owners != 3 || w.Bad != 5 {
			t.Errorf("%d owners of %d failures, want 3 of 5", w.Owners, w.Bad)
		}
		time.Sleep(2 * time.Hour)
		if n := l.Owners(); n != 0 {
			t.Errorf("%d owners two hours later", n)
		}
	})
}

// 6. Three clocks tell the time.
func TestPitfall6Clocks(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"the kubelet's is ahead", []step{{0, pod(bound(0))}, {1, pod(acknowledged(300))}, {3, pod(isTrue(302))}}, "good condition 3s skewed"},
		{"the kubelet's is behind", []step{{0, pod(bound(0))}, {1, pod(acknowledged(-300))}, {3, pod(isTrue(-298))}}, "good condition 2s skewed"},
		{"the kubelet's is behind, and it was late", []step{{0, pod(bound(0))}, {1, pod(acknowledged(-300))}, {68, pod(isTrue(-235))}}, "bad condition; recovered condition 1m5s skewed"},
		{"behind, and nothing else is told", []step{{0, pod(bound(0))}, {9, pod(isTrue(-50))}}, "good condition skewed"},
		{"rounded", []step{{0, pod(bound(1))}, {1, pod(acknowledged(0), isTrue(1))}}, "good condition"},
		{"the API server's is ahead of ours", []step{{0, pod(bound(20))}, {3, pod(acknowledged(21))}, {5, pod(isTrue(23))}}, "good condition skewed"},
		{"ours is ahead of all", []step{{0, pod(bound(-50), acknowledged(-50))}, {15, pod(isTrue(-47))}}, "good condition 3s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := play(t, Config{}, tc.steps...); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// 7. The condition becomes False when a Pod ends: the first True stays.
func TestPitfall7FirstTrueStays(t *testing.T) {
	if got, want := play(t, Config{}, step{0, pod(bound(0), created(1))}, step{9, pod(isFalse(8), terminal(""))}), "good condition 1s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// It was missed altogether.
	if got, want := play(t, Config{}, step{0, pod(bound(0))}, step{9, pod(isFalse(8), container(2), terminal(""))}), "good container 2s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestMetrics: the series are there from the start, and there are no others.
func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, []string{"gvisor"}, func() int { return 3 }, func() int { return 2 })
	count := func() int {
		n, err := testutil.GatherAndCount(reg)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	for _, class := range []string{"", "gvisor", "kata", "made-up"} {
		for _, c := range Causes() {
			m.Add(Outcome{Generation: 1, Result: Bad, RuntimeClass: class, Cause: c})
		}
		m.Add(Outcome{Generation: 1, Result: Good, RuntimeClass: class, Took: 3 * time.Second})
		m.Add(Outcome{Generation: 1, Result: Recovered, RuntimeClass: class, Took: 90 * time.Second})
		m.Add(Outcome{Generation: 2, Result: Good, RuntimeClass: class, Skewed: true})
	}
	for _, x := range Exclusions() {
		m.Add(Outcome{Generation: 1, Result: Excluded, Exclusion: x})
	}
	if after := count(); after != before {
		t.Errorf("%d series at the start, %d later", before, after)
	}
	for i := range 100 { // a cluster with an upgrade each week
		m.Version(fmt.Sprint("containerd://2.", i))
	}
	if after, most := count(), before+2*mostVersions; after > most {
		t.Errorf("%d series, want at most %d", after, most)
	}
	if got := testutil.ToFloat64(m.total.WithLabelValues("other", "bad")); got != float64(2*len(Causes())) {
		t.Errorf("%v bad of other classes", got)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func identityUID(i int) identity.UID { return identity.UID(fmt.Sprint("uid-", i)) }
