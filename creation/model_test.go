package creation

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/samepod/samepod/identity"
)

// TestOnce: whatever is told, in whatever order, each generation of a Pod has at most
// one verdict, a first one that was waited for has exactly one, and nothing stays of
// Pods that are gone.
func TestOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 11), 1, 40).Draw(r, "steps")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 40), len(steps), len(steps)).Draw(r, "pauses")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Config{})
			verdicts, bad := map[string]int{}, map[string]bool{}
			for i, s := range steps {
				w.until(int(time.Since(w.zero).Seconds()) + pauses[i])
				w.pod.UID = identity.UID(fmt.Sprint("uid-", i%2))
				anything(s, i, int(time.Since(w.zero).Seconds()))(w)
			}
			for _, uid := range []identity.UID{"uid-0", "uid-1"} {
				w.pod.UID = uid
				gone()(w)
			}
			w.until(int(time.Since(w.zero).Seconds()) + 200)
			first := map[identity.UID]bool{}
			for _, o := range w.all {
				id := fmt.Sprint(o.UID, " ", o.Generation)
				if o.Result == Recovered {
					if !bad[id] {
						t.Errorf("%s has recovered and was not bad: %v", id, w.said)
					}
					bad[id] = false
					continue
				}
				first[o.UID] = first[o.UID] || o.Generation == 1
				if !first[o.UID] {
					t.Errorf("%s, and no first one: %v", id, w.said)
				}
				if verdicts[id]++; verdicts[id] > 1 {
					t.Errorf("%s has two verdicts: %v", id, w.said)
				}
				bad[id] = o.Result == Bad
			}
			if n := len(w.tracker.pods) + len(w.tracker.events) + len(w.tracker.queue) + w.tracker.orphans; n != 0 {
				t.Errorf("%d things stay", n)
			}
		})
	})
}

// anything is one of what can be told; a Pod that is gone is not told of again, so
// gone is the end of the script.
func anything(s, i, now int) func(*world) {
	switch s {
	case 0:
		return pod(bound(now - i%90))
	case 1:
		return pod(acknowledged(now))
	case 2:
		return pod(isTrue(now - i%5))
	case 3:
		return pod(isFalse(now))
	case 4:
		return pod(ip(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}).String()))
	case 5:
		return pod(container(now))
	case 6:
		return pod(deleted(now))
	case 7:
		return failure(fmt.Sprint("e", i%3), i)
	case 8:
		return event("v", "FailedMount", "", i)
	case 9:
		return node(Status(i%3), now-i)
	case 10:
		return pod(hostNetwork)
	}
	return pod(terminal("Evicted"))
}
