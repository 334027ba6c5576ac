package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/agentsandbox"
	"github.com/samepod/samepod/identity/kube"
	"github.com/samepod/samepod/identity/opensandbox"
	"github.com/samepod/samepod/identity/sandbox"
)

// engine is the packages of an engine's dialect, joined.
type engine struct {
	claim     func(identity.Request) (identity.Claim, error)
	access    func(identity.Claim, *sandbox.Sandbox) (identity.TargetState, string)
	refuse    func(*sandbox.Sandbox, identity.Pod) identity.TargetState
	sandboxes []sandboxKind
	pools     *kube.Resource  // nil for none
	keeps     []identity.Keep // of Pods, that the rest reads
	keysFile  string          // of signed routes, for readKeys; "" for none
	setsPath  bool            // the Pod may get another :path than the caller sent
	assert    bool
	follow    bool // where nothing else is said, whether a new Pod is followed
}

// sandboxKind is one kind of objects that are sandboxes.
type sandboxKind struct {
	resource kube.Resource
	decode   func(object map[string]any, pinKey []byte) sandbox.Sandbox
	queries  func(identity.Claim) []sandbox.Query
}

// The kinds of objects that engines have.
var (
	batchSandboxes = kube.Resource{Group: opensandbox.Group, Kind: "BatchSandbox", Plural: opensandbox.Resource, Versions: opensandbox.Versions(), Unread: opensandbox.Unread()}
	poolsOfPods    = kube.Resource{Group: opensandbox.Group, Kind: "Pool", Plural: opensandbox.PoolResource, Versions: opensandbox.Versions(), Unread: opensandbox.UnreadOfPools()}
	agentSandboxes = kube.Resource{Group: agentsandbox.Group, Kind: "Sandbox", Plural: agentsandbox.Resource, Versions: agentsandbox.Versions(), Unread: agentsandbox.Unread()}
)

// openSandbox makes e the engine OpenSandbox. Its state is lost with a Pod, so a new one
// is not followed.
func (e *engine) openSandbox(routes opensandbox.Routes, providers []provider) {
	e.claim, e.access, e.setsPath = routes.Claim, opensandbox.Keys{}.Access, routes.Mode == opensandbox.URIMode
	e.refuse = func(s *sandbox.Sandbox, p identity.Pod) identity.TargetState {
		if s.Kind == agentsandbox.Kind {
			return agentsandbox.Refuse(s, p)
		}
		return opensandbox.Refuse(s, p)
	}
	if slices.Contains(providers, providerBatchSandbox) {
		e.sandboxes = append(e.sandboxes, sandboxKind{batchSandboxes, opensandbox.Decode, opensandbox.Queries})
		e.pools, e.keeps = &poolsOfPods, append(e.keeps, opensandbox.Keep())
	}
	if slices.Contains(providers, providerAgentSandbox) {
		e.sandboxes = append(e.sandboxes, sandboxKind{agentSandboxes, func(object map[string]any, pinKey []byte) sandbox.Sandbox {
			s := agentsandbox.Decode(object, pinKey)
			opensandbox.Adopt(&s, object)
			return s
		}, opensandbox.Queries})
		e.keeps = append(e.keeps, agentsandbox.Keep())
	}
}

// agentSandbox makes e the engine agent-sandbox, whose controller builds a lost Pod again
// by contract, so that a new one is followed.
func (e *engine) agentSandbox(routes agentsandbox.Routes) {
	e.claim, e.access, e.refuse, e.follow, e.setsPath = routes.Claim, agentsandbox.Access, agentsandbox.Refuse, true, routes.PathPrefix != ""
	e.keeps = []identity.Keep{agentsandbox.Keep()}
	e.sandboxes = []sandboxKind{{agentSandboxes, agentsandbox.Decode, agentsandbox.Queries}}
}

// keep is what of Pods e needs.
func (e *engine) keep() identity.Keep {
	var k identity.Keep
	for _, of := range e.keeps {
		k.Owners, k.Marks = append(k.Owners, of.Owners...), append(k.Marks, of.Marks...)
	}
	return k
}

// keep is what of Pods is needed.
func (s settings) keep(containers bool) identity.Keep {
	var k identity.Keep
	if s.engine != nil {
		k = s.engine.keep()
	}
	k.Selected, k.Containers = s.selected, containers
	return k
}

// parts are what a [sandbox.Index] needs of e, with every namespace in scope and no pins.
func (e *engine) parts() sandbox.Engine {
	p := sandbox.Engine{InScope: func(string) bool { return true }, Access: e.access, Refuse: e.refuse, Assert: e.assert}
	if e.pools != nil {
		p.PoolKind = e.pools.Owner()
	}
	return p
}

// open makes the index of sandboxes that samepod serve asks, adds its watches to those of
// Pods, and lets it ask the API server.
func (e *engine) open(source *kube.Source, options kube.Options, scope authz.Scope, pins sandbox.PinPolicy, pods *identity.Index) (*sandbox.Index, error) {
	namespaces, all := scope.Namespaces()
	if all {
		namespaces = nil
	}
	live, err := kube.NewLive(options, e.liveKinds(pins.Key), namespaces)
	if err != nil {
		return nil, err
	}
	parts := e.parts()
	parts.InScope, parts.Pins, parts.Live = scope.Contains, pins, live
	index := sandbox.NewIndex(parts, pods)
	return index, e.watch(source, index, pins.Key)
}

// watch adds watches of everything that e reads, which write into index.
func (e *engine) watch(source *kube.Source, index *sandbox.Index, pinKey []byte) error {
	for _, kind := range e.sandboxes {
		decode := func(object map[string]any) sandbox.Sandbox { return kind.decode(object, pinKey) }
		if err := kube.Watch(source, kind.resource, decode, index.NewFeed); err != nil {
			return err
		}
	}
	if e.pools == nil {
		return nil
	}
	return kube.Watch(source, *e.pools, opensandbox.DecodePool, index.NewPoolFeed)
}

// fill writes objects of a file into index. What e does not read is an error: it is left
// out of an audit otherwise, and nobody sees that.
func (e *engine) fill(index *sandbox.Index, objects []map[string]any, asOf time.Time) error {
	sandboxes := make([][]sandbox.Sandbox, len(e.sandboxes))
	var pools []sandbox.Pool
	for i, object := range objects {
		k := slices.IndexFunc(e.sandboxes, func(k sandboxKind) bool { return k.resource.Is(object) })
		switch {
		case k >= 0:
			sandboxes[k] = append(sandboxes[k], e.sandboxes[k].decode(object, nil))
		case e.pools != nil && e.pools.Is(object):
			pools = append(pools, opensandbox.DecodePool(object))
		default:
			return fmt.Errorf("object %d: kind: %v of %v; allowed: BatchSandbox, Pool, Sandbox in a version that is understood", i, object["kind"], object["apiVersion"])
		}
	}
	for k, kind := range e.sandboxes {
		index.NewFeed(kind.resource.Plural, "the file itself", time.Hour).Replace(sandboxes[k], asOf)
	}
	index.NewPoolFeed("pools", "the file itself", time.Hour).Replace(pools, asOf)
	return nil
}

// everyEngine reads the objects of all engines, whoever made them.
func everyEngine() *engine {
	e := &engine{}
	e.openSandbox(opensandbox.Routes{}, []provider{providerBatchSandbox, providerAgentSandbox})
	return e
}

// liveKinds are the kinds as the API server is asked for them.
func (e *engine) liveKinds(pinKey []byte) []kube.LiveKind {
	var kinds []kube.LiveKind
	for _, kind := range e.sandboxes {
		kinds = append(kinds, kube.LiveKind{
			Resource: kind.resource, Queries: kind.queries,
			Decode: func(object map[string]any) sandbox.Sandbox { return kind.decode(object, pinKey) },
		})
	}
	return kinds
}
