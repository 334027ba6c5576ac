package identity

import (
	"reflect"
	"time"
)

// A Feed is one source's right to write into an [Index]: one watch, or one file.
// It applies what the source says, in the source's order, and keeps the time up
// to which the source's word is good. Names of two feeds of an Index must not
// overlap.
//
// Every write carries that time; it never moves back. A method returns when the
// write can be seen by every later [Index.Look]. One goroutine at a time may write.
type Feed struct {
	index *Index
	word  Word // guarded by index.mu
}

// NewFeed registers a feed. Until its first [Feed.Replace] the whole Index is
// [NotSynced]; when its word is older than bound, the whole Index is [Stale],
// since the holder of an address may be any Pod of any feed. The name and proof
// (how freshness is known, such as "passive") are for people.
func (x *Index) NewFeed(name, proof string, bound time.Duration) *Feed {
	f := &Feed{index: x, word: NewWord(name, proof, bound)}
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
	defer x.Ring() // after the lock
	changes := f.changes(pods)
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, pod := range changes {
		if pod == nil {
			x.set(name, entry{}, asOf)
		} else {
			x.set(name, entry{pod, f}, asOf)
		}
	}
	f.word.Listed(asOf)
	if x.allSynced() {
		select {
		case <-x.synced:
		default:
			close(x.synced)
		}
	}
}

// changes is what a list changes: nil for a Pod that is gone. Nobody else writes
// this feed's Pods, and every check waits while the index is locked for writing, so
// the comparison is made before.
func (f *Feed) changes(pods []Pod) map[NamespacedName]*Pod {
	listed := make(map[NamespacedName]*Pod, len(pods))
	for _, pod := range pods { // each its own allocation: one long-lived Pod must not keep the whole list
		listed[pod.NamespacedName] = &pod
	}
	x := f.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	for name, e := range x.pods {
		if e.feed != f {
			continue
		}
		if pod, ok := listed[name]; !ok {
			listed[name] = nil
		} else if reflect.DeepEqual(e.pod, pod) {
			delete(listed, name)
		}
	}
	return listed
}

// Apply adds or updates one Pod. An update to another uid is a Pod that was
// built again under its name: nothing of its predecessor stays.
func (f *Feed) Apply(pod Pod, at time.Time) {
	x := f.index
	defer x.Ring() // after the lock
	x.mu.Lock()
	defer x.mu.Unlock()
	x.set(pod.NamespacedName, entry{&pod, f}, at)
	f.word.Renew(at)
}

// Delete removes the Pod with this name and uid. A delete that comes late, after
// the name was taken by another uid, changes nothing (cilium#16565,
// agent-sandbox#1397). An empty uid removes whatever has the name: of a missed
// deletion a watch may know only the key.
func (f *Feed) Delete(name NamespacedName, uid UID, at time.Time) {
	x := f.index
	defer x.Ring() // after the lock
	x.mu.Lock()
	defer x.mu.Unlock()
	if e, ok := x.pods[name]; ok && e.feed == f && (uid == "" || e.pod.UID == uid) {
		x.set(name, entry{}, at)
	}
	f.word.Renew(at)
}

// Renew says that the source's word was still good at this time although nothing
// changed: a bookmark of a watch, an unchanged file.
func (f *Feed) Renew(at time.Time) {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	f.word.Renew(at)
}

// Fail says what is wrong with the source, for readiness, and reports whether that
// is news. It does not make anything stale by itself; the age does. The next good
// word clears it.
func (f *Feed) Fail(err error) (news bool) {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	return f.word.Fail(err)
}
