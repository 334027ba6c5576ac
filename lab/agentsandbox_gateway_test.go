package lab_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/samepod/samepod/lab"
)

// named asks for a Sandbox of agent-sandbox as its clients do.
func (a *agentGateway) named(sandbox string, more ...string) []string {
	return append([]string{"X-Sandbox-ID", sandbox, "X-Sandbox-Namespace", a.Namespace, "X-Sandbox-Port", fmt.Sprint(lab.AgentSandboxPort)}, more...)
}

// agentGateway is a gateway before agent-sandbox.
type agentGateway struct {
	*gateway
	*lab.AgentSandbox
	addrs *lab.Addresses
}

// newAgentGateway starts samepod and an Envoy of this version. more are lines
// of its configuration.
func newAgentGateway(t *testing.T, version, more string, envoyArgs ...string) *agentGateway {
	t.Helper()
	l, a, addrs := newAgentSandbox(t)
	g := newGateway(t, l, a.Kube, agentSandboxConfig(a.Namespace, addrs, more))
	g.front(version, g.samepod, envoyArgs...)
	return &agentGateway{g, a, addrs}
}

func (a *agentGateway) until(want, sandbox string) {
	a.t.Helper()
	until(a.t, want, func() call { return a.send(a.envoy, sandbox, a.named(sandbox)...) })
}

// start is [lab.AgentSandbox.Start] of a Pod that is the sandbox's.
func (a *agentGateway) start(sandbox string) *lab.Pod {
	a.t.Helper()
	p := a.owns(sandbox, must(a.Start(a.t.Context(), sandbox, a.addrs.Take()))(a.t))
	a.until(p.Name, sandbox)
	return p
}

// again gives a sandbox whose Pod object is deleted another Pod.
func (a *agentGateway) again(sandbox string) *lab.Pod {
	a.t.Helper()
	succeed(a.t, a.Reconcile(a.t.Context(), sandbox))
	return a.owns(sandbox, must(a.BringUp(a.t.Context(), sandbox, a.addrs.Take()))(a.t))
}

// client connects agent-sandbox's own client by way of Envoy.
func (a *agentGateway) client(claim string) *lab.EngineClient {
	a.t.Helper()
	c := must(a.StartAgentSandboxClient(a.t.Context(), a.Kube))(a.t)
	connect := lab.ClientStep{Do: "connect", Server: a.envoy.URL(""), Claim: claim, Namespace: a.Namespace, Port: lab.AgentSandboxPort}
	if got := must(c.Do(connect))(a.t); !got.OK {
		a.t.Fatalf("connect: %+v", got)
	}
	return c
}

// TestAgentSandbox is the incident of TestControlAgentSandbox with the product between:
// the real client sends the first address that it has read for good, and reaches its
// sandbox, or nobody.
func TestAgentSandbox(t *testing.T) {
	for _, version := range []string{"1.36.4", lab.NewestEnvoy()} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			g := newAgentGateway(t, version, "")
			ctx, addr := t.Context(), g.addrs.Take()
			first := g.owns("box", must(g.StartWarm(ctx, "box", "warm", addr))(t))
			g.until("not-assigned", "box") // nobody has claimed it
			succeed(t, g.Claim(ctx, "claim", "box"))
			client := g.client("claim")
			runs := func(p *lab.Pod) func() bool {
				return func() bool {
					got := must(client.Command(command("box")))(t)
					return got.OK && ran(got.Output) == p.Name
				}
			}
			eventually(t, "A lives", runs(first))
			if up, got := must(client.Upload("dir/file", "hi"))(t), must(client.Read("dir/file"))(t); !up.OK || got.Output != "hi" {
				t.Errorf("upload %+v, read %+v", up, got)
			}

			succeed(t, g.Exit(ctx, "box", corev1.PodSucceeded))
			g.until("pod-terminal", "box")
			other := g.owns("other", must(g.Start(ctx, "other", addr))(t))
			g.until(other.Name, "other")
			if got := must(client.Command(command("box")))(t); got.OK || got.Status != 409 {
				t.Errorf("A is dead: %+v", got)
			}
			succeed(t, g.Reconcile(ctx, "box"))
			g.until("sandbox-gone", "box") // Finished

			succeed(t, g.Delete(ctx, "box", false))
			second := g.again("box")
			moved := time.Now()
			hints := g.metric("samepod_stale_hints_total")
			eventually(t, "the same client goes on", runs(second))
			t.Logf("the same client goes on %v after the new Pod was ready", time.Since(moved).Round(time.Millisecond))
			if g.metric("samepod_stale_hints_total") == hints {
				t.Error("no stale hint is counted: the client has not sent the old address, and this shows nothing")
			}

			succeed(t, g.Suspend(ctx, "box"))
			succeed(t, g.Reconcile(ctx, "box"))
			g.until("sandbox-suspended", "box")
			succeed(t, g.Delete(ctx, "box", false))
			succeed(t, g.Reconcile(ctx, "box"))
			succeed(t, g.Resume(ctx, "box"))
			third := g.again("box")
			eventually(t, "the same client goes on after a suspension", runs(third))
			for _, e := range third.Executed() {
				for name := range e.Header {
					if strings.HasPrefix(name, "X-Sandbox-") {
						t.Errorf("%s reaches the Pod", name)
					}
				}
			}
			g.finish()
		})
	}
}

// TestAgentSandboxForms: the path form, its uid, and the statuses of its routers.
func TestAgentSandboxForms(t *testing.T) {
	t.Parallel()
	g := newAgentGateway(t, lab.NewestEnvoy(), "agentSandbox: {pathPrefix: /sandboxes}")
	box := g.start("box")
	uid := string(must(g.Sandbox(t.Context(), "box"))(t).GetUID())
	body := `{"command":"for box"}`
	at := func(namespace, id, port string) string {
		return g.envoy.URL("/sandboxes/" + namespace + "/" + id + "/" + port + "/command")
	}
	for _, tc := range []struct {
		what   string
		got    call
		status int
		said   string
	}{
		{"by the path", do(t, "POST", at(g.Namespace, "box", "8888"), body), 200, box.Name},
		{"with the uid", g.send(g.envoy, "box", g.named("box", "X-Sandbox-UID", uid)...), 200, box.Name},
		{"with another uid", g.send(g.envoy, "box", g.named("box", "X-Sandbox-UID", "another")...), 409, "sandbox-replaced"},
		{"two names", do(t, "POST", at(g.Namespace, "box", "8888"), body, "X-Sandbox-ID", "other"), 400, "claim-conflict"},
		{"no name", g.send(g.envoy, "box"), 400, "claim-missing"},
		{"nobody's", g.send(g.envoy, "nobody", g.named("nobody")...), 404, "unknown-sandbox"},
		{"out of scope", do(t, "POST", at("kube-system", "box", "8888"), body), 403, "target-not-allowed"},
		{"another port", do(t, "POST", at(g.Namespace, "box", "80"), body), 403, "port-not-allowed"},
	} {
		if tc.got.status != tc.status || said(tc.got) != tc.said {
			t.Errorf("%s: %d %s, want %d %s", tc.what, tc.got.status, tc.got.body, tc.status, tc.said)
		}
	}
	label := func(value string) { // of the Pod alone, as it is for up to a second after a Sandbox was adopted
		patch := `{"metadata":{"labels":{"agents.x-k8s.io/warm-pool-sandbox":` + value + `}}}`
		must(g.kube.Client.CoreV1().Pods(g.Namespace).Patch(t.Context(), "box", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
	}
	label(`"warm"`)
	g.until("not-assigned", "box")
	label(`null`)
	g.until(box.Name, "box")
	g.finish()
}

// TestAgentSandboxAssert: where a cluster of the operator's dials what the client
// remembers, an address that is old is a 503, which makes the client forget it.
func TestAgentSandboxAssert(t *testing.T) {
	t.Parallel()
	g := newAgentGateway(t, lab.NewestEnvoy(), "assert: true", "--upstream", "both")
	ctx := t.Context()
	first := g.start("box")
	succeed(t, g.Claim(ctx, "claim", "box"))
	client := g.client("claim")
	if got := must(client.Command(command("box")))(t); !got.OK || ran(got.Output) != first.Name {
		t.Fatalf("A lives: %+v", got)
	}
	succeed(t, g.Delete(ctx, "box", false))
	second := g.again("box")
	g.until(second.Name, "box")
	if got := must(client.Command(command("box")))(t); got.OK || got.Status != 503 || reasonIn(got.Body) != "hint-stale" {
		t.Errorf("the address that it remembers is old: %+v", got)
	}
	if got := must(client.Command(command("box")))(t); !got.OK || ran(got.Output) != second.Name {
		t.Errorf("it has not forgotten: %+v", got)
	}
	g.finish()
}
