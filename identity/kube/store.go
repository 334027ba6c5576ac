package kube

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/samepod/samepod/identity"
)

// store is where the Reflector puts what it hears. The Reflector calls one method
// at a time, in the order of the API server's events; every method returns after
// the index has changed.
type store struct {
	kind kind
	feed sink
	// asked is when the list that is under way was asked for. The Reflector waits
	// for whoever lists, so it is written and read by one goroutine at a time.
	asked time.Time
	// listed says that a list was applied and no watch opened since.
	listed bool
	// heard is when the last event that a guard let through came out of the socket.
	// It is what an event proves: this process may stand still before it is applied.
	heard  atomic.Pointer[time.Time]
	newest string // the newest resourceVersion that this process has seen
	// fail is told what the store refuses; the Reflector's own words for it are
	// quiet.
	fail func(error)
}

var (
	_ cache.ReflectorStore         = (*store)(nil)
	_ cache.ReflectorBookmarkStore = (*store)(nil)
	_ cache.TransformingStore      = (*store)(nil)
)

// Add applies a watch event.
func (s *store) Add(obj any) error { return s.apply(obj) }

// Update applies a watch event. Of an object that was deleted and built again under
// its name it may be the only one.
func (s *store) Update(obj any) error { return s.apply(obj) }

func (s *store) apply(obj any) error {
	object := obj.(metav1.Object) // the guard has looked at it
	s.feed.apply(object, *s.heard.Load())
	return s.saw(object.GetResourceVersion())
}

// Delete applies a watch event.
func (s *store) Delete(obj any) error {
	object := obj.(metav1.Object)
	name := identity.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	s.feed.Delete(name, identity.UID(object.GetUID()), *s.heard.Load())
	return s.saw(object.GetResourceVersion())
}

// Bookmark renews: everything up to this version has been applied.
func (s *store) Bookmark(version string) error {
	s.feed.Renew(*s.heard.Load())
	return s.saw(version)
}

// Replace applies a whole list, unless it is older than what this process has
// seen already: an API server that is behind would bring Pods back that are gone,
// with addresses that others hold by now. The Reflector then lists again.
func (s *store) Replace(items []any, version string) error {
	objects, err := s.judge(items, version)
	if err != nil {
		s.fail(err)
		return err
	}
	s.feed.replace(objects, s.asked)
	s.listed = true
	return s.saw(version)
}

// judge says why a list must not be applied.
func (s *store) judge(items []any, version string) ([]metav1.Object, error) {
	order, err := resourceversion.CompareResourceVersion(version, cmp.Or(s.newest, version))
	switch {
	case err != nil:
		return nil, fmt.Errorf("list: resourceVersion %q: %w", version, err)
	case order < 0:
		return nil, fmt.Errorf("the list is of resourceVersion %s, older than %s, which this process has seen (if the cluster was restored from a backup, restart samepod)", version, s.newest)
	}
	objects := make([]metav1.Object, len(items))
	for i, item := range items {
		object, named := s.kind.object(item)
		if !named {
			return nil, fmt.Errorf("list: item %d is no %s", i, s.kind.name)
		}
		objects[i] = object
	}
	return objects, nil
}

// none applies the API server's word that it has no such kind, and so no objects.
func (s *store) none() { s.feed.replace(nil, s.asked) }

// Resync has nothing to do: the store is the index.
func (s *store) Resync() error { return nil }

// Transformer trims objects while a streaming list collects them.
func (s *store) Transformer() cache.TransformFunc { return s.kind.trim }

// saw remembers the newest version.
func (s *store) saw(version string) error {
	if s.newest != "" {
		order, err := resourceversion.CompareResourceVersion(version, s.newest)
		if err != nil {
			err = fmt.Errorf("resourceVersion %q: %w", version, err)
			s.fail(err)
			return err
		}
		if order <= 0 {
			return nil
		}
	}
	s.newest = version
	return nil
}
