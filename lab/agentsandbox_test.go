package lab_test

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/agentsandbox"
	sandboxes "github.com/samepod/samepod/identity/sandbox" // a sandbox is something else in these tests
	"github.com/samepod/samepod/lab"
)

// TestAgentSandbox is the way of a request of agent-sandbox's callers, from the headers
// or the path to the Pod: what samepod answers is what its rendering lets it set.
func TestAgentSandbox(t *testing.T) {
	for _, version := range []string{lab.EnvoyVersions()[0], lab.NewestEnvoy()} {
		t.Run(version, func(t *testing.T) { t.Parallel(); playAgentSandbox(t, version) })
	}
}

func playAgentSandbox(t *testing.T, version string) {
	l := newLab(t)
	addrs := must(lab.NewAddresses(lab.ExecdPort))(t)
	up := netip.AddrPortFrom(addrs.Take(), lab.ExecdPort)
	startMirror(t, up)

	policy := authz.Policy{
		Scope: must(authz.ParseScope([]string{"default"}))(t), Ports: must(authz.ParsePorts([]string{"44772"}))(t),
		Addresses: must(authz.ParseAddresses([]string{addrs.Prefix().String()}))(t),
	}
	pods := identity.NewIndex(identity.HistoryConfig{})
	podFeed := pods.NewFeed("pods", "echo", time.Hour)
	x := sandboxes.NewIndex(sandboxes.Engine{InScope: policy.Scope.Contains, Access: agentsandbox.Access, Refuse: agentsandbox.Refuse}, pods)
	feed := x.NewFeed("sandboxes", "events", time.Hour)
	object := func(mode string) sandboxes.Sandbox {
		return agentsandbox.Decode(map[string]any{
			"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "spec": map[string]any{"operatingMode": mode},
			"metadata": map[string]any{"namespace": "default", "name": "a", "uid": "S-a", "resourceVersion": "1"},
		}, nil)
	}
	pod := must(identity.Object{
		Namespace: "default", Name: "a", UID: "uid-a", Phase: "Running", PodIP: up.Addr().String(),
		Owner: identity.Owner{Kind: agentsandbox.Kind, Name: "a", UID: "S-a"},
	}.Pod(agentsandbox.Keep()))(t)
	feed.Replace([]sandboxes.Sandbox{object("Running")}, time.Now())
	podFeed.Replace([]identity.Pod{pod}, time.Now())
	routes := agentsandbox.DefaultRoutes()
	routes.PathPrefix = "/s"
	server := must(l.StartAuthzServer())(t)
	server.Say(authz.NewServer(authz.Config{
		Claim: authz.Route(routes.Claim, authz.Source{}), Target: x.Target, Policy: policy,
		Log: slog.New(slog.DiscardHandler), Metrics: authz.NewMetrics(prometheus.NewRegistry()),
	}).Check)

	a := &arm{Lab: l, t: t, addrs: addrs}
	config := samepodCLI(t, "envoy", "bootstrap", "--envoy-version", version, "--samepod", server.Addr.String(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--dialect", "agent-sandbox", "--path-form")
	a.envoy = must(l.StartEnvoy(t.Context(), "envoy", envoyBinary(t, version), config))(t)
	a.waitVerdicts()

	byHeader := []string{"X-Sandbox-ID", "a", "X-Sandbox-Port", "44772"}
	reaches := func(what, path, target string, header ...string) {
		t.Helper()
		c := do(t, "GET", a.envoy.URL(path), "", header...)
		var got heard
		if err := json.Unmarshal([]byte(c.body), &got); err != nil || c.status != 200 {
			t.Errorf("%s: %d %s", what, c.status, c.body)
			return
		}
		if got.Target != target || got.Header.Get("x-samepod-pod-uid") != "uid-a" || strings.Contains(c.body, "X-Sandbox-") {
			t.Errorf("%s: the Pod gets %+v", what, got)
		}
	}
	reaches("headers", "/x?y", "/x?y", byHeader...)
	reaches("the path", "/s/default/a/44772/lab?y", "/lab?y")
	reaches("both", "/s/default/a/44772/lab", "/lab", byHeader...)
	reaches("a client that remembers another address", "/x", "/x", append([]string{"X-Sandbox-Pod-IP", addrs.Take().String()}, byHeader...)...)

	checkProblem(t, "two ids", do(t, "GET", a.envoy.URL("/s/default/b/44772/"), "", byHeader...), 400, "claim-conflict", false)
	checkProblem(t, "half a path", do(t, "GET", a.envoy.URL("/s/default/a"), "", byHeader...), 400, "claim-malformed", false)
	feed.Apply(object("Suspended"), time.Now())
	checkProblem(t, "suspended", do(t, "GET", a.envoy.URL("/x"), "", byHeader...), 503, "sandbox-suspended", false)
	a.invariant(7)
}
