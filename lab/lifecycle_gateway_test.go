package lab_test

import (
	"testing"

	"github.com/samepod/samepod/lab"
)

// TestOpenSandboxLife is the whole life of a sandbox by the real SDK through the product:
// created with secure access, paused, resumed, renewed, and rebuilt by an eviction, which
// a renewal does not excuse.
func TestOpenSandboxLife(t *testing.T) {
	t.Parallel()
	l, o, addrs := newOpenSandbox(t)
	ctx := t.Context()
	g := newGateway(t, l, o.Kube, opensandboxConfig(o.Namespace, addrs, ""))
	g.front(lab.NewestEnvoy(), g.samepod)
	client := must(l.StartOpenSandboxClient(ctx))(t)
	server := must(l.StartOpenSandboxServer(ctx, o.Kube, lab.OpenSandboxConfig{Namespace: o.Namespace, Gateway: g.envoy.Addr.String()}))(t)

	created := meanwhile(client, lab.ClientStep{Do: "create", Server: server.Addr, SecureAccess: true})
	id := must(o.Created(ctx))(t)
	first := g.owns(id, must(o.BringUp(ctx, id, addrs.Take()))(t))
	created(t)
	runsIn := func(p *lab.Pod) {
		t.Helper()
		if got := must(client.Command(command(id)))(t); !got.OK || ran(got.Output) != p.Name {
			t.Errorf("%+v", got)
		}
	}
	runsIn(first)
	g.until("access-denied", id) // without the SDK's token
	for _, e := range first.Executed() {
		if e.Header.Get("OpenSandbox-Secure-Access") != "" {
			t.Error("the token of the gateway reaches the Pod")
		}
	}

	meanwhile(client, lab.ClientStep{Do: "pause"})(t)
	succeed(t, o.AckPause(ctx, id))
	succeed(t, o.CompletePause(ctx, id))
	succeed(t, o.Reconcile(ctx, id))
	if got := must(client.Command(command(id)))(t); got.OK || got.Status != 503 {
		t.Errorf("paused: %+v", got)
	}
	eventually(t, "the server knows", func() bool { return must(server.State(id))(t) == "Paused" })
	resumed := meanwhile(client, lab.ClientStep{Do: "resume", Server: server.Addr, Sandbox: id})
	eventually(t, "the server has asked for it", func() bool {
		pause, _ := must(o.Sandbox(ctx, id))(t).Object["spec"].(tree)["pause"].(bool)
		return !pause
	})
	succeed(t, o.AckResume(ctx, id))
	second := g.owns(id, must(o.BringUp(ctx, id, addrs.Take()))(t))
	resumed(t)
	runsIn(second)

	// The controller takes a renewal for a resume, and says so until its next pass.
	meanwhile(client, lab.ClientStep{Do: "renew", Seconds: 3600})(t)
	succeed(t, o.Reconcile(ctx, id))
	runsIn(second)
	succeed(t, o.Reconcile(ctx, id))
	runsIn(second)

	succeed(t, o.Delete(ctx, second.Name, false))
	meanwhile(client, lab.ClientStep{Do: "renew", Seconds: 7200})(t)
	succeed(t, o.Reconcile(ctx, id)) // Resuming again
	g.owns(id, must(o.BringUp(ctx, id, addrs.Take()))(t))
	eventually(t, "the Pod was replaced", func() bool { return must(client.Command(command(id)))(t).Status == 409 })
	g.finish()
}
