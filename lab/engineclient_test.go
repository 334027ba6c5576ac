package lab_test

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/samepod/samepod/lab"
)

var updateRoutes = flag.Bool("update-routes", false, "write testdata/engines/signed-routes.json")

// The signed routes that a verifier is tested with are what the real signer makes.
func TestSignedRoutes(t *testing.T) {
	dir := filepath.Join("testdata", "engines")
	python := must(lab.EnginesPython(t.Context()))(t)
	got := must(lab.Output(t.Context(), python, filepath.Join(dir, "signed_routes.py")))(t)
	file := filepath.Join(dir, "signed-routes.json")
	if *updateRoutes {
		succeed(t, os.WriteFile(file, got, 0o644))
	}
	if want := must(os.ReadFile(file))(t); !bytes.Equal(got, want) {
		t.Errorf("%s is not what the signer makes; -update-routes writes it", file)
	}
}

// answering is a gateway that answers everything itself: with this status and body,
// and a time to wait.
type answering struct {
	url   string
	mu    sync.Mutex
	says  int
	body  string
	asked int
	hint  string // X-Sandbox-Pod-IP of the last request
}

func newAnswering(t *testing.T) *answering {
	t.Helper()
	a := &answering{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked++
		a.hint = r.Header.Get("X-Sandbox-Pod-IP")
		w.Header().Set("content-type", "application/problem+json")
		w.Header().Set("retry-after", "1")
		w.WriteHeader(a.says)
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *answering) say(status int, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.says, a.body, a.asked = status, body, 0
}

func (a *answering) heard() (asked int, hint string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked, a.hint
}

// What the SDKs make of an answer decides what an answer has to say: every status is an
// exception at once, for a command is sent once; and what its user reads is the whole
// body in Python, but in JavaScript only a member message.
func TestClientAnswers(t *testing.T) {
	const (
		problem = `{"status":409,"detail":"its Pod is gone","reason":"pod-gone"}`
		message = `{"status":409,"detail":"its Pod is gone","reason":"pod-gone","code":"pod-gone","message":"its Pod is gone"}`
	)
	l, o, addrs := newOpenSandbox(t)
	ctx, gateway := t.Context(), newAnswering(t)
	must(o.Start(ctx, sandboxA, addrs.Take()))(t)
	server := must(l.StartOpenSandboxServer(ctx, o.Kube, lab.OpenSandboxConfig{Namespace: o.Namespace, Gateway: strings.TrimPrefix(gateway.url, "http://")}))(t)
	connect := lab.ClientStep{Do: "connect", Server: server.Addr, Sandbox: sandboxA, SkipHealth: true}
	for _, row := range []struct {
		name                     string
		client                   *lab.EngineClient
		shows, showsM, showsPing bool
	}{
		{"Python", must(l.StartOpenSandboxClient(ctx))(t), true, true, false},
		{"JavaScript", must(l.StartOpenSandboxNodeClient(ctx))(t), false, true, true},
	} {
		if got := must(row.client.Do(connect))(t); !got.OK {
			t.Fatalf("%s: connect: %+v", row.name, got)
		}
		for _, status := range []int{409, 502, 503} {
			for body, shows := range map[string]bool{problem: row.shows, message: row.showsM} {
				gateway.say(status, body)
				got := must(row.client.Command("once"))(t)
				asked, _ := gateway.heard()
				if got.OK || got.Status != status || asked != 1 || strings.Contains(got.Message, "its Pod is gone") != shows {
					t.Errorf("%s: %d %s: asked %d times, %+v", row.name, status, body, asked, got)
				}
			}
		}

		// Who connects asks five times a second, whatever is answered, until the time is
		// up: 30 s, if it is not one as here.
		ping := connect
		ping.SkipHealth, ping.Seconds = false, 1
		gateway.say(409, message)
		got := must(row.client.Do(ping))(t)
		asked, _ := gateway.heard()
		if got.Error != "SandboxReadyTimeoutException" || asked < 2 || strings.Contains(got.Message, "its Pod is gone") != row.showsPing {
			t.Errorf("%s: connect: asked %d times, %+v", row.name, asked, got)
		}
	}
}

// agent-sandbox's client reads a Pod's address once. It reads it again after a 5xx, and
// never after a 4xx: a 409 for an address that has changed would go on for good.
func TestClientHint(t *testing.T) {
	l, a, addrs := newAgentSandbox(t)
	ctx, router := t.Context(), newAnswering(t)
	before := addrs.Take()
	must(a.Start(ctx, "box", before))(t)
	succeed(t, a.Claim(ctx, "claim", "box"))
	client := must(l.StartAgentSandboxClient(ctx, a.Kube))(t)
	if got := must(client.Do(lab.ClientStep{Do: "connect", Server: router.url, Claim: "claim", Namespace: a.Namespace, Port: lab.AgentSandboxPort}))(t); !got.OK {
		t.Fatalf("connect: %+v", got)
	}
	ask := func(status int, want netip.Addr) {
		t.Helper()
		router.say(status, `{"detail":"no"}`)
		got := must(client.Command("once"))(t)
		asked, hint := router.heard()
		if got.OK || got.Status != status || asked != 1 || hint != want.String() {
			t.Errorf("%d: asked %d times, with %s, want %s: %+v", status, asked, hint, want, got)
		}
	}
	ask(409, before)
	succeed(t, a.Delete(ctx, "box", false))
	succeed(t, a.Reconcile(ctx, "box"))
	after := addrs.Take()
	must(a.Run(ctx, "box", after))(t)
	succeed(t, a.Reconcile(ctx, "box"))
	ask(409, before)
	ask(409, before)
	ask(503, before)
	ask(409, after)
}
