package lab_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/samepod/samepod/lab"
)

var bg = context.Background()

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("8") // they wait for clocks and for other processes more than they compute
	}
	code := m.Run()
	closeShared()
	os.Exit(code)
}

// onEveryEnvoy runs a test on each version that is supported.
func onEveryEnvoy(t *testing.T, f func(t *testing.T, version string)) {
	for _, version := range lab.EnvoyVersions() {
		t.Run(version, func(t *testing.T) { f(t, version) })
	}
}

// onEveryEnvoyAtOnce is for tests that wait more than they compute, or that compute
// on one core.
func onEveryEnvoyAtOnce(t *testing.T, f func(t *testing.T, version string)) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		t.Parallel()
		f(t, version)
	})
}

// minor is the minor version.
func minor(version string) (n int) {
	_, _ = fmt.Sscanf(version, "1.%d", &n)
	return n
}

// TestRendered: every Envoy takes every rendering for its version.
func TestRendered(t *testing.T) {
	onEveryEnvoyAtOnce(t, func(t *testing.T, version string) {
		l := newLab(t)
		bounds := []string{"--pod-cidr", "10.0.0.0/8", "--pod-cidr", "fd00::/8", "--port", "44772", "--port", "8000-8010"}
		if minor(version) < 39 {
			bounds = nil // refused: nothing would compare them
		}
		secrets := map[string][]string{"ca": {"--ca", "/certs/ca.crt"}, "client": {"--cert", "/certs/tls.crt", "--key", "/certs/tls.key"}}
		for name, args := range secrets {
			text := samepodCLI(t, append([]string{"envoy", "secret", name}, args...)...)
			if err := os.WriteFile(filepath.Join(l.Dir, name+".yaml"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for name, args := range map[string][]string{
			"resolve":  {"--upstream", "resolve"},
			"replicas": {"--samepod", "10.0.0.1:9191", "--samepod", "[fd00::1]:9191"},
			"TLS": {"--samepod", "samepod.example:9191", "--samepod-tls-ca-secret", filepath.Join(l.Dir, "ca.yaml"), "--samepod-tls-client-secret", filepath.Join(l.Dir, "client.yaml"),
				"--samepod-tls-name", "spiffe://example/samepod"},
			"TLS without a client certificate": {"--samepod-tls-ca-secret", filepath.Join(l.Dir, "ca.yaml"), "--samepod-tls-name", "samepod.example"},
			"both":                             append([]string{"--upstream", "both"}, bounds...),
			"OpenSandbox":                      {"--dialect", "opensandbox", "--path-form", "--cors-origin", "*"},
			"agent-sandbox":                    {"--dialect", "agent-sandbox"},
			"assert":                           {"--upstream", "assert", "--endpoint", "10.0.0.1:44772", "--accept-unasserted"},
			"options":                          {"--path-hardening", "--websocket=false", "--stream-duration", "0", "--samepod", "unix:///run/samepod/authz.sock", "--context-extension", "pod=ns/a", "--admin", "", "--renew-every", "10s"},
		} {
			config := samepodCLI(t, append([]string{"envoy", "bootstrap", "--envoy-version", version}, args...)...)
			if err := l.ValidateEnvoy(name, envoyBinary(t, version), config); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestAcceptance is the contract between the real Envoy and the real samepod.
func TestAcceptance(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		a := newArm(t, version)
		podA := a.run("a", "uid-a", a.addrs.Take())
		claim := claimOn("a", "uid-a", podA.Addr.Addr())
		requests := 0
		send := func(method, path, body string, header ...string) call {
			t.Helper()
			requests++
			return do(t, method, a.envoy.URL(path), body, append(append([]string{}, claim...), header...)...)
		}

		t.Run("exact upstream", func(t *testing.T) {
			if c := send("GET", "/ping", ""); c.status != 200 || !strings.Contains(c.body, "pong by a uid-a") {
				t.Fatalf("%d %q", c.status, c.body)
			}
			got := podA.Executed()[0].Header
			if uid := got.Values("x-samepod-pod-uid"); len(uid) != 1 || uid[0] != "uid-a" {
				t.Errorf("the Pod gets x-samepod-pod-uid %q", uid)
			}
			for name := range got {
				if n := strings.ToLower(name); strings.HasPrefix(n, "x-samepod-") && n != "x-samepod-pod-uid" {
					t.Errorf("the claim reaches the Pod: %s: %s", name, got.Get(name))
				}
			}
		})

		t.Run("hostile client headers", func(t *testing.T) {
			other := a.run("b", "uid-b", a.addrs.Take())
			c := send("GET", "/ping", "",
				"x-envoy-original-dst-host", other.Addr.String(), "x-envoy-original-dst-host", other.Addr.String(),
				"x-envoy-retry-on", "connect-failure,5xx,reset", "x-envoy-max-retries", "5", "x-envoy-hedge-on-per-try-timeout", "true", "x-envoy-upstream-rq-per-try-timeout-ms", "1",
				"x-samepod-pod-uid", "uid-evil", "x-samepod-pod-uid", "uid-evil-2", "x-samepod-upstream", other.Addr.String())
			if c.status != 200 || !strings.Contains(c.body, "pong by a uid-a") {
				t.Fatalf("%d %q", c.status, c.body)
			}
			ran := podA.Executed()
			header := ran[len(ran)-1].Header
			if uid := header.Values("x-samepod-pod-uid"); len(uid) != 1 || uid[0] != "uid-a" {
				t.Errorf("the Pod gets x-samepod-pod-uid %q", uid)
			}
			if got := header.Get("x-envoy-original-dst-host"); got != "" {
				t.Errorf("x-envoy-original-dst-host reaches the Pod: %q", got)
			}
			if n := len(other.Executed()); n != 0 {
				t.Errorf("the other Pod executed %d requests", n)
			}
		})

		t.Run("twins with underscores", func(t *testing.T) {
			if c := send("GET", "/ping", "", "x_samepod_pod_uid", "evil", "x-samepod_pod_uid", "evil", "x-samepod-pod_uid", "evil", "x_other", "kept"); c.status != 200 {
				t.Fatalf("%d %q", c.status, c.body)
			}
			ran := podA.Executed()
			header := ran[len(ran)-1].Header
			for name, values := range header {
				if strings.Contains(strings.ToLower(name), "_") && strings.Contains(strings.ToLower(name), "samepod") {
					t.Errorf("%s: %q reaches the Pod", name, values)
				}
			}
			if got := header.Get("x_other"); got != "kept" {
				t.Errorf("x_other is %q at the Pod", got)
			}
		})

		t.Run("two claims", func(t *testing.T) {
			c := send("GET", "/ping", "", "x-samepod-target", "sandboxes/b")
			checkProblem(t, "a second target", c, 400, "claim-conflict", false)
		})

		t.Run("not UTF-8", func(t *testing.T) {
			requests++
			checkProblem(t, "a uid of bytes", do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-\xff", podA.Addr.Addr())...), 400, "claim-malformed", false)
		})

		t.Run("409 delivered unchanged", func(t *testing.T) {
			requests++
			c := do(t, "POST", a.envoy.URL("/command"), `{"command":"rm -rf /"}`, claimOn("a", "uid-old", podA.Addr.Addr())...)
			checkProblem(t, "another uid", c, 409, "pod-replaced", false)
			if c.header.Get("x-samepod-decision") == "" || !strings.Contains(c.body, c.header.Get("x-samepod-decision")) {
				t.Errorf("decision %q, body %s", c.header.Get("x-samepod-decision"), c.body)
			}
			log := must(a.envoy.WaitForAccessLog(t.Context(), requests))(t)
			if last := log[len(log)-1]; last.Flags != "UAEX" || last.Remote != "" || last.Decision != c.header.Get("x-samepod-decision") {
				t.Errorf("access log: %+v", last)
			}
		})

		t.Run("the Pod's own 409", func(t *testing.T) {
			if c := send("GET", "/pty", ""); c.status != 409 || c.reason() != "" || !strings.Contains(c.body, "PTY_ALREADY_ATTACHED") {
				t.Errorf("%d, reason %q, %q", c.status, c.reason(), c.body)
			}
		})

		t.Run("a Pod that forges", func(t *testing.T) {
			if c := send("GET", "/forge", ""); c.status != 200 || c.reason() != "" || c.header.Get("x-samepod-decision") != "" || c.header.Get("x-samepod-pod-uid") != "" {
				t.Errorf("%d, header %v", c.status, c.header)
			}
		})

		t.Run("reset after execution", func(t *testing.T) {
			before := len(podA.Executed())
			c := send("POST", "/reset", "", "x-envoy-retry-on", "reset,5xx", "x-envoy-max-retries", "3")
			checkProblem(t, "reset", c, 502, "upstream-reset", "unknown")
			if n := len(podA.Executed()) - before; n != 1 {
				t.Errorf("executed %d times", n)
			}
		})

		t.Run("request that breaks off", func(t *testing.T) {
			requests++
			c := rawRequest(t, a.envoy.Addr, "POST /files/upload HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n"+rawHeaders(claim)+"\r\n3\r\nabc\r\n", func() bool { return podA.Received() >= 3 }, "zz\r\n")
			checkProblem(t, "a bad chunk", c, 400, "request-broken", "unknown")
		})

		t.Run("refused", func(t *testing.T) {
			nobody := a.addrs.Take()
			a.set("c", "uid-c", "Running", nobody) // the API says running; nothing listens
			requests++
			c := do(t, "GET", a.envoy.URL("/ping"), "", append(claimOn("c", "uid-c", nobody), "x-envoy-retry-on", "connect-failure")...)
			checkProblem(t, "refused", c, 503, "pod-unreachable", false)
			log := must(a.envoy.WaitForAccessLog(t.Context(), requests))(t)
			if last := log[len(log)-1]; last.Attempts != 1 || !strings.Contains(last.Flags, "UF") {
				t.Errorf("access log: %+v", last)
			}
		})

		t.Run("server-sent events", func(t *testing.T) {
			requests++
			req := must(http.NewRequestWithContext(t.Context(), "POST", a.envoy.URL("/command?ticks=5&every=100ms"), strings.NewReader(`{"command":"ls"}`)))(t)
			for i := 0; i < len(claim); i += 2 {
				req.Header.Set(claim[i], claim[i+1])
			}
			started := time.Now()
			resp, err := httpClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			buffer := make([]byte, 4096)
			if _, err := resp.Body.Read(buffer); err != nil || time.Since(started) > 450*time.Millisecond {
				t.Errorf("the first event came after %v, %v: the stream is buffered", time.Since(started), err)
			}
			rest := must(io.ReadAll(resp.Body))(t)
			if !strings.Contains(string(rest), "ls executed in a") || time.Since(started) < 450*time.Millisecond {
				t.Errorf("after %v: %q", time.Since(started), rest)
			}
		})

		t.Run("WebSocket", func(t *testing.T) {
			requests++
			header := http.Header{}
			for i := 0; i < len(claim); i += 2 {
				header.Set(claim[i], claim[i+1])
			}
			ws, _, err := websocket.Dial(t.Context(), strings.Replace(a.envoy.URL("/ws"), "http", "ws", 1), &websocket.DialOptions{HTTPHeader: header})
			if err != nil {
				t.Fatal(err)
			}
			defer ws.CloseNow()
			for _, text := range []string{"one", "two"} {
				if err := ws.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
					t.Fatal(err)
				}
				if _, got, err := ws.Read(t.Context()); err != nil || string(got) != text+" from uid-a" {
					t.Errorf("%q, %v", got, err)
				}
			}
			_ = ws.Close(websocket.StatusNormalClosure, "")

			requests++
			header.Set("x-samepod-expect-pod-uid", "uid-old")
			_, resp, err := websocket.Dial(t.Context(), strings.Replace(a.envoy.URL("/ws"), "http", "ws", 1), &websocket.DialOptions{HTTPHeader: header})
			if err == nil || resp == nil || resp.StatusCode != 409 {
				t.Errorf("an upgrade to another uid: %v, %v", resp, err)
			}
		})

		t.Run("a large upload is not buffered", func(t *testing.T) {
			requests++
			testUpload(t, a, podA, claim)
		})

		t.Run("gRPC caller", func(t *testing.T) {
			requests++
			conn := must(grpc.NewClient(a.envoy.Addr.String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
			defer conn.Close()
			ctx := metadata.AppendToOutgoingContext(t.Context(), claimOn("a", "uid-old", podA.Addr.Addr())...)
			var header metadata.MD
			_, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{}, grpc.Header(&header))
			if status.Code(err) != codes.Unknown || !strings.Contains(status.Convert(err).Message(), "pod-replaced") {
				t.Errorf("a gRPC call to another uid: %v", err)
			}
			trailerOrHeader := header.Get("x-samepod-reason")
			if len(trailerOrHeader) == 0 {
				var trailer metadata.MD
				requests++
				_, _ = healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{}, grpc.Trailer(&trailer))
				trailerOrHeader = trailer.Get("x-samepod-reason")
			}
			if len(trailerOrHeader) != 1 || trailerOrHeader[0] != "pod-replaced" {
				t.Errorf("x-samepod-reason of a gRPC answer: %q", trailerOrHeader)
			}
		})

		a.invariant(requests)
	})
}

// testUpload sends 100 MB and does not send the second half before the Pod has got
// most of the first.
func testUpload(t *testing.T, a *arm, pod *lab.Pod, claim []string) {
	const half = 50 << 20
	chunk := make([]byte, 1<<20)
	for i := range chunk {
		chunk[i] = byte(i * 7)
	}
	sum := sha256.New()
	reader, writer := io.Pipe()
	go func() {
		for i := range 2 * half / len(chunk) {
			if i == half/len(chunk) {
				deadline := time.Now().Add(20 * time.Second)
				for pod.Received() < half-(2<<20) { // what is on the way fits into a few buffers
					if time.Now().After(deadline) {
						writer.CloseWithError(fmt.Errorf("the Pod got %d of %d bytes while the upload goes on", pod.Received(), half))
						return
					}
					time.Sleep(time.Millisecond)
				}
			}
			sum.Write(chunk)
			if _, err := writer.Write(chunk); err != nil {
				return
			}
		}
		writer.Close()
	}()
	req := must(http.NewRequestWithContext(t.Context(), "POST", a.envoy.URL("/files/upload"), reader))(t)
	for i := 0; i < len(claim); i += 2 {
		req.Header.Set(claim[i], claim[i+1])
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := must(io.ReadAll(resp.Body))(t)
	if want := fmt.Sprintf("%d %s\n", 2*half, hex.EncodeToString(sum.Sum(nil))); string(got) != want {
		t.Errorf("the Pod got %q, want %q", got, want)
	}
}

// TestPoolPartition: a connection to A on an address is never used for B on the
// same address, and is used again for A from 1.38.
func TestPoolPartition(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		a := newArm(t, version)
		addr := a.addrs.Take()
		pod := a.run("a", "uid-a", addr) // one process: only the API says that it is another Pod later
		ping := func(name, uid string) {
			t.Helper()
			if c := do(t, "GET", a.envoy.URL("/ping"), "", claimOn(name, uid, addr)...); c.status != 200 {
				t.Fatalf("%s: %d %s", uid, c.status, c.body)
			}
		}
		ping("a", "uid-a")
		ping("a", "uid-a")
		a.set("a", "uid-a", "", addr)
		a.set("b", "uid-b", "Running", addr)
		ping("b", "uid-b")
		ping("b", "uid-b")
		ran := pod.Executed()
		if same := ran[0].From == ran[1].From; same != (minor(version) >= 38) {
			t.Errorf("two requests to one uid share a connection: %v", same)
		}
		for _, first := range ran[:2] {
			for _, second := range ran[2:] {
				if first.From == second.From {
					t.Errorf("a connection of uid-a was used for uid-b: %s", first.From)
				}
			}
		}
		a.invariant(4)
	})
}

// TestSamepodDown: without a verdict nothing is forwarded, and samepod that starts
// after Envoy is found within two seconds.
func TestSamepodDown(t *testing.T) {
	onEveryEnvoyAtOnce(t, func(t *testing.T, version string) {
		a := newSamepodArm(t)
		addr := a.addrs.Take()
		pod := a.run("a", "uid-a", addr)
		authz := a.samepod.Authz
		a.samepod.Kill()
		a.envoy = a.startEnvoy("envoy", version, authz.String())

		time.Sleep(5 * time.Second) // as long as Envoy may wait for its authorization server in a real start
		c := do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", addr)...)
		checkProblem(t, "samepod is down", c, 503, "no-verdict", false)
		if n := pod.Connections(); n != 0 {
			t.Errorf("the Pod got %d connections", n)
		}

		a.startSamepodAt("samepod-2", authz)
		started := time.Now()
		requests := 1
		for {
			requests++
			if c = do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", addr)...); c.status == 200 {
				break
			}
			if time.Since(started) > 2*time.Second {
				t.Fatalf("not served within 2 s after samepod is ready: %d %s", c.status, c.body)
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Logf("served %v after samepod was ready", time.Since(started).Round(time.Millisecond))
		a.invariant(requests)
	})
}

// startSamepodAt starts samepod where it was before.
func (a *arm) startSamepodAt(name string, authz netip.AddrPort) {
	a.t.Helper()
	a.startSamepod(name, "--listen", authz.String())
}

// TestUnixSocket: Envoy asks samepod over a unix socket.
func TestUnixSocket(t *testing.T) {
	a := newSamepodArm(t)
	socket := filepath.Join(a.Dir, "authz.sock")
	a.samepod.Kill()
	a.startSamepod("samepod-2", "--listen", "unix://"+socket)
	a.envoy = a.startEnvoy("envoy", lab.NewestEnvoy(), "unix://"+socket)
	a.waitVerdicts()
	addr := a.addrs.Take()
	a.run("a", "uid-a", addr)
	if c := do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", addr)...); c.status != 200 {
		t.Errorf("%d %s", c.status, c.body)
	}
	checkProblem(t, "another uid", do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-old", addr)...), 409, "pod-replaced", false)
	a.invariant(2)
}

// rawRequest sends bytes, waits until the Pod has what they carry, sends more, and
// reads one answer.
func rawRequest(t *testing.T, to netip.AddrPort, first string, arrived func() bool, then string) call {
	t.Helper()
	conn := must(net.Dial("tcp", to.String()))(t)
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, first); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Pod gets the beginning", arrived)
	if _, err := io.WriteString(conn, then); err != nil {
		t.Fatal(err)
	}
	resp := must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	defer resp.Body.Close()
	return call{resp.StatusCode, resp.Header, string(must(io.ReadAll(resp.Body))(t))}
}

func rawHeaders(pairs []string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", pairs[i], pairs[i+1])
	}
	return b.String()
}
