package kube

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/samepod/samepod/identity"
)

// store is where the Reflector puts what it hears. The Reflector calls one method
// at a time, in the order of the API server's events; every method returns after
// the index has changed.
type store struct {
	feed *identity.Feed
	keep identity.Keep
	log  *slog.Logger
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

// Update applies a watch event. Of a Pod that was deleted and built again under
// its name it may be the only one.
func (s *store) Update(obj any) error { return s.apply(obj) }

func (s *store) apply(obj any) error {
	pod := obj.(*corev1.Pod)
	s.feed.Apply(s.translate(pod), *s.heard.Load())
	return s.saw(pod.ResourceVersion)
}

// Delete applies a watch event.
func (s *store) Delete(obj any) error {
	pod := obj.(*corev1.Pod)
	s.feed.Delete(identity.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, identity.UID(pod.UID), *s.heard.Load())
	return s.saw(pod.ResourceVersion)
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
	pods, err := s.judge(items, version)
	if err != nil {
		s.fail(err)
		return err
	}
	s.feed.Replace(pods, s.asked)
	s.listed = true
	return s.saw(version)
}

// judge says why a list must not be applied.
func (s *store) judge(items []any, version string) ([]identity.Pod, error) {
	order, err := resourceversion.CompareResourceVersion(version, cmp.Or(s.newest, version))
	switch {
	case err != nil:
		return nil, fmt.Errorf("list: resourceVersion %q: %w", version, err)
	case order < 0:
		return nil, fmt.Errorf("the list is of resourceVersion %s, older than %s, which this process has seen (if the cluster was restored from a backup, restart samepod)", version, s.newest)
	}
	pods := make([]identity.Pod, len(items))
	for i, item := range items {
		pod := item.(*corev1.Pod)
		if pod.Namespace == "" || pod.Name == "" || pod.UID == "" {
			return nil, fmt.Errorf("list: item %d is no Pod", i)
		}
		pods[i] = s.translate(pod)
	}
	return pods, nil
}

// Resync has nothing to do: the store is the index.
func (s *store) Resync() error { return nil }

// Transformer trims Pods while a streaming list collects them.
func (s *store) Transformer() cache.TransformFunc { return trim }

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

// translate never refuses a Pod: what cannot be understood of it makes it
// unverifiable, and what can is held.
func (s *store) translate(pod *corev1.Pod) identity.Pod {
	p, err := object(pod).Pod(s.keep)
	if err != nil {
		s.log.Warn("a Pod cannot be understood; requests for it are denied", "pod", p.String(), "err", err)
	}
	return p
}
