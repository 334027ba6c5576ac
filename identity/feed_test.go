package identity_test

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/samepod/samepod/identity"
)

func freshness(index *identity.Index) identity.Freshness {
	return index.Look(name("a"), netip.Addr{}).Freshness
}

func TestFreshness(t *testing.T) {
	const bound = 90 * time.Second
	// Each step waits, then does something to the feed; then the index is as wanted.
	type step struct {
		wait time.Duration
		do   func(*identity.Feed)
		want identity.Freshness
	}
	var (
		nothing = func(*identity.Feed) {}
		list    = func(f *identity.Feed) { f.Replace(nil, time.Now()) }
		renew   = func(f *identity.Feed) { f.Renew(time.Now()) }
		apply   = func(f *identity.Feed) { f.Apply(pod("a", "A", running, x), time.Now()) }
		remove  = func(f *identity.Feed) { f.Delete(name("z"), "Z", time.Now()) }
		late    = func(f *identity.Feed) { f.Renew(time.Now().Add(-time.Hour)) }
		fail    = func(f *identity.Feed) { _ = f.Fail(errors.New("connection refused")) }
	)
	for _, tc := range []struct {
		rule  string
		steps []step
	}{
		{"nothing is believed before the first list", []step{{0, nothing, identity.NotSynced}, {time.Hour, nothing, identity.NotSynced}}},
		{"an event is no list", []step{{0, apply, identity.NotSynced}, {0, renew, identity.NotSynced}}},
		{"fresh up to the bound, then stale", []step{{0, list, identity.Fresh}, {bound, nothing, identity.Fresh}, {1, nothing, identity.Stale}}},
		{"a bookmark renews", []step{{0, list, identity.Fresh}, {bound, renew, identity.Fresh}, {bound, nothing, identity.Fresh}, {1, nothing, identity.Stale}}},
		{"an event renews", []step{{0, list, identity.Fresh}, {bound, apply, identity.Fresh}, {bound, remove, identity.Fresh}, {bound, nothing, identity.Fresh}, {1, nothing, identity.Stale}}},
		{"it recovers by itself", []step{{0, list, identity.Fresh}, {2 * bound, nothing, identity.Stale}, {0, renew, identity.Fresh}}},
		{"an old word renews nothing", []step{{0, list, identity.Fresh}, {bound, late, identity.Fresh}, {1, late, identity.Stale}}},
		{"a fault alone is not stale", []step{{0, list, identity.Fresh}, {0, fail, identity.Fresh}, {bound + 1, fail, identity.Stale}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			index := identity.NewIndex(identity.HistoryConfig{})
			if got := freshness(index); got != identity.NotSynced {
				t.Errorf("%s: an index without feeds is %v", tc.rule, got)
			}
			feed := index.NewFeed("pods", "passive", bound)
			for i, s := range tc.steps {
				time.Sleep(s.wait)
				s.do(feed)
				if got := freshness(index); got != s.want {
					t.Errorf("%s: step %d: %v, want %v", tc.rule, i, got, s.want)
				}
			}
		})
	}
}

// TestWorstFeedDecides: the holder of an address may be any Pod of any feed, so
// the oldest word, measured by its own bound, decides for all.
func TestWorstFeedDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index := identity.NewIndex(identity.HistoryConfig{})
		one, two := index.NewFeed("one", "passive", time.Minute), index.NewFeed("two", "file", time.Hour)
		one.Replace(nil, time.Now())
		select {
		case <-index.Synced():
			t.Error("synced with one of two")
		default:
		}
		if got := freshness(index); got != identity.NotSynced {
			t.Errorf("with one of two synced: %v", got)
		}
		two.Replace(nil, time.Now())
		two.Replace(nil, time.Now())
		<-index.Synced()
		time.Sleep(time.Minute)
		one.Renew(time.Now())
		if v := index.Look(name("a"), netip.Addr{}); v.Freshness != identity.Fresh || v.Feed != "two" || v.Age != time.Minute {
			t.Errorf("both fresh: %v by %q, %v old; want the older one", v.Freshness, v.Feed, v.Age)
		}
		time.Sleep(time.Minute + 1)
		if v := index.Look(name("a"), netip.Addr{}); v.Freshness != identity.Stale || v.Feed != "one" {
			t.Errorf("one is over its bound: %v by %q", v.Freshness, v.Feed)
		}
		if !two.Fail(errors.New("line 3")) || two.Fail(errors.New("line 3")) {
			t.Error("the first fault is news, the same again is not")
		}
		all := index.Feeds()
		if all[0].Freshness != identity.Stale || all[1].Freshness != identity.Fresh || all[1].Fault != "line 3" || all[1].Bound != time.Hour || all[0].Proof != "passive" || all[1].Lists != 2 {
			t.Errorf("feeds = %+v", all)
		}
		two.Renew(time.Now())
		if got := index.Feeds()[1].Fault; got != "" {
			t.Errorf("after a good word the fault is still %q", got)
		}
	})
}
