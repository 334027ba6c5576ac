package kube

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/samepod/samepod/identity"
)

// store is a watch as the Reflector's store. The Reflector calls one method at a
// time, in the order of the API server's events; every method returns after the
// index has changed.
type store watch

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
	s.feed.Apply(s.translate(pod), time.Now())
	return s.saw(pod.ResourceVersion)
}

// Delete applies a watch event.
func (s *store) Delete(obj any) error {
	pod := obj.(*corev1.Pod)
	s.feed.Delete(identity.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, identity.UID(pod.UID), time.Now())
	return s.saw(pod.ResourceVersion)
}

// Bookmark renews: everything up to this version has been applied.
func (s *store) Bookmark(version string) error {
	s.feed.Renew(time.Now())
	return s.saw(version)
}

// Replace applies a whole list, unless it is older than what this process has
// seen already: an API server that is behind would bring Pods back that are gone,
// with addresses that others hold by now. The Reflector then lists again.
func (s *store) Replace(items []any, version string) error {
	if s.newest != "" {
		order, err := resourceversion.CompareResourceVersion(version, s.newest)
		if err == nil && order < 0 {
			err = fmt.Errorf("the list is of resourceVersion %s, older than %s, which this process has seen (if the cluster was restored from a backup, restart samepod)", version, s.newest)
		}
		if err != nil {
			s.feed.Fail(err)
			return err
		}
	}
	pods := make([]identity.Pod, len(items))
	for i, item := range items {
		pods[i] = s.translate(item.(*corev1.Pod))
	}
	s.feed.Replace(pods, s.asked)
	return s.saw(version)
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
			return fmt.Errorf("resourceVersion %q: %w", version, err)
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
	p, err := object(pod).Pod(s.selected)
	if err != nil {
		s.log.Warn("a Pod cannot be understood; requests for it are denied", "pod", p.String(), "err", err)
	}
	return p
}
