package opensandbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/opensandbox"
	"github.com/samepod/samepod/identity/sandbox"
)

// play is everything from a request to its answer: the routes of this package, an Index
// of its objects, an API server that is two maps, and the check.
type play struct {
	t         *testing.T
	server    *authz.Server
	index     *sandbox.Index
	sandboxes *sandbox.Feed[sandbox.Sandbox]
	pools     *sandbox.Feed[sandbox.Pool]
	pods      *identity.Feed
	api       apiServer
	version   int
}

type apiServer struct {
	sandboxes map[identity.NamespacedName]sandbox.Sandbox
	pods      map[identity.NamespacedName]identity.Pod
}

// A setting changes the engine of a play.
type setting func(*sandbox.Engine, *opensandbox.Routes)

func asserting(e *sandbox.Engine, _ *opensandbox.Routes)      { e.Assert = true }
func withContainers(e *sandbox.Engine, _ *opensandbox.Routes) { e.Pins.Containers = true }
func inURI(_ *sandbox.Engine, r *opensandbox.Routes)          { r.Mode = opensandbox.URIMode }
func withoutPins(e *sandbox.Engine, _ *opensandbox.Routes)    { e.Pins = sandbox.PinPolicy{} }

// newPlay has a Pool of each way to recycle: "pool" deletes, "noop" and "restart".
// Sandboxes are pinned by annotation; namespaces ns and other are in scope.
func newPlay(t *testing.T, settings ...setting) *play {
	t.Helper()
	p := &play{t: t, api: apiServer{map[identity.NamespacedName]sandbox.Sandbox{}, map[identity.NamespacedName]identity.Pod{}}}
	scope := must(authz.ParseScope([]string{"ns", "other"}))
	engine := sandbox.Engine{
		InScope: scope.Contains, PoolKind: opensandbox.PoolKind,
		Access: opensandbox.Keys{}.Access, Refuse: opensandbox.Refuse,
		Pins: sandbox.PinPolicy{Enabled: true, Annotate: true, Required: true}, Live: p,
	}
	var routes opensandbox.Routes
	for _, s := range settings {
		s(&engine, &routes)
	}
	pods := identity.NewIndex(identity.HistoryConfig{})
	p.index = sandbox.NewIndex(engine, pods)
	p.pods = pods.NewFeed("pods", "told", time.Hour)
	p.sandboxes = p.index.NewFeed("batchsandboxes", "told", time.Hour)
	p.pools = p.index.NewPoolFeed("pools", "told", time.Hour)
	p.pods.Replace(nil, time.Now())
	p.sandboxes.Replace(nil, time.Now())
	p.pools.Replace([]sandbox.Pool{pool("pool", "Delete"), pool("noop", "Noop"), pool("restart", "Restart")}, time.Now())
	p.server = authz.NewServer(authz.Config{
		Claim: authz.Route(routes.Claim, authz.Source{}), Target: p.index.Target, Confirm: p.index.Confirm,
		Policy: authz.Policy{Scope: scope, Ports: must(authz.ParsePorts([]string{"44772", "80"}))},
		Log:    slog.New(slog.DiscardHandler), Metrics: authz.NewMetrics(prometheus.NewRegistry()),
	})
	return p
}

// has makes Pods, and BatchSandboxes as the API has them, come into being or change.
func (p *play) has(things ...any) {
	for _, thing := range things {
		switch thing := thing.(type) {
		case identity.Pod:
			p.api.pods[thing.NamespacedName] = thing
			p.pods.Apply(thing, time.Now())
		case map[string]any:
			p.sandboxes.Apply(p.unseen(thing), time.Now())
		default:
			p.t.Fatalf("what is a %T?", thing)
		}
	}
}

// unseen makes a BatchSandbox come into being, or change, before the watch tells.
func (p *play) unseen(object map[string]any) sandbox.Sandbox {
	p.version++
	meta("resourceVersion", fmt.Sprint(p.version))(object)
	s := opensandbox.Decode(object, nil)
	if known := p.api.sandboxes[s.NamespacedName]; known.UID == s.UID && s.Pin == (sandbox.Pin{}) {
		s.Pin = known.Pin // nobody else writes it
	}
	p.api.sandboxes[s.NamespacedName] = s
	return s
}

// loses deletes Pods and BatchSandboxes.
func (p *play) loses(things ...any) {
	for _, thing := range things {
		switch thing := thing.(type) {
		case identity.Pod:
			delete(p.api.pods, thing.NamespacedName)
			p.pods.Delete(thing.NamespacedName, thing.UID, time.Now())
		case map[string]any:
			s := opensandbox.Decode(thing, nil)
			delete(p.api.sandboxes, s.NamespacedName)
			p.sandboxes.Delete(s.NamespacedName, s.UID, time.Now())
		}
	}
}

// Get implements [sandbox.Live], as all of the following do.
func (p *play) Get(_ context.Context, _ string, name identity.NamespacedName) (sandbox.Sandbox, bool, error) {
	s, found := p.api.sandboxes[name]
	return s, found, nil
}

// Find answers the queries of this package as an API server does.
func (p *play) Find(_ context.Context, c identity.Claim) ([]sandbox.Sandbox, error) {
	var all []sandbox.Sandbox
	for name, s := range p.api.sandboxes {
		for _, q := range opensandbox.Queries(c) {
			if q.Name == name.Name || slices.ContainsFunc(s.Names, func(id string) bool { return q.Label != "" && q.Value == id }) {
				all = append(all, s)
				break
			}
		}
	}
	return all, nil
}

func (p *play) Pod(_ context.Context, name identity.NamespacedName) (identity.Pod, bool, error) {
	pod, found := p.api.pods[name]
	return pod, found, nil
}

func (p *play) Annotate(_ context.Context, s sandbox.Sandbox, text string) (sandbox.Sandbox, error) {
	now, found := p.api.sandboxes[s.NamespacedName]
	if !found || now.UID != s.UID || now.Version != s.Version {
		return sandbox.Sandbox{}, sandbox.ErrConflict
	}
	p.version++
	now.Version, now.Pin = fmt.Sprint(p.version), must(sandbox.ParsePin(text, nil))
	p.api.sandboxes[s.NamespacedName] = now
	p.sandboxes.Apply(now, time.Now())
	return now, nil
}

// answers asks for the sandbox, and wants this: a reason, or the uid of the Pod and the
// address where it passes.
func (p *play) answers(sandbox, want string) {
	p.t.Helper()
	p.answersTo(to(sandbox+"-44772"), want)
}

func (p *play) answersTo(r request, want string) {
	p.t.Helper()
	http := &authv3.AttributeContext_HttpRequest{Method: "POST", Host: r.host, Path: r.path, HeaderMap: &corev3.HeaderMap{}}
	for name, value := range r.headers {
		http.HeaderMap.Headers = append(http.HeaderMap.Headers, &corev3.HeaderValue{Key: name, RawValue: []byte(value)})
	}
	if r.repeated != "" {
		for range 2 {
			http.HeaderMap.Headers = append(http.HeaderMap.Headers, &corev3.HeaderValue{Key: r.repeated, RawValue: []byte("a-44772")})
		}
	}
	resp, err := p.server.Check(p.t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{Http: http}}})
	if err != nil {
		p.t.Fatal(err)
	}
	got := resp.GetStatus().GetMessage()
	if fields := resp.GetDynamicMetadata().GetFields(); resp.GetStatus().GetCode() == 0 {
		got = fields[authz.UIDKey].GetStringValue() + " at " + strings.TrimSuffix(fields[authz.UpstreamKey].GetStringValue(), ":44772")
		for _, h := range resp.GetOkResponse().GetHeaders() {
			if h.GetHeader().GetKey() == ":path" {
				got += ", path " + h.GetHeader().GetValue()
			}
		}
	}
	if got != want {
		p.t.Errorf("%q, want %q", got, want)
	}
}
