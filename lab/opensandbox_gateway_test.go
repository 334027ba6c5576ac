package lab_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/samepod/samepod/lab"
)

// TestOpenSandbox is the incident of TestControlOpenSandbox, with the product between:
// the real server sends the real SDKs to Envoy, A's Pod dies, B's gets its address, and
// what is asked of A is answered 409. A sandbox that was resumed has another Pod and
// another address, and the same client goes on.
func TestOpenSandbox(t *testing.T) {
	for _, version := range []string{"1.36.4", lab.NewestEnvoy()} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			l, o, addrs := newOpenSandbox(t)
			ctx, addr := t.Context(), addrs.Take()
			g := newGateway(t, l, o.Kube, opensandboxConfig(o.Namespace, addrs, ""))
			g.front(version, g.samepod)
			server := must(l.StartOpenSandboxServer(ctx, o.Kube, lab.OpenSandboxConfig{Namespace: o.Namespace, Gateway: g.envoy.Addr.String(), ProxyThroughGateway: true}))(t)
			first := g.owns(sandboxA, must(o.Start(ctx, sandboxA, addr))(t))
			clients := map[string]*lab.EngineClient{
				"python": must(l.StartOpenSandboxClient(ctx))(t),
				"node":   must(l.StartOpenSandboxNodeClient(ctx))(t),
			}
			for name, c := range clients {
				if got := must(c.Do(lab.ClientStep{Do: "connect", Server: server.Addr, Sandbox: sandboxA}))(t); !got.OK {
					t.Fatalf("%s: connect: %+v", name, got)
				}
				if got := must(c.Command(command(sandboxA)))(t); !got.OK || ran(got.Output) != first.Name {
					t.Errorf("%s: A lives: %+v", name, got)
				}
				if up, got := must(c.Upload("/tmp/"+name, name))(t), must(c.Read("/tmp/"+name))(t); !up.OK || got.Output != name {
					t.Errorf("%s: upload %+v, read %+v", name, up, got)
				}
			}

			succeed(t, o.Exit(ctx, first.Name, corev1.PodFailed))
			died := time.Now()
			g.until("pod-terminal", sandboxA)
			t.Logf("409 %v after the API knew of the Pod's end", time.Since(died).Round(time.Millisecond))
			succeed(t, o.Reconcile(ctx, sandboxA))
			b := g.owns(sandboxB, must(o.Start(ctx, sandboxB, addr))(t))
			g.until(b.Name, sandboxB)
			proxy := func() call {
				return do(t, "POST", server.ProxyURL(sandboxA, "/command"), `{"command":"`+command(sandboxA)+`"}`)
			}
			if got := proxy(); got.status != 409 || reasonIn(got.body) != "pod-terminal" {
				t.Errorf("the server's own proxy: %d %s", got.status, got.body)
			}
			for name, c := range clients {
				got := must(c.Command(command(sandboxA)))(t)
				if got.OK || got.Status != 409 || !strings.Contains(got.Message, "pod-terminal") {
					t.Errorf("%s: A is dead: %+v", name, got)
				}
				if got := must(c.Read("/tmp/" + name))(t); got.OK || got.Status != 409 {
					t.Errorf("%s: A is dead: read %+v", name, got)
				}
			}

			succeed(t, o.Pause(ctx, sandboxA))
			g.until("sandbox-suspended", sandboxA)
			succeed(t, o.Resume(ctx, sandboxA))
			second := g.owns(sandboxA, must(o.BringUp(ctx, sandboxA, addrs.Take()))(t))
			resumed := time.Now()
			for name, c := range clients {
				eventually(t, name+" goes on", func() bool {
					got := must(c.Command(command(sandboxA)))(t)
					return got.OK && ran(got.Output) == second.Name
				})
				t.Logf("%s: the same client goes on %v after the Pod was ready", name, time.Since(resumed).Round(time.Millisecond))
			}
			if got := proxy(); ran(got.body) != second.Name {
				t.Errorf("the server's own proxy: %d %s", got.status, got.body)
			}
			for _, e := range second.Executed() {
				if e.Header.Get("OpenSandbox-Ingress-To") != "" {
					t.Error("the route reaches the Pod")
				}
			}
			if second.Addr == first.Addr || !strings.HasPrefix(second.Name, sandboxA) {
				t.Errorf("resumed as %s on %v", second.Name, second.Addr)
			}
			g.finish()
		})
	}
}
