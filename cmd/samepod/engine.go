package main

import (
	"slices"

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

var (
	batchSandboxes = kube.Resource{Group: "sandbox.opensandbox.io", Kind: "BatchSandbox", Plural: "batchsandboxes", Versions: []string{"v1alpha1"}, Unread: [][]string{{"spec", "template"}, {"spec", "shardPatches"}, {"spec", "taskTemplate"}}}
	poolsOfPods    = kube.Resource{Group: "sandbox.opensandbox.io", Kind: "Pool", Plural: "pools", Versions: []string{"v1alpha1"}, Unread: [][]string{{"spec", "template"}}}
	agentSandboxes = kube.Resource{Group: agentsandbox.Group, Kind: "Sandbox", Plural: agentsandbox.Resource, Versions: agentsandbox.Versions(), Unread: [][]string{{"spec", "podTemplate"}, {"spec", "volumeClaimTemplates"}}}
)

// openSandbox makes e the engine OpenSandbox. Its state is lost with a Pod, so a new one
// is not followed.
func (e *engine) openSandbox(routes opensandbox.Routes, keys opensandbox.Keys, providers []provider) {
	e.claim, e.access, e.setsPath = routes.Claim, keys.Access, routes.Mode == opensandbox.URIMode
	e.refuse = func(s *sandbox.Sandbox, p identity.Pod) identity.TargetState {
		if s.Kind == agentsandbox.Kind {
			return agentsandbox.Refuse(s, p)
		}
		return opensandbox.Refuse(s, p)
	}
	if slices.Contains(providers, providerBatchSandbox) {
		e.sandboxes = append(e.sandboxes, sandboxKind{batchSandboxes, opensandbox.Decode, opensandbox.Queries})
		e.pools, e.keeps = &poolsOfPods, append(e.keeps, opensandbox.Keep(false))
	}
	if slices.Contains(providers, providerAgentSandbox) {
		e.sandboxes = append(e.sandboxes, sandboxKind{agentSandboxes, func(object map[string]any, pinKey []byte) sandbox.Sandbox {
			s := agentsandbox.Decode(object, pinKey)
			opensandbox.Adopt(&s, object)
			return s
		}, opensandbox.AgentSandboxQueries})
		e.keeps = append(e.keeps, agentsandbox.Keep(nil, false))
	}
}

// agentSandbox makes e the engine agent-sandbox, whose controller builds a lost Pod again
// by contract, so that a new one is followed.
func (e *engine) agentSandbox(routes agentsandbox.Routes) {
	e.claim, e.refuse, e.follow, e.setsPath = routes.Claim, agentsandbox.Refuse, true, routes.PathPrefix != ""
	e.keeps = []identity.Keep{agentsandbox.Keep(nil, false)}
	e.access = func(c identity.Claim, _ *sandbox.Sandbox) (identity.TargetState, string) {
		return identity.Bound, c.Path
	}
	e.sandboxes = []sandboxKind{{agentSandboxes, agentsandbox.Decode, agentsandbox.Queries}}
}

// keep is what of Pods is needed.
func (s settings) keep(containers bool) identity.Keep {
	k := identity.Keep{Selected: s.selected, Containers: containers}
	if s.engine == nil {
		return k
	}
	for _, of := range s.engine.keeps {
		k.Owners, k.Marks = append(k.Owners, of.Owners...), append(k.Marks, of.Marks...)
	}
	return k
}

// watch makes the index of sandboxes, adds its watches to those of Pods, and lets it ask
// the API server.
func (e *engine) watch(source *kube.Source, options kube.Options, conf settings, pins sandbox.PinPolicy, pods *identity.Index) (*sandbox.Index, error) {
	scope, all := conf.policy.Scope.Namespaces()
	if all {
		scope = nil
	}
	live, err := kube.NewLive(options, e.liveKinds(pins.Key), scope)
	if err != nil {
		return nil, err
	}
	joined := sandbox.Engine{
		InScope: conf.policy.Scope.Contains, Access: e.access, Refuse: e.refuse, Assert: e.assert, Pins: pins, Live: live,
	}
	if e.pools != nil {
		joined.PoolKind = e.pools.Owner()
	}
	index := sandbox.NewIndex(joined, pods)
	for _, kind := range e.sandboxes {
		decode := func(object map[string]any) sandbox.Sandbox { return kind.decode(object, pins.Key) }
		if err := kube.Watch(source, kind.resource, decode, index.NewFeed); err != nil {
			return nil, err
		}
	}
	if e.pools != nil {
		if err := kube.Watch(source, *e.pools, opensandbox.DecodePool, index.NewPoolFeed); err != nil {
			return nil, err
		}
	}
	return index, nil
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
