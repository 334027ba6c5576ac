package identity

import (
	"slices"
	"time"
)

// A Feed is one source's right to write into an [Index]: one watch, or one file.
// It applies what the source says, in the source's order, and keeps the time up
// to which the source's word is good. Names of two feeds of an Index must not
// overlap.
//
// Every write carries that time; it never moves back. A method returns when the
// write can be seen by every later [Index.Look].
type Feed struct {
	index *Index
	name  string
	proof string
	bound time.Duration

	// Guarded by index.mu.
	synced bool
	seen   time.Time
	fault  string
}

// NewFeed registers a feed. Until its first [Feed.Replace] the whole Index is
// [NotSynced]; when its word is older than bound, the whole Index is [Stale],
// since the holder of an address may be any Pod of any feed. The name and proof
// (how freshness is known, such as "passive") are for people.
func (x *Index) NewFeed(name, proof string, bound time.Duration) *Feed {
	f := &Feed{index: x, name: name, proof: proof, bound: bound}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.feeds = append(x.feeds, f)
	return f
}

// Replace makes pods the feed's whole content, in one step that no Look can
// divide, and the feed synced. The list must have been asked for at asOf, not
// later. Pods are sorted out by name: where a name is repeated the last one
// stays, so a source that could repeat one must refuse it before.
func (f *Feed) Replace(pods []Pod, asOf time.Time) {
	x := f.index
	x.mu.Lock()
	defer x.mu.Unlock()
	listed := make(map[NamespacedName]bool, len(pods))
	for i := range pods {
		listed[pods[i].NamespacedName] = true
	}
	for name, e := range x.pods {
		if e.feed == f && !listed[name] {
			x.set(name, entry{}, asOf)
		}
	}
	for _, pod := range pods { // each its own allocation: one long-lived Pod must not keep the whole list
		x.set(pod.NamespacedName, entry{&pod, f}, asOf)
	}
	f.renew(asOf)
	f.synced = true
	if x.allSynced() {
		select {
		case <-x.synced:
		default:
			close(x.synced)
		}
	}
}

// Synced is closed when every feed has delivered its first list. Register all
// feeds before you wait for it.
func (x *Index) Synced() <-chan struct{} { return x.synced }

// allSynced must be called with mu held.
func (x *Index) allSynced() bool {
	return !slices.ContainsFunc(x.feeds, func(f *Feed) bool { return !f.synced })
}

// Apply adds or updates one Pod. An update to another uid is a Pod that was
// built again under its name: nothing of its predecessor stays.
func (f *Feed) Apply(pod Pod, at time.Time) {
	x := f.index
	x.mu.Lock()
	defer x.mu.Unlock()
	x.set(pod.NamespacedName, entry{&pod, f}, at)
	f.renew(at)
}

// Delete removes the Pod with this name and uid. A delete that comes late, after
// the name was taken by another uid, changes nothing (cilium#16565,
// agent-sandbox#1397). An empty uid removes whatever has the name: of a missed
// deletion a watch may know only the key.
func (f *Feed) Delete(name NamespacedName, uid UID, at time.Time) {
	x := f.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if e, ok := x.pods[name]; ok && e.feed == f && (uid == "" || e.pod.UID == uid) {
		x.set(name, entry{}, at)
	}
	f.renew(at)
}

// Renew says that the source's word was still good at this time although nothing
// changed: a bookmark of a watch, an unchanged file.
func (f *Feed) Renew(at time.Time) {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	f.renew(at)
}

// Fail says what is wrong with the source, for readiness. It does not make
// anything stale by itself; the age does. The next good word clears it.
func (f *Feed) Fail(err error) {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	f.fault = err.Error()
}

func (f *Feed) renew(at time.Time) {
	if at.After(f.seen) {
		f.seen = at
	}
	f.fault = ""
}

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
	// Fault is the source's present error, if any. A feed may be fresh and have
	// one: the last good state serves until its bound.
	Fault string
}

// status must be called with index.mu held.
func (f *Feed) status(now time.Time) FeedStatus {
	s := FeedStatus{Name: f.name, Proof: f.proof, Bound: f.bound, Fault: f.fault}
	if !f.synced {
		return s
	}
	s.Age = age(f.seen, now)
	s.Freshness = Fresh
	if s.Age > f.bound {
		s.Freshness = Stale
	}
	return s
}

// age is the larger of the monotonic and the wall-clock age, and never negative.
// The monotonic clock stands still while a machine sleeps or a VM is paused, the
// wall clock may be set back: either alone could make an old word look new.
func age(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)), 0)
}

// Status is what the feed knows of itself now.
func (f *Feed) Status() FeedStatus {
	now := time.Now()
	f.index.mu.RLock()
	defer f.index.mu.RUnlock()
	return f.status(now)
}

// Feeds returns the status of every feed, in the order of registration.
func (x *Index) Feeds() []FeedStatus {
	now := time.Now()
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := make([]FeedStatus, len(x.feeds))
	for i, f := range x.feeds {
		all[i] = f.status(now)
	}
	return all
}

// freshness is the worst over all feeds, with the feed that makes it so (the
// oldest where all are fresh). It must be called with mu held.
func (x *Index) freshness(now time.Time) FeedStatus {
	var worst FeedStatus
	for i, f := range x.feeds {
		s := f.status(now)
		if i == 0 || s.Freshness < worst.Freshness || s.Freshness == worst.Freshness && s.Age > worst.Age {
			worst = s
		}
	}
	return worst
}
