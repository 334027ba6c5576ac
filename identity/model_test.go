package identity_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/samepod/samepod/identity"
)

// The model is the index without any index: the Pods of each feed by name, and
// every question answered by looking at all of them.
type model struct {
	pods map[identity.NamespacedName]modelPod
}

type modelPod struct {
	identity.Pod
	feed int
}

func (m *model) replace(feed int, pods []identity.Pod) {
	for n, p := range m.pods {
		if p.feed == feed {
			delete(m.pods, n)
		}
	}
	for _, p := range pods {
		m.pods[p.NamespacedName] = modelPod{p, feed}
	}
}

func (m *model) delete(feed int, n identity.NamespacedName, uid identity.UID) {
	if p, ok := m.pods[n]; ok && p.feed == feed && (uid == "" || p.UID == uid) {
		delete(m.pods, n)
	}
}

func holds(p identity.Pod, a netip.Addr) bool {
	return p.Phase != identity.PhaseSucceeded && p.Phase != identity.PhaseFailed && !p.Terminating && !p.HostNetwork && slices.Contains(p.IPs, a)
}

// TestModel drives an index and the model through the same writes and compares
// every answer that both can give.
func TestModel(t *testing.T) {
	ips := addrs(x, y, v6, "10.0.0.3")
	names := map[int][]string{0: {"a", "b", "c"}, 1: {"d", "e"}} // feeds do not overlap
	uids := []identity.UID{"1", "2", "3", "4"}

	rapid.Check(t, func(t *rapid.T) {
		index := identity.NewIndex(identity.HistoryConfig{Addresses: 2, Tenures: 2})
		feeds := []*identity.Feed{index.NewFeed("0", "told", time.Hour), index.NewFeed("1", "told", time.Hour)}
		m := &model{pods: map[identity.NamespacedName]modelPod{}}
		for _, f := range feeds {
			f.Replace(nil, time.Now())
		}
		drawPod := func(t *rapid.T, n string) identity.Pod {
			return identity.Pod{
				NamespacedName: name(n),
				UID:            rapid.SampledFrom(uids).Draw(t, "uid"),
				Phase:          identity.Phase(rapid.IntRange(0, 4).Draw(t, "phase")),
				IPs:            rapid.SliceOfN(rapid.SampledFrom(ips), 0, 3).Draw(t, "ips"), // with repeats
				HostIPs:        rapid.SliceOfN(rapid.SampledFrom(ips), 0, 2).Draw(t, "hostIPs"),
				Terminating:    rapid.Bool().Draw(t, "terminating"),
				HostNetwork:    rapid.Bool().Draw(t, "hostNetwork"),
				Mirror:         rapid.Bool().Draw(t, "mirror"),
				Owner:          identity.Owner{UID: rapid.SampledFrom([]identity.UID{"", "O1", "O2"}).Draw(t, "owner")},
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"apply": func(t *rapid.T) {
				feed := rapid.IntRange(0, 1).Draw(t, "feed")
				p := drawPod(t, rapid.SampledFrom(names[feed]).Draw(t, "name"))
				feeds[feed].Apply(p, time.Now())
				m.pods[p.NamespacedName] = modelPod{p, feed}
			},
			"delete": func(t *rapid.T) {
				feed := rapid.IntRange(0, 1).Draw(t, "feed")
				n := name(rapid.SampledFrom(slices.Concat(names[0], names[1])).Draw(t, "name"))
				uid := rapid.SampledFrom(append(uids, "")).Draw(t, "uid")
				feeds[feed].Delete(n, uid, time.Now())
				m.delete(feed, n, uid)
			},
			"replace": func(t *rapid.T) {
				feed := rapid.IntRange(0, 1).Draw(t, "feed")
				var pods []identity.Pod
				for _, n := range names[feed] {
					if rapid.Bool().Draw(t, "listed") {
						pods = append(pods, drawPod(t, n))
					}
				}
				feeds[feed].Replace(pods, time.Now())
				m.replace(feed, pods)
			},
			"": func(t *rapid.T) {
				for _, n := range append(slices.Concat(names[0], names[1]), "never") {
					for _, a := range append(ips, netip.Addr{}) {
						if got, want := answer(index.Look(name(n), a)), m.answer(name(n), a); got != want {
							t.Fatalf("look(%s, %v):\n got %s\nwant %s", n, a, got, want)
						}
					}
				}
				for _, owner := range []identity.UID{"O1", "O2", "never"} {
					v, live := index.LookOwned("ns", owner, netip.Addr{})
					if got, want := fmt.Sprint(live, m.rank(v.Pod, owner)), m.owned(owner); got != want {
						t.Fatalf("owned by %s: %s, want %s", owner, got, want)
					}
					if v, live := index.LookOwned("elsewhere", owner, netip.Addr{}); v.Found || live > 0 {
						t.Fatalf("owned by %s of another namespace: %v", owner, v.Pod)
					}
				}
				if got, want := index.Size(), m.size(ips); got != want || len(index.Shared()) != want.Shared {
					t.Fatalf("size = %+v, shared %v, want %+v", got, index.Shared(), want)
				}
			},
		})
	})
}

func answer(v identity.View) string {
	return fmt.Sprintf("found %v %q addr %v holds %v node %v others %d", v.Found, v.Pod.UID, v.Addr, v.Holds, v.Node, v.Others)
}

func (m *model) answer(n identity.NamespacedName, a netip.Addr) string {
	target, found := m.pods[n]
	if found && !a.IsValid() && len(target.IPs) > 0 {
		a = target.IPs[0]
	}
	others, node := 0, false
	for other, p := range m.pods {
		node = node || slices.Contains(p.HostIPs, a) || p.HostNetwork && slices.Contains(p.IPs, a)
		if other != n && holds(p.Pod, a) {
			others++
		}
	}
	return fmt.Sprintf("found %v %q addr %v holds %v node %v others %d", found, target.UID, a, slices.Contains(target.IPs, a), node, others)
}

// rank says how good an answer p is to who owns it: a live Pod before one that is being
// deleted before one that has ended before none.
func (m *model) rank(p identity.Pod, owner identity.UID) int {
	switch {
	case m.pods[p.NamespacedName].Owner.UID != owner || p.Owner.UID != owner:
		return 0
	case p.Phase == identity.PhaseSucceeded || p.Phase == identity.PhaseFailed:
		if p.Terminating {
			return 2
		}
		return 1
	case p.Terminating:
		return 2
	}
	return 3
}

// owned is how many live Pods the owner has, and the rank of the best.
func (m *model) owned(owner identity.UID) string {
	live, best := 0, 0
	for _, p := range m.pods {
		r := m.rank(p.Pod, owner)
		best = max(best, r)
		if r == 3 {
			live++
		}
	}
	return fmt.Sprint(live, best)
}

func (m *model) size(ips []netip.Addr) identity.Size {
	size := identity.Size{Pods: len(m.pods)}
	for _, a := range ips {
		held := 0
		for _, p := range m.pods {
			if holds(p.Pod, a) {
				held++
			}
		}
		if held > 0 {
			size.Addresses++
		}
		if held > 1 {
			size.Shared++
		}
	}
	return size
}
