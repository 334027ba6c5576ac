package identity_test

import (
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/samepod/samepod/identity"
)

var t0 = time.Date(2026, 11, 1, 17, 24, 44, 0, time.UTC)

const (
	running     = identity.PhaseRunning
	pending     = identity.PhasePending
	failed      = identity.PhaseFailed
	succeeded   = identity.PhaseSucceeded
	x, y        = "10.0.0.1", "10.0.0.2"
	v6          = "fd00::1"
	nodeAddress = "192.0.2.1"
)

func name(n string) identity.NamespacedName {
	return identity.NamespacedName{Namespace: "ns", Name: n}
}

func addrs(in ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range in {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// pod makes a Pod ns/n of this uid on these addresses.
func pod(n string, uid identity.UID, phase identity.Phase, ips ...string) identity.Pod {
	return identity.Pod{NamespacedName: name(n), UID: uid, Phase: phase, IPs: addrs(ips...)}
}

func terminating(p identity.Pod) identity.Pod { p.Terminating = true; return p }
func hostNetwork(p identity.Pod) identity.Pod { p.HostNetwork = true; return p }
func mirror(p identity.Pod) identity.Pod      { p.Mirror = true; return p }
func malformed(p identity.Pod) identity.Pod   { p.Malformed = "an address"; return p }

// An event is a write into the index; a script of them builds a state.
type event func(*identity.Feed)

func put(p identity.Pod) event { return func(f *identity.Feed) { f.Apply(p, time.Now()) } }
func del(n string, uid identity.UID) event {
	return func(f *identity.Feed) { f.Delete(name(n), uid, time.Now()) }
}
func list(pods ...identity.Pod) event { return func(f *identity.Feed) { f.Replace(pods, time.Now()) } }

func indexOf(script ...event) *identity.Index {
	index := identity.NewIndex(identity.HistoryConfig{Addresses: 100, Tenures: 8})
	feed := index.NewFeed("test", "told", time.Hour)
	feed.Replace(nil, time.Now())
	for _, e := range script {
		e(feed)
	}
	return index
}

// TestLook is the index's semantics, one state a line: who is seen by a look at
// this name and this recorded address ("" for none).
func TestLook(t *testing.T) {
	a, b := pod("a", "A", running, x), pod("b", "B", running, x)
	const none = ""
	for _, tc := range []struct {
		rule     string
		script   []event
		pod, rec string
		uid      identity.UID // of the Pod found; "" when none
		holds    bool
		others   int
	}{
		{"alone", []event{put(a)}, "a", none, "A", true, 0},
		{"alone, recorded", []event{put(a)}, "a", x, "A", true, 0},
		{"unknown name", []event{put(a)}, "b", none, none, false, 0},
		{"unknown name, recorded address of another", []event{put(a)}, "b", x, none, false, 1},
		{"same name elsewhere is another Pod (cilium#10098)", []event{put(identity.Pod{NamespacedName: identity.NamespacedName{Namespace: "other", Name: "a"}, UID: "O", Phase: running, IPs: addrs(x)})}, "a", x, none, false, 1},
		{"deleted", []event{put(a), del("a", "A")}, "a", x, none, false, 0},
		{"deleted by key alone", []event{put(a), del("a", none)}, "a", x, none, false, 0},
		{"late delete of the predecessor (cilium#16565)", []event{put(a), put(pod("a", "A2", running, y)), del("a", "A")}, "a", y, "A2", true, 0},
		{"late delete after the name is free", []event{put(a), del("a", "A"), del("a", "A")}, "a", x, none, false, 0},
		{"rebuild seen as one update", []event{put(a), put(pod("a", "A2", running, y))}, "a", x, "A2", false, 0},
		{"rebuild frees the old address", []event{put(a), put(pod("a", "A2", running, y)), put(b)}, "b", x, "B", true, 0},
		{"rebuild on the same address (istio#45789)", []event{put(a), put(pod("a", "A2", running, x))}, "a", x, "A2", true, 0},
		{"two live holders", []event{put(a), put(b)}, "a", x, "A", true, 1},
		{"two live holders, the other side", []event{put(a), put(b)}, "b", x, "B", true, 1},
		{"three live holders", []event{put(a), put(b), put(pod("c", "C", running, x))}, "b", x, "B", true, 2},
		{"second holder leaves (ztunnel#1409)", []event{put(a), put(b), del("b", "B")}, "a", x, "A", true, 0},
		{"first holder leaves", []event{put(a), put(b), del("a", "A")}, "b", x, "B", true, 0},
		{"a Pending Pod with an address holds it (kiam)", []event{put(a), put(pod("b", "B", pending, x))}, "a", x, "A", true, 1},
		{"a Pod of unknown phase holds its address", []event{put(a), put(pod("b", "B", identity.PhaseUnknown, x))}, "a", x, "A", true, 1},
		{"a failed Pod holds nothing (kubernetes#109414)", []event{put(pod("b", "B", failed, x)), put(a)}, "a", x, "A", true, 0},
		{"a completed Pod holds nothing (kubernetes#98611)", []event{put(a), put(pod("b", "B", succeeded, x))}, "a", x, "A", true, 0},
		{"a completed Pod still lists the address", []event{put(a), put(pod("b", "B", succeeded, x))}, "b", x, "B", true, 1},
		{"its deletion takes nothing from the successor (k3s#13212)", []event{put(pod("j", "J", succeeded, x)), put(a), del("j", "J")}, "a", x, "A", true, 0},
		{"address of a dead Pod comes and goes (kubernetes#111384)", []event{put(a), put(pod("b", "B", failed, x)), put(pod("b", "B", failed)), put(pod("b", "B", failed, x))}, "a", x, "A", true, 0},
		{"a terminating Pod spoils nothing (kubernetes#135266)", []event{put(terminating(b)), put(a)}, "a", x, "A", true, 0},
		{"a terminating Pod meets its successor", []event{put(terminating(b)), put(a)}, "b", x, "B", true, 1},
		{"a host-network Pod holds nothing", []event{put(a), put(hostNetwork(b))}, "a", x, "A", true, 0},
		{"a mirror Pod holds its address", []event{put(a), put(mirror(b))}, "a", x, "A", true, 1},
		{"a malformed Pod holds what could be read", []event{put(a), put(malformed(b))}, "a", x, "A", true, 1},
		{"address change of a live Pod", []event{put(a), put(pod("a", "A", running, y))}, "a", x, "A", false, 0},
		{"address change frees the old one", []event{put(a), put(pod("a", "A", running, y)), put(b)}, "b", x, "B", true, 0},
		{"address change takes the new one", []event{put(a), put(pod("a", "A", running, y)), put(pod("b", "B", running, y))}, "b", y, "B", true, 1},
		{"address lost (istio#54997)", []event{put(a), put(pod("a", "A", failed))}, "a", x, "A", false, 0},
		{"address lost, then given to another", []event{put(a), put(pod("a", "A", running)), put(b)}, "a", x, "A", false, 1},
		{"primary of none", []event{put(pod("a", "A", running))}, "a", none, "A", false, 0},
		{"both families: the primary", []event{put(pod("a", "A", running, x, v6))}, "a", none, "A", true, 0},
		{"both families: the second", []event{put(pod("a", "A", running, x, v6))}, "a", v6, "A", true, 0},
		{"both families: only the second is shared", []event{put(pod("a", "A", running, x, v6)), put(pod("b", "B", running, y, v6))}, "a", v6, "A", true, 1},
		{"both families: the first is not", []event{put(pod("a", "A", running, x, v6)), put(pod("b", "B", running, y, v6))}, "a", x, "A", true, 0},
		{"an address listed twice is one holder", []event{put(pod("a", "A", running, x, x)), put(pod("a", "A", running, x, x))}, "a", x, "A", true, 0},
		{"a list is the whole truth", []event{put(a), list(b)}, "a", x, none, false, 1},
		{"a list renews", []event{put(a), list(a, pod("b", "B", running, y))}, "a", x, "A", true, 0},
		{"a list rebuilds", []event{put(a), list(pod("a", "A2", running, x))}, "a", x, "A2", true, 0},
	} {
		rec, _ := netip.ParseAddr(tc.rec)
		v := indexOf(tc.script...).Look(name(tc.pod), rec)
		if v.Freshness != identity.Fresh || v.Found != (tc.uid != "") || v.Pod.UID != tc.uid || v.Holds != tc.holds || v.Others != tc.others {
			t.Errorf("%s: found %v %q, holds %v, others %d (%v), %v; want %q, %v, %d", tc.rule, v.Found, v.Pod.UID, v.Holds, v.Others, v.Other, v.Freshness, tc.uid, tc.holds, tc.others)
		}
		if (v.Others > 0) != (v.Other != identity.Holder{}) {
			t.Errorf("%s: %d others, but the other is %v", tc.rule, v.Others, v.Other)
		}
	}
}

func TestNodeAddresses(t *testing.T) {
	onNode := func(p identity.Pod) identity.Pod { p.HostIPs = addrs(nodeAddress); return p }
	a, b := onNode(pod("a", "A", running, x)), onNode(pod("b", "B", failed))
	node := netip.MustParseAddr(nodeAddress)
	for _, tc := range []struct {
		rule   string
		script []event
		want   bool
	}{
		{"reported by one", []event{put(a)}, true},
		{"reported by none", []event{put(a), del("a", "A")}, false},
		{"reported by another still", []event{put(a), put(b), del("a", "A")}, true},
		{"an update keeps the count", []event{put(a), put(a), del("a", "A")}, false},
		{"the own address of a Pod of the host network", []event{put(hostNetwork(pod("h", "H", running, nodeAddress)))}, true},
		{"and when it is gone", []event{put(hostNetwork(pod("h", "H", running, nodeAddress))), del("h", "H")}, false},
		{"a Pod that moves off forgets it", []event{put(a), put(pod("a", "A", running, x))}, false},
	} {
		if got := indexOf(tc.script...).Look(name("z"), node).Node; got != tc.want {
			t.Errorf("%s: node = %v, want %v", tc.rule, got, tc.want)
		}
	}
}

// TestHistory replays the incident that started this: A's container exits, 35 s
// later B has the address.
func TestHistory(t *testing.T) {
	index := identity.NewIndex(identity.HistoryConfig{Addresses: 2, Tenures: 2})
	feed := index.NewFeed("test", "told", time.Hour)
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	feed.Replace([]identity.Pod{pod("a", "A", running, x)}, at(0))
	feed.Apply(pod("a", "A", running, x, v6), at(1)) // an update is no new tenure
	feed.Apply(pod("a", "A", failed, x, v6), at(2))
	feed.Apply(pod("b", "B", running, x), at(37))
	want := []identity.Tenure{
		{Holder: identity.Holder{NamespacedName: name("a"), UID: "A"}, From: at(0), To: at(2)},
		{Holder: identity.Holder{NamespacedName: name("b"), UID: "B"}, From: at(37)},
	}
	if diff := cmp.Diff(want, index.History(netip.MustParseAddr(x))); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}

	feed.Apply(pod("c", "C", running, x), at(38)) // a third: the oldest is forgotten
	if got := index.History(netip.MustParseAddr(x)); len(got) != 2 || got[0].UID != "B" {
		t.Errorf("history keeps %v, want the last two", got)
	}
	feed.Apply(pod("d", "D", running, y), at(39)) // a third address: the least recent is forgotten
	if got := index.History(netip.MustParseAddr(v6)); len(got) != 0 {
		t.Errorf("history of %s = %v, want it forgotten", v6, got)
	}
	feed.Delete(name("b"), "B", at(40))
	feed.Delete(name("c"), "C", at(41))
	feed.Apply(pod("a", "A", running, v6), at(42))
	feed.Apply(pod("e", "E", running, "10.0.0.5"), at(43))
	feed.Apply(pod("f", "F", running, "10.0.0.6"), at(44))
	feed.Delete(name("d"), "D", at(45)) // its beginning was forgotten
	want = []identity.Tenure{{Holder: identity.Holder{NamespacedName: name("d"), UID: "D"}, To: at(45)}}
	if diff := cmp.Diff(want, index.History(netip.MustParseAddr(y))); diff != "" {
		t.Errorf("history of a forgotten beginning (-want +got):\n%s", diff)
	}
}

// TestEmptyAfterChurn holds line 25 and 38 of the public failures: what is
// deleted leaves nothing behind, however often.
func TestEmptyAfterChurn(t *testing.T) {
	index := indexOf()
	feed := index.NewFeed("churn", "told", time.Hour)
	feed.Replace(nil, time.Now())
	churn := func(n int) {
		for i := range n {
			p := pod("a", "A", running, x)
			p.IPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}
			p.HostIPs = addrs(nodeAddress)
			feed.Apply(p, time.Now())
			feed.Apply(pod("a", "A2", pending), time.Now())
			feed.Delete(p.NamespacedName, "", time.Now())
		}
	}
	churn(1_000)
	before := heap()
	churn(100_000)
	if grown := int64(heap()) - int64(before); grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes over 100 000 Pods that are gone", grown)
	}
	if got := index.Size(); got != (identity.Size{}) {
		t.Errorf("size after all are gone = %+v", got)
	}
	if index.Look(name("z"), netip.MustParseAddr(nodeAddress)).Node {
		t.Error("a node of no Pod is still remembered")
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestRecreateThousandTimes is kube2iam#178: delete and add under one name and
// address, within one batch.
func TestRecreateThousandTimes(t *testing.T) {
	index := indexOf()
	feed := index.NewFeed("churn", "told", time.Hour)
	feed.Replace(nil, time.Now())
	for i := range 1_000 {
		uid := identity.UID(string(rune('a' + i%26)))
		feed.Apply(pod("a", uid, running, x), time.Now())
		if v := index.Look(name("a"), netip.MustParseAddr(x)); v.Pod.UID != uid || !v.Holds || v.Others != 0 {
			t.Fatalf("round %d: %+v", i, v)
		}
		feed.Delete(name("a"), uid, time.Now())
	}
}

func TestLookDoesNotAllocate(t *testing.T) {
	index := indexOf(put(pod("a", "A", running, x, v6)), put(pod("b", "B", running, x)))
	n, addr := name("a"), netip.MustParseAddr(x)
	if got := testing.AllocsPerRun(100, func() { index.Look(n, addr); index.LookOwned("ns", "A", addr) }); got != 0 {
		t.Errorf("a look allocates %v times", got)
	}
}

func TestViewIsAValue(t *testing.T) {
	index := indexOf(put(pod("a", "A", running, x)))
	v := index.Look(name("a"), netip.Addr{})
	feed := index.NewFeed("late", "told", time.Hour)
	if got := index.Look(name("a"), netip.Addr{}).Freshness; got != identity.NotSynced {
		t.Errorf("with an unsynced feed the index is %v", got)
	}
	feed.Replace(nil, time.Now())
	feed.Delete(name("a"), "A", time.Now()) // another feed's Pod: nothing may happen
	if diff := cmp.Diff(v, index.Look(name("a"), netip.Addr{}), cmpopts.EquateComparable(netip.Addr{}), cmpopts.IgnoreFields(identity.View{}, "Age", "Feed")); diff != "" {
		t.Errorf("a feed deleted another feed's Pod (-want +got):\n%s", diff)
	}
	if !slices.Equal(v.Pod.IPs, addrs(x)) {
		t.Errorf("the view changed: %v", v.Pod.IPs)
	}
}
