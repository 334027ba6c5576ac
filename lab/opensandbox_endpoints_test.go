package lab_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/samepod/samepod/lab"
)

// TestOpenSandboxEndpoints: what the controller publishes is nothing that Envoy dials,
// whatever it says. Where a cluster of the operator's does, it must be the Pod's.
func TestOpenSandboxEndpoints(t *testing.T) {
	t.Parallel()
	l, o, addrs := newOpenSandbox(t)
	ctx := t.Context()
	resolves := newGateway(t, l, o.Kube, opensandboxConfig(o.Namespace, addrs, ""))
	resolves.front(lab.NewestEnvoy(), resolves.samepod)
	asserts := newGateway(t, l, o.Kube, opensandboxConfig(o.Namespace, addrs, "assert: true"))
	asserts.front(lab.NewestEnvoy(), asserts.samepod, "--upstream", "both")
	a := must(o.Start(ctx, sandboxA, addrs.Take()))(t)
	b := must(o.Start(ctx, sandboxB, addrs.Take()))(t)
	for _, g := range []*gateway{resolves, asserts} {
		g.owns(sandboxA, a)
		g.owns(sandboxB, b)
		g.until(a.Name, sandboxA)
	}
	own, other := a.Addr.Addr(), b.Addr.Addr()
	for _, tc := range []struct{ published, asserts string }{
		{fmt.Sprintf("[%q]", other), "ip-moved"},
		{fmt.Sprintf("[%q,%q]", other, own), "ip-moved"},
		{fmt.Sprintf("[%q,%q]", own, other), a.Name},
		{`[]`, "not-assigned"},
		{`[""]`, "not-assigned"},
		{``, "not-assigned"},
		{`null`, "not-assigned"},
		{fmt.Sprint(other), "not-assigned"},
		{fmt.Sprintf("[%d]", 1), "not-assigned"},
		{fmt.Sprintf("[%q]", " "+own.String()), "not-assigned"},
		{fmt.Sprintf("[%q]", own), a.Name},
	} {
		succeed(t, o.Annotate(ctx, sandboxA, "sandbox.opensandbox.io/endpoints", tc.published))
		asserts.until(tc.asserts, sandboxA)
		if got := resolves.ask(sandboxA); said(got) != a.Name {
			t.Errorf("%q is published: %d %s", tc.published, got.status, got.body)
		}
	}
	resolves.finish()
	asserts.finish()
}

// TestOpenSandboxOnAgentSandbox is the fault of TestControlAgentSandboxServer: the real
// server keeps its sandboxes as Sandboxes of agent-sandbox.
func TestOpenSandboxOnAgentSandbox(t *testing.T) {
	t.Parallel()
	l, a, _ := newAgentSandbox(t)
	ctx, addrs := t.Context(), must(lab.NewAddresses(lab.ExecdPort))(t)
	a.Port = lab.ExecdPort
	g := newGateway(t, l, a.Kube, opensandboxConfig(a.Namespace, addrs, "opensandbox: {providers: [agent-sandbox]}"))
	g.front(lab.NewestEnvoy(), g.samepod)
	server := must(l.StartOpenSandboxServer(ctx, a.Kube, lab.OpenSandboxConfig{Namespace: a.Namespace, Provider: "agent-sandbox", Gateway: g.envoy.Addr.String()}))(t)
	addr := addrs.Take()
	first := g.owns(sandboxA, must(a.Start(ctx, sandboxA, addr))(t))
	client := must(l.StartOpenSandboxClient(ctx))(t)
	if got := must(client.Do(lab.ClientStep{Do: "connect", Server: server.Addr, Sandbox: sandboxA}))(t); !got.OK {
		t.Fatalf("connect: %+v", got)
	}
	if got := must(client.Command(command(sandboxA)))(t); !got.OK || ran(got.Output) != first.Name {
		t.Errorf("A lives: %+v", got)
	}
	succeed(t, a.Exit(ctx, first.Name, corev1.PodFailed))
	g.until("pod-terminal", sandboxA)
	b := g.owns(sandboxB, must(a.Start(ctx, sandboxB, addr))(t))
	g.until(b.Name, sandboxB)
	succeed(t, a.Reconcile(ctx, sandboxA))
	g.until("sandbox-gone", sandboxA)
	if got := must(client.Command(command(sandboxA)))(t); got.OK || got.Status != 409 || !strings.Contains(got.Message, "sandbox-gone") {
		t.Errorf("A is dead: %+v", got)
	}
	g.finish()
}
