package sandbox

import (
	"time"

	"github.com/samepod/samepod/identity"
)

// Feed is one source's right to write objects of one kind into an [Index], as
// [identity.Feed] is for Pods: the same rules of order, time and freshness hold.
type Feed[T any] struct {
	index   *Index
	word    identity.Word // guarded by index.mu, as is the rest
	objects map[identity.NamespacedName]*T
	key     func(*T) (identity.NamespacedName, identity.UID)
	changed func(prev, next *T) // keeps the index's other maps; one of the two may be nil
}

// NewFeed registers a feed of sandboxes of one kind.
func (x *Index) NewFeed(name, proof string, bound time.Duration) *Feed[Sandbox] {
	return register(x, &Feed[Sandbox]{
		word:    identity.NewWord(name, proof, bound),
		key:     func(s *Sandbox) (identity.NamespacedName, identity.UID) { return s.NamespacedName, s.UID },
		changed: x.changeSandbox,
	})
}

// NewPoolFeed registers a feed of Pools.
func (x *Index) NewPoolFeed(name, proof string, bound time.Duration) *Feed[Pool] {
	return register(x, &Feed[Pool]{
		word:    identity.NewWord(name, proof, bound),
		key:     func(p *Pool) (identity.NamespacedName, identity.UID) { return p.NamespacedName, p.UID },
		changed: x.changePool,
	})
}

func register[T any](x *Index, f *Feed[T]) *Feed[T] {
	f.index, f.objects = x, map[identity.NamespacedName]*T{}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.words = append(x.words, &f.word)
	return f
}

// Replace makes objects the feed's whole content, and the feed synced. The list must
// have been asked for at asOf, not later. Where a name is repeated the last one stays.
func (f *Feed[T]) Replace(objects []T, asOf time.Time) {
	listed := make(map[identity.NamespacedName]*T, len(objects))
	for _, o := range objects { // each its own allocation
		name, _ := f.key(&o)
		listed[name] = &o
	}
	f.write(func() {
		for name, prev := range f.objects {
			if listed[name] == nil {
				f.set(name, prev, nil)
			}
		}
		for name, next := range listed {
			f.set(name, f.objects[name], next)
		}
		f.word.Listed(asOf)
	})
}

// Apply adds or updates one object.
func (f *Feed[T]) Apply(object T, at time.Time) {
	name, _ := f.key(&object)
	f.write(func() {
		f.set(name, f.objects[name], &object)
		f.word.Renew(at)
	})
}

// Delete removes the object with this name and uid; one that has the name by now stays.
func (f *Feed[T]) Delete(name identity.NamespacedName, uid identity.UID, at time.Time) {
	f.write(func() {
		if prev := f.objects[name]; prev != nil {
			if _, has := f.key(prev); uid == "" || has == uid {
				f.set(name, prev, nil)
			}
		}
		f.word.Renew(at)
	})
}

// Renew says that the source's word was still good at this time.
func (f *Feed[T]) Renew(at time.Time) {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	f.word.Renew(at)
}

// Fail says what is wrong with the source, and reports whether that is news.
func (f *Feed[T]) Fail(err error) (news bool) {
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	return f.word.Fail(err)
}

// Status is what the feed knows of itself now.
func (f *Feed[T]) Status() identity.FeedStatus {
	now := time.Now()
	f.index.mu.RLock()
	defer f.index.mu.RUnlock()
	return f.word.Status(now)
}

func (f *Feed[T]) write(change func()) {
	f.index.mu.Lock()
	change()
	f.index.mu.Unlock()
	f.index.pods.Ring()
}

func (f *Feed[T]) set(name identity.NamespacedName, prev, next *T) {
	f.changed(prev, next)
	if next == nil {
		delete(f.objects, name)
	} else {
		f.objects[name] = next
	}
}
