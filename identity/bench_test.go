package identity_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/samepod/samepod/identity"
)

// bigIndex has n Pods on addresses of their own, 100 a node.
func bigIndex(n int) (*identity.Index, *identity.Feed, []identity.Pod) {
	index := identity.NewIndex(identity.HistoryConfig{Addresses: 1024, Tenures: 4})
	feed := index.NewFeed("bench", "told", time.Hour)
	pods := make([]identity.Pod, n)
	for i := range pods {
		pods[i] = identity.Pod{
			NamespacedName: identity.NamespacedName{Namespace: "sandboxes", Name: fmt.Sprintf("sandbox-%d", i)},
			UID:            identity.UID(fmt.Sprintf("uid-%d", i)),
			Phase:          identity.PhaseRunning,
			IPs:            []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})},
			HostIPs:        []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i / 100)})},
		}
	}
	feed.Replace(pods, time.Now())
	return index, feed, pods
}

func BenchmarkLook(b *testing.B) {
	for _, n := range []int{100, 20_000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			index, _, pods := bigIndex(n)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					p := &pods[i%n]
					if v := index.Look(p.NamespacedName, p.IPs[0]); !v.Holds || v.Others != 0 {
						b.Fatal(v)
					}
				}
			})
		})
	}
}

// BenchmarkReplace is how long every check waits while a full list is applied.
func BenchmarkReplace(b *testing.B) {
	_, feed, pods := bigIndex(20_000)
	for b.Loop() {
		feed.Replace(pods, time.Now())
	}
}
