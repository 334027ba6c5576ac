package sandbox_test

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// The vocabulary of this package's tests: Pods and sandboxes of namespace ns, an engine
// with a Pool, and an API server that is a map.

const (
	kind     = "Box.example.org"
	poolKind = "Pool.example.org"
)

func name(n string) identity.NamespacedName {
	return identity.NamespacedName{Namespace: "ns", Name: n}
}

type podOption func(*identity.Pod)

// pod is ns/<n> with uid P-<n>, running at this address.
func pod(n, ip string, options ...podOption) identity.Pod {
	p := identity.Pod{NamespacedName: name(n), UID: identity.UID("P-" + n), Phase: identity.PhaseRunning, Selected: true, Container: "x://1"}
	if ip != "" {
		p.IPs = []netip.Addr{netip.MustParseAddr(ip)}
	}
	for _, o := range options {
		o(&p)
	}
	return p
}

func ownedBy(s string) podOption {
	return func(p *identity.Pod) {
		p.Owner = identity.Owner{Kind: kind, Name: s, UID: identity.UID("S-" + s)}
	}
}
func ofPool(pool string) podOption {
	return func(p *identity.Pod) {
		p.Owner = identity.Owner{Kind: poolKind, Name: pool, UID: identity.UID("L-" + pool)}
	}
}
func podElsewhere(p *identity.Pod)    { p.Namespace = "other" }
func podUID(u identity.UID) podOption { return func(p *identity.Pod) { p.UID = u } }
func failed(p *identity.Pod)          { p.Phase = identity.PhaseFailed }
func pending(p *identity.Pod)         { p.Phase = identity.PhasePending }
func terminating(p *identity.Pod)     { p.Terminating = true }
func restarted(p *identity.Pod)       { p.Container = "x://2" }
func marked(p *identity.Pod)          { p.Marks = map[string]string{"foreign": ""} }

type option func(*sandbox.Sandbox)

// box is ns/<n> with uid S-<n>.
func box(n string, options ...option) sandbox.Sandbox {
	s := sandbox.Sandbox{NamespacedName: name(n), UID: identity.UID("S-" + n), Kind: kind, Version: "10"}
	for _, o := range options {
		o(&s)
	}
	return s
}

// pooled gives it Pods of a Pool.
func pooled(pool string, pods ...string) option {
	return func(s *sandbox.Sandbox) { s.Pool, s.Pods = pool, pods }
}
func released(s *sandbox.Sandbox)   { s.Released = true }
func deleting(s *sandbox.Sandbox)   { s.Deleting = true }
func ended(s *sandbox.Sandbox)      { s.Ended = true }
func expired(s *sandbox.Sandbox)    { s.Expires = time.Now().Add(-time.Second) }
func suspended(s *sandbox.Sandbox)  { s.Suspended = true }
func resuming(s *sandbox.Sandbox)   { s.Resuming = true }
func unassigned(s *sandbox.Sandbox) { s.Unassigned = true }
func unreadable(s *sandbox.Sandbox) { s.Malformed = "status" }
func called(n ...string) option     { return func(s *sandbox.Sandbox) { s.Names = n } }
func elsewhere(s *sandbox.Sandbox)  { s.Namespace = "other" }
func outOfScope(s *sandbox.Sandbox) { s.Namespace = "kube-system" }
func uid(u identity.UID) option     { return func(s *sandbox.Sandbox) { s.UID = u } }
func version(v string) option       { return func(s *sandbox.Sandbox) { s.Version = v } }
func generation(g int64) option     { return func(s *sandbox.Sandbox) { s.Generation = g } }
func secret(t identity.Secret) option {
	return func(s *sandbox.Sandbox) { s.Token = t }
}
func publishes(ips ...string) option {
	return func(s *sandbox.Sandbox) {
		for _, ip := range ips {
			addr, _ := netip.ParseAddr(ip) // the zero Addr is one that cannot be read
			s.Published = append(s.Published, addr)
		}
	}
}
func pinned(podUID identity.UID, g int64) option {
	return func(s *sandbox.Sandbox) {
		s.Pin = sandbox.Pin{Sandbox: s.UID, Pod: podUID, Generation: g, Container: "x://1"}
	}
}
func badPin(s *sandbox.Sandbox) { s.PinFault = "its mac is wrong" }

// engine is the plainest: everything in ns and other is in scope, a token must be equal,
// a Pod with the mark "foreign" is refused.
func engine() sandbox.Engine {
	return sandbox.Engine{
		InScope:  func(n string) bool { return n == "ns" || n == "other" },
		PoolKind: poolKind,
		Access: func(c identity.Claim, s *sandbox.Sandbox) (identity.TargetState, string) {
			if s.Token != "" && c.Access.Token != s.Token {
				return identity.AccessDenied, ""
			}
			return identity.Bound, c.Path
		},
		Refuse: func(_ *sandbox.Sandbox, p identity.Pod) identity.TargetState {
			if _, foreign := p.Marks["foreign"]; foreign {
				return identity.PodForeign
			}
			return identity.Bound
		},
	}
}

// world is an index with its feeds, so that a test can go on writing.
type world struct {
	index *sandbox.Index
	pods  *identity.Feed
	boxes *sandbox.Feed[sandbox.Sandbox]
	pools *sandbox.Feed[sandbox.Pool]
}

// newWorld applies Pods, sandboxes and Pools in order. Pool "del" recycles by Delete,
// "noop" by Noop.
func newWorld(e sandbox.Engine, script ...any) *world {
	pods := identity.NewIndex(identity.HistoryConfig{})
	index := sandbox.NewIndex(e, pods)
	w := &world{index, pods.NewFeed("pods", "told", time.Hour), index.NewFeed("boxes", "told", time.Hour), index.NewPoolFeed("pools", "told", time.Hour)}
	w.pods.Replace(nil, time.Now())
	w.boxes.Replace(nil, time.Now())
	w.pools.Replace([]sandbox.Pool{{NamespacedName: name("del"), Recycle: sandbox.RecycleDelete}, {NamespacedName: name("noop"), Recycle: sandbox.RecycleNoop}}, time.Now())
	w.apply(script...)
	return w
}

func (w *world) apply(script ...any) {
	for _, step := range script {
		switch step := step.(type) {
		case identity.Pod:
			w.pods.Apply(step, time.Now())
		case sandbox.Sandbox:
			w.boxes.Apply(step, time.Now())
		default:
			panic(fmt.Sprintf("what is a %T?", step))
		}
	}
}

func claim(s string) identity.Claim { return identity.Claim{Sandbox: s, Port: 80, Authorized: true} }

// apiServer is what Live reads and writes: the present objects, by kind and name.
type apiServer struct {
	boxes   map[identity.NamespacedName]sandbox.Sandbox
	pods    map[identity.NamespacedName]identity.Pod
	key     []byte
	fail    error  // of every read
	refuse  error  // of every write
	between func() // before every write: what others do meanwhile
	reads   int
	writes  []string
}

func serve(objects ...any) *apiServer {
	a := &apiServer{boxes: map[identity.NamespacedName]sandbox.Sandbox{}, pods: map[identity.NamespacedName]identity.Pod{}}
	for _, o := range objects {
		switch o := o.(type) {
		case identity.Pod:
			a.pods[o.NamespacedName] = o
		case sandbox.Sandbox:
			a.boxes[o.NamespacedName] = o
		}
	}
	return a
}

func (a *apiServer) Get(_ context.Context, _ string, n identity.NamespacedName) (sandbox.Sandbox, bool, error) {
	a.reads++
	s, ok := a.boxes[n]
	return s, ok, a.fail
}

func (a *apiServer) Find(_ context.Context, c identity.Claim) ([]sandbox.Sandbox, error) {
	a.reads++
	var all []sandbox.Sandbox
	for _, s := range a.boxes {
		if s.Name == c.Sandbox {
			all = append(all, s)
		}
	}
	return all, a.fail
}

func (a *apiServer) Pod(_ context.Context, n identity.NamespacedName) (identity.Pod, bool, error) {
	a.reads++
	p, ok := a.pods[n]
	return p, ok, a.fail
}

func (a *apiServer) Annotate(_ context.Context, s sandbox.Sandbox, text string) (sandbox.Sandbox, error) {
	if a.between != nil {
		a.between()
	}
	now, ok := a.boxes[s.NamespacedName]
	switch {
	case a.refuse != nil:
		return sandbox.Sandbox{}, a.refuse
	case !ok, now.UID != s.UID, now.Version != s.Version:
		return sandbox.Sandbox{}, sandbox.ErrConflict
	}
	a.writes = append(a.writes, text)
	n, err := strconv.Atoi(now.Version)
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	now.Version = strconv.Itoa(n + 1)
	now.Pin, err = sandbox.ParsePin(text, a.key)
	a.boxes[s.NamespacedName] = now
	return now, err
}

func check(t *testing.T, rule string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", rule, got, want)
	}
}
