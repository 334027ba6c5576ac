package lab_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/samepod/samepod/lab"
)

// The control group: what the engines do by themselves when a Pod has died and another
// has its address. Without these faults the tests of the product would show nothing.

// The incident, on the real server and with the real SDKs: A's Pod dies, B's gets its
// address, and what is asked of A is answered by B.
func TestControlOpenSandbox(t *testing.T) {
	l, o, addrs := newOpenSandbox(t)
	ctx, addr := t.Context(), addrs.Take()
	server := must(l.StartOpenSandboxServer(ctx, o.Kube, lab.OpenSandboxConfig{Namespace: o.Namespace}))(t)
	must(o.Start(ctx, sandboxA, addr))(t)

	clients := map[string]*lab.EngineClient{
		"python": must(l.StartOpenSandboxClient(ctx))(t),
		"node":   must(l.StartOpenSandboxNodeClient(ctx))(t),
	}
	connect := lab.ClientStep{Do: "connect", Server: server.Addr, Sandbox: sandboxA}
	for name, c := range clients {
		if got := must(c.Do(connect))(t); !got.OK {
			t.Fatalf("%s: connect: %+v", name, got)
		}
	}
	proxy := func() call { return do(t, "POST", server.ProxyURL(sandboxA, "/command"), `{"command":"for A"}`) }
	if got := proxy(); got.status != http.StatusOK || ran(got.body) != sandboxA+"-0" {
		t.Fatalf("A lives: %d %s", got.status, got.body)
	}
	for name, c := range clients {
		if got := must(c.Command("for A"))(t); !got.OK || ran(got.Output) != sandboxA+"-0" {
			t.Errorf("%s: A lives: %+v", name, got)
		}
		if up, got := must(c.Upload("/tmp/"+name, name))(t), must(c.Read("/tmp/"+name))(t); !up.OK || got.Output != name {
			t.Errorf("%s: upload %+v, read %+v", name, up, got)
		}
	}

	succeed(t, o.Exit(ctx, sandboxA+"-0", corev1.PodFailed))
	succeed(t, o.Reconcile(ctx, sandboxA)) // the controller is not to blame: it sees the Pod's end at once
	if got := proxy(); got.status != http.StatusBadGateway {
		t.Errorf("A is dead: %d %s", got.status, got.body)
	}
	b := must(o.Start(ctx, sandboxB, addr))(t)

	const shows = "; without the fault this shows nothing"
	if got := proxy(); got.status != http.StatusOK || ran(got.body) != sandboxB+"-0" {
		t.Errorf("the server's proxy: %d %s%s", got.status, got.body, shows)
	}
	for name, c := range clients {
		if got := must(c.Command("for A"))(t); !got.OK || ran(got.Output) != sandboxB+"-0" {
			t.Errorf("%s: %+v%s", name, got, shows)
		}
		if got := must(c.Do(connect))(t); !got.OK {
			t.Errorf("%s: B answers no ping for A: %+v%s", name, got, shows)
		}
	}
	leaked := slices.ContainsFunc(b.Executed(), func(e lab.Execution) bool { return e.Header.Get("OPEN-SANDBOX-API-KEY") == "lab" })
	if !leaked { // the JavaScript SDK sends it wherever it sends anything
		t.Errorf("B did not get the key of A's caller to the server's API%s", shows)
	}
	endpoint := func() string { return must(server.Endpoint(sandboxA, lab.ExecdPort, ""))(t).Endpoint }
	if got := endpoint(); got != netip.AddrPortFrom(addr, lab.ExecdPort).String() {
		t.Errorf("the server sends callers of A to %s, not to B%s", got, shows)
	}

	// A gets a Pod again, elsewhere, and the server knows. What was connected does not:
	// the endpoint is the object's for as long as it lives.
	succeed(t, o.Delete(ctx, sandboxA+"-0", false))
	elsewhere := addrs.Take()
	must(o.BringUp(ctx, sandboxA, elsewhere))(t)
	eventually(t, "the server knows A's new address", func() bool { return endpoint() == netip.AddrPortFrom(elsewhere, lab.ExecdPort).String() })
	for name, c := range clients {
		if got := must(c.Command("for A"))(t); !got.OK || ran(got.Output) != sandboxB+"-0" {
			t.Errorf("%s: A is elsewhere: %+v%s", name, got, shows)
		}
	}
}

// OpenSandbox's ingress dials endpoints[0] of what has status.ready > 0. Of a Pod of a
// pool nothing tells the controller that it died, or that it is somebody else's now.
func TestControlOpenSandboxPool(t *testing.T) {
	for _, recycle := range []lab.Recycle{"", lab.RecycleDelete, lab.RecycleRestart, lab.RecycleNoop} {
		t.Run("pool "+string(recycle), func(t *testing.T) {
			_, o, addrs := newOpenSandbox(t)
			ctx, addr := t.Context(), addrs.Take()
			succeed(t, o.CreatePool(ctx, "pool", cmp.Or(recycle, lab.RecycleDelete)))
			a := must(o.WarmPod(ctx, "pool", addr))(t)
			succeed(t, o.StartPooled(ctx, sandboxA, "pool", a))
			gateway := ingress(t, o)
			ask := func() call {
				return do(t, "POST", "http://"+gateway+"/command", `{"command":"for A"}`, "OpenSandbox-Ingress-To", fmt.Sprintf("%s-%d", sandboxA, lab.ExecdPort))
			}
			if got := ask(); ran(got.body) != a.Name {
				t.Fatalf("A lives: %d %s", got.status, got.body)
			}
			b := a
			if recycle == "" { // it dies, and nobody calls Reconcile
				succeed(t, o.Exit(ctx, a.Name, corev1.PodFailed))
			} else { // A gives it back, as a task that is done does
				succeed(t, o.RequestRelease(ctx, sandboxA, a.Name))
				succeed(t, o.RecyclePod(ctx, sandboxA, a.Name))
				succeed(t, o.ConfirmRelease(ctx, sandboxA, a.Name))
			}
			if recycle == "" || recycle == lab.RecycleDelete {
				b = must(o.WarmPod(ctx, "pool", addr))(t)
			}
			succeed(t, o.StartPooled(ctx, sandboxB, "pool", b))
			before := len(b.Executed())
			if got := ask(); got.status != http.StatusOK || ran(got.body) != b.Name || len(b.Executed()) != before+1 {
				t.Errorf("%d %s; without the fault this shows nothing", got.status, got.body)
			}
			if same := a.UID == b.UID; same != (recycle == lab.RecycleRestart || recycle == lab.RecycleNoop) {
				t.Errorf("recycle %q: the same uid is %v", recycle, same)
			}
		})
	}
}

// agent-sandbox's client sends the first Pod address that it has read, and its routers
// dial it as given.
func TestControlAgentSandbox(t *testing.T) {
	l, a, addrs := newAgentSandbox(t)
	ctx, addr := t.Context(), addrs.Take()
	router := dialer(t, func(r *http.Request) (string, error) {
		return r.Header.Get("X-Sandbox-Pod-IP") + ":" + r.Header.Get("X-Sandbox-Port"), nil
	})
	must(a.StartWarm(ctx, "box", "warm", addr))(t)
	succeed(t, a.Claim(ctx, "claim", "box"))
	client := must(l.StartAgentSandboxClient(ctx, a.Kube))(t)
	if got := must(client.Do(lab.ClientStep{Do: "connect", Server: router, Claim: "claim", Namespace: a.Namespace, Port: lab.AgentSandboxPort}))(t); !got.OK {
		t.Fatalf("connect: %+v", got)
	}
	if got := must(client.Command("for A"))(t); !got.OK || ran(got.Output) != "box" {
		t.Errorf("A lives: %+v", got)
	}
	// A slash in a file's name comes as %2F in the path of a read.
	if up, got := must(client.Upload("dir/file", "hi"))(t), must(client.Read("dir/file"))(t); !up.OK || got.Output != "hi" {
		t.Errorf("upload %+v, read %+v", up, got)
	}

	succeed(t, a.Exit(ctx, "box", corev1.PodSucceeded))
	succeed(t, a.Reconcile(ctx, "box")) // Finished, and podIPs as before
	must(a.Start(ctx, "other", addr))(t)
	if got := must(client.Command("for A"))(t); !got.OK || ran(got.Output) != "other" {
		t.Errorf("B has the address: %+v; without the fault this shows nothing", got)
	}
}

// OpenSandbox's server on agent-sandbox dials status.podIPs[0], which a Pod that has
// ended keeps.
func TestControlAgentSandboxServer(t *testing.T) {
	l, a, addrs := newAgentSandbox(t)
	ctx, addr := t.Context(), addrs.Take()
	a.Port = lab.ExecdPort
	server := must(l.StartOpenSandboxServer(ctx, a.Kube, lab.OpenSandboxConfig{Namespace: a.Namespace, Provider: "agent-sandbox"}))(t)
	must(a.Start(ctx, sandboxA, addr))(t)
	ask := func() call { return do(t, "POST", server.ProxyURL(sandboxA, "/command"), `{"command":"for A"}`) }
	if got := ask(); ran(got.body) != sandboxA {
		t.Fatalf("A lives: %d %s", got.status, got.body)
	}
	succeed(t, a.Exit(ctx, sandboxA, corev1.PodFailed))
	succeed(t, a.Reconcile(ctx, sandboxA))
	must(a.Start(ctx, sandboxB, addr))(t)
	if got := ask(); got.status != http.StatusOK || ran(got.body) != sandboxB {
		t.Errorf("%d %s; without the fault this shows nothing", got.status, got.body)
	}
}

// A gateway does not help by itself: what resolves as the ingress does is misled as
// well. The server's own proxy passes a gateway by, unless it is told not to.
func TestControlGateway(t *testing.T) {
	l, o, addrs := newOpenSandbox(t)
	ctx, addr := t.Context(), addrs.Take()
	config := lab.OpenSandboxConfig{Namespace: o.Namespace, Gateway: ingress(t, o)}
	server := must(l.StartOpenSandboxServer(ctx, o.Kube, config))(t)
	config.ProxyThroughGateway = true
	through := must(l.StartOpenSandboxServer(ctx, o.Kube, config))(t)

	a := must(o.Start(ctx, sandboxA, addr))(t)
	client := must(l.StartOpenSandboxClient(ctx))(t)
	if got := must(client.Do(lab.ClientStep{Do: "connect", Server: server.Addr, Sandbox: sandboxA}))(t); !got.OK {
		t.Fatalf("connect: %+v", got)
	}
	for _, s := range []struct {
		*lab.OpenSandboxServer
		passes bool
	}{{server, false}, {through, true}} {
		if got := do(t, "POST", s.ProxyURL(sandboxA, "/command"), `{"command":"for A"}`); ran(got.body) != a.Name {
			t.Fatalf("the server's proxy: %d %s", got.status, got.body)
		}
		all := a.Executed()
		if passed := all[len(all)-1].Header.Get("OpenSandbox-Ingress-To") != ""; passed != s.passes {
			t.Errorf("the server's proxy passes the gateway: %v, want %v", passed, s.passes)
		}
	}
	o.Vanish(types.UID(a.UID)) // the API does not know, so the ingress sees a ready sandbox
	b := must(o.Start(ctx, sandboxB, addr))(t)
	if got := must(client.Command("for A"))(t); !got.OK || ran(got.Output) != b.Name {
		t.Errorf("%+v; without the fault this shows nothing", got)
	}
}

// What else the ingress and the routers do not see, one fault a line: somebody's Pod
// answers, and nobody is told.
func TestControlUnseen(t *testing.T) {
	_, o, addrs := newOpenSandbox(t)
	ctx := t.Context()
	url := "http://" + ingress(t, o)
	const shows = "; without the fault this shows nothing"
	answers := func(what, id string, p *lab.Pod) {
		t.Helper()
		if got := do(t, "POST", url+"/command", `{"command":"x"}`, header(id)...); got.status != http.StatusOK || ran(got.body) != p.Name {
			t.Errorf("%s: %d %s, want %s%s", what, got.status, got.body, p.Name, shows)
		}
	}
	up := func() (string, *lab.Pod) {
		t.Helper()
		id := newID()
		return id, must(o.Start(ctx, id, addrs.Take()))(t)
	}

	id, first := up()
	answers("it lives", id, first)
	succeed(t, o.Delete(ctx, first.Name, false))
	again := must(o.BringUp(ctx, id, addrs.Take()))(t)
	answers("another Pod in place of the first, and what that held is lost", id, again)
	if again.UID == first.UID {
		t.Error("it is the same Pod" + shows)
	}
	succeed(t, o.Edit(ctx, id, tree{"spec": tree{"expireTime": "2020-01-01T00:00:00Z"}}))
	answers("expired, and the controller does not notice", id, again)

	_, other := up()
	id, _ = up()
	succeed(t, o.Annotate(ctx, id, "sandbox.opensandbox.io/endpoints", fmt.Sprintf("[%q]", other.Addr.Addr())))
	answers("endpoints that somebody else wrote", id, other)

	succeed(t, o.CreatePool(ctx, "pool", lab.RecycleNoop))
	p := must(o.WarmPod(ctx, "pool", addrs.Take()))(t)
	for _, id := range []string{newID(), newID()} {
		succeed(t, o.StartPooled(ctx, id, "pool", p))
		answers("one Pod of two sandboxes", id, p)
	}

	_, a, addrs := newAgentSandbox(t)
	router := dialer(t, func(r *http.Request) (string, error) {
		s, err := a.Sandbox(r.Context(), r.Header.Get("X-Sandbox-ID"))
		if err != nil {
			return "", err
		}
		ips, _, _ := unstructured.NestedStringSlice(s.Object, "status", "podIPs")
		return ips[0] + ":" + r.Header.Get("X-Sandbox-Port"), nil
	})
	box := must(a.StartWarm(ctx, "box", "warm", addrs.Take()))(t)
	got := do(t, "POST", router+"/command", `{"command":"x"}`, "X-Sandbox-ID", "box", "X-Sandbox-Port", fmt.Sprint(lab.AgentSandboxPort))
	if ran(got.body) != box.Name {
		t.Errorf("nobody's yet: %d %s%s", got.status, got.body, shows)
	}
}
