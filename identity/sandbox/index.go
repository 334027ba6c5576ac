package sandbox

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/samepod/samepod/identity"
)

// Index knows every sandbox by everything that callers may call it, and every Pod of a
// Pool by the sandboxes that claim it. Make one with [NewIndex]. All methods may be
// called concurrently.
type Index struct {
	engine Engine
	pods   *identity.Index
	pins   *memory
	unkept atomic.Bool // a pin had to be kept in memory

	reads   atomic.Int32                // live ones under way
	gets    *shared[getKey, []*Sandbox] // empty for one that does not exist
	pinning *shared[pinKey, string]     // why there is nothing to pin
	finds   *rate.Limiter               // of reads for names that are not known

	mu     sync.RWMutex
	names  map[string][]*Sandbox                  // no empty slices
	claims map[identity.NamespacedName][]*Sandbox // who has a Pod of a Pool; no empty slices
	pools  map[identity.NamespacedName]Recycle
	words  []*identity.Word
}

// What callers can make the API server do: so many reads at a time, and so many a second
// for names that nobody knows, which anybody can make up.
const (
	mostReads      = 32
	findsPerSecond = 50
)

// NewIndex makes an Index of the sandboxes of an engine, whose Pods are in pods.
func NewIndex(e Engine, pods *identity.Index) *Index {
	return &Index{
		engine: e, pods: pods, pins: newMemory(),
		gets: newShared[getKey, []*Sandbox](), pinning: newShared[pinKey, string](), finds: rate.NewLimiter(findsPerSecond, 2*findsPerSecond),
		names:  map[string][]*Sandbox{},
		claims: map[identity.NamespacedName][]*Sandbox{},
		pools:  map[identity.NamespacedName]Recycle{},
	}
}

// changeSandbox must be called with mu held.
func (x *Index) changeSandbox(prev, next *Sandbox) {
	if prev != nil {
		for _, name := range prev.callable() {
			remove(x.names, name, prev)
		}
		for _, pod := range prev.active() {
			remove(x.claims, pod, prev)
		}
	}
	if next != nil {
		for _, name := range next.callable() {
			x.names[name] = append(x.names[name], next)
		}
		for _, pod := range next.active() {
			x.claims[pod] = append(x.claims[pod], next)
		}
	}
}

func (x *Index) changePool(prev, next *Pool) {
	if prev != nil {
		delete(x.pools, prev.NamespacedName)
	}
	if next != nil {
		x.pools[next.NamespacedName] = next.Recycle
	}
}

func remove[K comparable](m map[K][]*Sandbox, key K, s *Sandbox) {
	list := slices.DeleteFunc(m[key], func(other *Sandbox) bool { return other == s })
	if len(list) == 0 {
		delete(m, key)
		return
	}
	m[key] = list
}

// callable is what callers may call s, each once.
func (s *Sandbox) callable() []string {
	all := append([]string{s.Name}, s.Names...)
	slices.Sort(all)
	return slices.Compact(all)
}

// active are the Pods that s claims as its own. A sandbox that is being deleted claims
// nothing: its Pod goes back to the Pool without another word.
func (s *Sandbox) active() []identity.NamespacedName {
	if s.Pool == "" || s.Deleting {
		return nil
	}
	var all []identity.NamespacedName
	for _, name := range s.Pods {
		all = append(all, identity.NamespacedName{Namespace: s.Namespace, Name: name})
	}
	return all
}

// freshness is the worst word. It must be called with mu held.
func (x *Index) freshness(now time.Time) identity.FeedStatus {
	var worst identity.FeedStatus
	for i, w := range x.words {
		if s := w.Status(now); i == 0 || s.Worse(worst) {
			worst = s
		}
	}
	return worst
}

// Feeds returns the status of every feed, in the order of registration.
func (x *Index) Feeds() []identity.FeedStatus {
	now := time.Now()
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := make([]identity.FeedStatus, len(x.words))
	for i, w := range x.words {
		all[i] = w.Status(now)
	}
	return all
}

// All returns every sandbox, in no order.
func (x *Index) All() []Sandbox {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all []Sandbox
	for name, list := range x.names {
		for _, s := range list {
			if s.Name == name {
				all = append(all, *s)
			}
		}
	}
	return all
}
