package identity

import (
	"slices"
	"time"
)

// Freshness says whether the Index may be believed. The zero value is NotSynced.
type Freshness uint8

const (
	// NotSynced says that some source has not delivered its first list.
	NotSynced Freshness = iota
	// Stale says that some source's word is older than its bound.
	Stale
	// Fresh says that every source has spoken, and recently enough.
	Fresh
)

func (f Freshness) String() string {
	switch f {
	case Fresh:
		return "fresh"
	case Stale:
		return "stale"
	case NotSynced:
		return "not synced"
	}
	return "unknown"
}

// FeedStatus is what a [Feed] knows of itself at one moment.
type FeedStatus struct {
	Name  string
	Proof string
	Freshness
	// Age is how old the feed's word is; meaningless while not synced.
	Age   time.Duration
	Bound time.Duration
	// Lists is how many lists the feed has delivered.
	Lists int
	// Fault is the source's present error, if any. A feed may be fresh and have
	// one: the last good state serves until its bound.
	Fault string
}

// Age is the larger of the monotonic and the wall-clock age, and never negative.
// The monotonic clock stands still while a machine sleeps or a VM is paused, the
// wall clock may be set back: either alone could make an old word look new.
func Age(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)), 0)
}

// Status is what the feed knows of itself now.
func (f *Feed) Status() FeedStatus {
	now := time.Now()
	f.index.mu.RLock()
	defer f.index.mu.RUnlock()
	return f.word.Status(now)
}

// Feeds returns the status of every feed, in the order of registration.
func (x *Index) Feeds() []FeedStatus {
	now := time.Now()
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := make([]FeedStatus, len(x.feeds))
	for i, f := range x.feeds {
		all[i] = f.word.Status(now)
	}
	return all
}

// freshness is the worst over all feeds, with the feed that makes it so (the
// oldest where all are fresh). It must be called with mu held.
func (x *Index) freshness(now time.Time) FeedStatus {
	var worst FeedStatus
	for i, f := range x.feeds {
		if s := f.word.Status(now); i == 0 || s.Worse(worst) {
			worst = s
		}
	}
	return worst
}

// Synced is closed when every feed has delivered its first list. Register all
// feeds before you wait for it.
func (x *Index) Synced() <-chan struct{} { return x.synced }

// allSynced must be called with mu held.
func (x *Index) allSynced() bool {
	return !slices.ContainsFunc(x.feeds, func(f *Feed) bool { return !f.word.synced })
}
