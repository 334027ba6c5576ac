package main

import (
	"log/slog"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/agentsandbox"
	"github.com/samepod/samepod/identity/sandbox"
)

// TestAgentSandboxAnswers: what a caller of agent-sandbox is answered, and what by the
// routers of agent-sandbox themselves. What is wrong in the request has their status;
// where they find out by dialling (502), or not at all (200), samepod knows before.
func TestAgentSandboxAnswers(t *testing.T) {
	now := time.Now()
	pods := identity.NewIndex(identity.HistoryConfig{})
	podFeed := pods.NewFeed("pods", "echo", time.Minute)
	policy := authz.Policy{Scope: mustBe(authz.ParseScope([]string{"default"})), Ports: mustBe(authz.ParsePorts([]string{"8888"}))}
	x := sandbox.NewIndex(sandbox.Engine{InScope: policy.Scope.Contains, Access: agentsandbox.Access, Refuse: agentsandbox.Refuse}, pods)
	feed := x.NewFeed("sandboxes", "events", time.Minute)
	keep := agentsandbox.Keep()
	var objects []sandbox.Sandbox
	var running []identity.Pod
	for name, spec := range map[string]map[string]any{"a": {}, "asleep": {"operatingMode": "Suspended"}, "over": {"shutdownTime": "2026-01-01T00:00:00Z"}, "dead": {}} {
		objects = append(objects, agentsandbox.Decode(map[string]any{
			"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "spec": spec,
			"metadata": map[string]any{"namespace": "default", "name": name, "uid": "S-" + name, "resourceVersion": "1"},
		}, nil))
		phase := map[bool]string{true: "Failed", false: "Running"}[name == "dead"]
		running = append(running, mustBe(identity.Object{
			Namespace: "default", Name: name, UID: "U-" + name, Phase: phase, PodIP: map[string]string{"a": "10.0.0.1", "asleep": "10.0.0.2", "over": "10.0.0.3", "dead": "10.0.0.4"}[name],
			Owner: identity.Owner{Kind: agentsandbox.Kind, Name: name, UID: identity.UID("S-" + name)},
		}.Pod(keep)))
	}
	podFeed.Replace(running, now)
	feed.Replace(objects, now)
	server := authz.NewServer(authz.Config{
		Claim: authz.Route(agentsandbox.DefaultRoutes().Claim, authz.Source{}), Target: x.Target, Policy: policy,
		Log: slog.New(slog.DiscardHandler), Metrics: authz.NewMetrics(prometheus.NewRegistry()),
	})
	for _, tc := range []struct {
		routers, want int
		reason        string
		headers       []string
	}{
		{200, 0, "", []string{"x-sandbox-id", "a"}},
		{200, 0, "", []string{"x-sandbox-id", "a", "x-sandbox-pod-ip", "10.0.0.9"}}, // they dial it
		{400, 400, "claim-missing", nil},
		{400, 400, "claim-malformed", []string{"x-sandbox-id", "a.b"}},
		{400, 400, "claim-malformed", []string{"x-sandbox-id", "a", "x-sandbox-namespace", "-"}},
		{400, 400, "claim-malformed", []string{"x-sandbox-id", "a", "x-sandbox-port", "65536"}},
		{400, 400, "claim-malformed", []string{"x-sandbox-id", "a", "x-sandbox-port", "x"}},
		{400, 400, "claim-malformed", []string{"x-sandbox-id", "a", "x-sandbox-pod-ip", "x"}},
		{200, 400, "claim-conflict", []string{"x-sandbox-id", "a", "x-sandbox-id", "asleep"}}, // they take the first
		{403, 403, "target-not-allowed", []string{"x-sandbox-id", "a", "x-sandbox-namespace", "kube-system"}},
		{502, 404, "unknown-sandbox", []string{"x-sandbox-id", "nobody"}},
		{502, 503, "sandbox-suspended", []string{"x-sandbox-id", "asleep"}},
		{502, 409, "sandbox-gone", []string{"x-sandbox-id", "over"}},
		{502, 409, "pod-terminal", []string{"x-sandbox-id", "dead"}}, // or 200, from whoever has the address
		{200, 409, "sandbox-replaced", []string{"x-sandbox-id", "a", "x-sandbox-uid", "S-dead"}},
		{502, 403, "port-not-allowed", []string{"x-sandbox-id", "a", "x-sandbox-port", "22"}},
	} {
		http := &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/", Host: "gateway", HeaderMap: &corev3.HeaderMap{}}
		for i := 0; i < len(tc.headers); i += 2 {
			http.HeaderMap.Headers = append(http.HeaderMap.Headers, &corev3.HeaderValue{Key: tc.headers[i], RawValue: []byte(tc.headers[i+1])})
		}
		resp, err := server.Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{Http: http}}})
		if err != nil {
			t.Fatal(err)
		}
		reason := ""
		for _, h := range resp.GetDeniedResponse().GetHeaders() {
			if h.GetHeader().GetKey() == authz.ReasonHeader {
				reason = h.GetHeader().GetValue()
			}
		}
		if got := int(resp.GetDeniedResponse().GetStatus().GetCode()); got != tc.want || reason != tc.reason {
			t.Errorf("%q: %d %s, want %d %s (the routers: %d)", tc.headers, got, reason, tc.want, tc.reason, tc.routers)
		}
	}
}

func mustBe[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
