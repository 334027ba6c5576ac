package lab_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/samepod/samepod/lab"
)

// TestOpenSandbox is the incident of TestControlOpenSandbox and TestControlGateway, with
// the product between: the real server sends the real SDKs to Envoy, A's Pod dies, B's
// gets its address, and what is asked of A is answered 409. A sandbox that was resumed has
// another Pod and another address, and the same client goes on.
func TestOpenSandbox(t *testing.T) {
	for _, version := range []string{"1.36.4", lab.NewestEnvoy()} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			l, o, addrs := newOpenSandbox(t)
			ctx, addr := t.Context(), addrs.Take()
			g := newGateway(t, l, o.Kube, opensandboxConfig(o.Namespace, addrs, ""))
			g.front(version, g.samepod)
			config := lab.OpenSandboxConfig{Namespace: o.Namespace, Gateway: g.envoy.Addr.String(), ProxyThroughGateway: true}
			server := must(l.StartOpenSandboxServer(ctx, o.Kube, config))(t)
			proxy := func() call {
				return do(t, "POST", server.ProxyURL(sandboxA, "/command"), `{"command":"`+command(sandboxA)+`"}`)
			}
			first := g.owns(sandboxA, must(o.Start(ctx, sandboxA, addr))(t))
			clients := g.sdks(server)
			for name, c := range clients {
				if up, got := must(c.Upload("/tmp/"+name, name))(t), must(c.Read("/tmp/"+name))(t); !up.OK || got.Output != name {
					t.Errorf("%s: upload %+v, read %+v", name, up, got)
				}
			}
			g.goOn(clients, first)

			succeed(t, o.Exit(ctx, first.Name, corev1.PodFailed))
			died := time.Now()
			g.until("pod-terminal", sandboxA)
			t.Logf("409 %v after the API knew of the Pod's end", time.Since(died).Round(time.Millisecond))
			succeed(t, o.Reconcile(ctx, sandboxA))
			b := g.owns(sandboxB, must(o.Start(ctx, sandboxB, addr))(t))
			g.until(b.Name, sandboxB)
			if got := proxy(); got.status != 409 || reasonIn(got.body) != "pod-terminal" {
				t.Errorf("the server's own proxy: %d %s", got.status, got.body)
			}
			for name, c := range clients {
				if got := must(c.Command(command(sandboxA)))(t); got.OK || got.Status != 409 || !strings.Contains(got.Message, "pod-terminal") {
					t.Errorf("%s: A is dead: %+v", name, got)
				}
				got := must(c.Read("/tmp/" + name))(t) // of which JavaScript's says that it failed, and has the rest beside it
				if got.OK || got.Status != 409 || !strings.Contains(got.Message+got.Body, "pod-terminal") {
					t.Errorf("%s: A is dead: read %+v", name, got)
				}
			}

			succeed(t, o.Pause(ctx, sandboxA))
			g.until("sandbox-suspended", sandboxA)
			succeed(t, o.Resume(ctx, sandboxA))
			second := g.owns(sandboxA, must(o.BringUp(ctx, sandboxA, addrs.Take()))(t))
			g.goOn(clients, second)
			if got := proxy(); ran(got.body) != second.Name {
				t.Errorf("the server's own proxy: %d %s", got.status, got.body)
			}
			if e := second.Executed(); second.Addr == first.Addr || e[0].Header.Get("OpenSandbox-Ingress-To") != "" {
				t.Errorf("resumed on %v, was on %v; the Pod hears %v", second.Addr, first.Addr, e[0].Header)
			}
			g.finish()
		})
	}
}

// sdks are OpenSandbox's SDKs, connected to sandboxA.
func (g *gateway) sdks(server *lab.OpenSandboxServer) map[string]*lab.EngineClient {
	g.t.Helper()
	clients := map[string]*lab.EngineClient{
		"python": must(g.StartOpenSandboxClient(g.t.Context()))(g.t),
		"node":   must(g.StartOpenSandboxNodeClient(g.t.Context()))(g.t),
	}
	for name, c := range clients {
		if got := must(c.Do(lab.ClientStep{Do: "connect", Server: server.Addr, Sandbox: sandboxA}))(g.t); !got.OK {
			g.t.Fatalf("%s: connect: %+v", name, got)
		}
	}
	return clients
}

// goOn waits until the clients' commands run in this Pod.
func (g *gateway) goOn(clients map[string]*lab.EngineClient, p *lab.Pod) {
	g.t.Helper()
	began := time.Now()
	for name, c := range clients {
		eventually(g.t, name+" goes on in "+p.Name, func() bool {
			got := must(c.Command(command(sandboxA)))(g.t)
			return got.OK && ran(got.Output) == p.Name
		})
		g.t.Logf("%s: runs in %s %v after it was ready", name, p.UID, time.Since(began).Round(time.Millisecond))
	}
}
