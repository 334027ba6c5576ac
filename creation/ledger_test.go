package creation

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/samepod/samepod/identity"
)

// TestLedger: what a window has, and for how long of it somebody counted.
func TestLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Ledger
		zero := time.Now()
		second := func(n int) time.Time { return zero.Add(time.Duration(n) * time.Second) }
		say := func(at int, o Outcome) {
			time.Sleep(time.Until(second(at)))
			o.At = time.Now()
			if o.Generation == 0 {
				o.Generation = 1
			}
			l.Add(o)
		}
		l.Counting(true)
		say(5, Outcome{Result: Good, NodeVersion: "v1"})
		say(15, Outcome{Result: Good, NodeVersion: "v1"})
		say(16, Outcome{Result: Bad, UID: "a", Node: "n1", NodeVersion: "v2", Cause: BootEOF, Owner: "rs", NamespacedName: identity.NamespacedName{Namespace: "ns", Name: "a"}})
		say(17, Outcome{Result: Excluded, Exclusion: Volume})
		say(18, Outcome{Result: Good, Generation: 2})
		say(90, Outcome{Result: Recovered, UID: "a"})
		l.Counting(false)
		l.Counting(false)
		time.Sleep(time.Minute)
		l.Counting(true)
		say(165, Outcome{Result: Good})

		w := l.Window(second(10), second(20))
		if w.Counts != (Counts{1, 1}) || w.Covered != 10 || w.Owners != 1 || w.Causes["runsc-boot-eof"] != 1 || w.Excluded["volume"] != 1 {
			t.Errorf("%+v", w)
		}
		if want := map[string]Counts{"v1": {1, 0}, "v2": {0, 1}}; !maps.Equal(w.NodeVersions, want) {
			t.Errorf("%v", w.NodeVersions)
		}
		if len(w.Failed) != 1 || w.Failed[0].Pod != "ns/a" || !w.Failed[0].Recovered || len(w.Nodes) != 1 || w.Nodes[0] != (Named{"n1", 1}) {
			t.Errorf("%+v", w)
		}
		if w := l.Window(second(0), second(10)); w.Counts != (Counts{1, 0}) {
			t.Errorf("the window before has a part of it: %+v", w.Counts)
		}
		if w := l.Window(second(80), second(170)); w.Covered != 25 || w.Counts != (Counts{1, 0}) {
			t.Errorf("counted for %v s, want 10 and 15", w.Covered)
		}
		say(100_000, Outcome{Result: Good})
		if w := l.Window(zero, time.Now().Add(time.Second)); w.Total() != 1 || len(w.Failed) != 0 {
			t.Errorf("a day later: %+v", w)
		}
	})
}

// TestLedgerBounds: it does not grow with the fleet.
func TestLedgerBounds(t *testing.T) {
	var l Ledger
	now := time.Now()
	for i := range 3 * mostFailed {
		l.Add(Outcome{Generation: 1, Result: Bad, UID: identityUID(i), Node: fmt.Sprint(i), At: now.Add(time.Duration(i) * time.Second)})
	}
	w := l.Window(now.Add(-time.Hour), now.Add(24*time.Hour))
	if len(l.failed) != mostFailed || len(w.Failed) != mostInPages || len(w.Nodes) != mostInPages || w.Bad != 3*mostFailed {
		t.Errorf("%d kept, %d Pods and %d nodes named of %d", len(l.failed), len(w.Failed), len(w.Nodes), w.Bad)
	}
}
