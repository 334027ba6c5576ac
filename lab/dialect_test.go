package lab_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/samepod/samepod/lab"
)

// What Envoy does for the dialects of engines: what samepod gets to read, what it may
// change, and what a Pod gets to see. Somebody in samepod's place says what is allowed.

// heard is a request as the Pod has it.
type heard struct {
	Target, Host string
	Header       http.Header
}

// startMirror starts a Pod's process that answers with what it hears, also on a
// WebSocket.
func startMirror(t *testing.T, addr netip.AddrPort) {
	t.Helper()
	listener := must(net.Listen("tcp", addr.String()))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is, err := json.Marshal(heard{r.RequestURI, r.Host, r.Header})
		if err != nil {
			panic(err)
		}
		if r.Header.Get("upgrade") == "" {
			_, _ = w.Write(is)
			return
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		_ = ws.Write(r.Context(), websocket.MessageText, is)
		_ = ws.Close(websocket.StatusNormalClosure, "")
	})}
	go server.Serve(listener)
	t.Cleanup(func() { _ = server.Close() })
}

// setting is a header that samepod sets.
func setting(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

const (
	signedHost = "7f-1-44772-abc-01234567k.gateway.example.org" // with expiry and signature
	signedPath = "/7f-1/44772/abc/01234567k"
)

// A side is one rendering, what callers send, and what becomes of it.
type side struct {
	name   string
	args   []string
	path   string   // what the caller asks for
	host   string   // of whom
	send   []string // with these headers
	sets   []string // what samepod sets, apart from the uid; $UP is the address
	reads  []string // the names of the headers that samepod gets
	secret []string // texts that no Pod may see
	want   heard    // Host "" is what the caller sent; Header is what must be there
	may    []string // what samepod may set
}

var sides = []side{
	{
		name: "opensandbox", args: []string{"--dialect", "opensandbox", "--upstream-protocol", "downstream", "--cors-origin", "https://page.example.org"},
		path: "/command?a=b", host: signedHost,
		send:   []string{"OpenSandbox-Ingress-To", "7f-1-44772-abc-76543210k", "OPEN-SANDBOX-INGRESS", "7f-1-44772-abc-89abcdefk", "OpenSandbox-Secure-Access", "s3cret", "X-EXECD-ACCESS-TOKEN", "token", "authorization", "Bearer b"},
		sets:   []string{":authority", "$UP"},
		reads:  []string{"open-sandbox-ingress", "opensandbox-ingress-to", "opensandbox-secure-access"},
		secret: []string{"01234567k", "76543210k", "89abcdefk", "s3cret"},
		want:   heard{"/command?a=b", "$UP", http.Header{"X-Execd-Access-Token": {"token"}, "Authorization": {"Bearer b"}}},
		may:    []string{":authority"},
	},
	{
		name: "opensandbox-path", args: []string{"--dialect", "opensandbox", "--path-form"},
		path: signedPath + "/x/../files//y?a=b", host: "gateway.example.org",
		send:   []string{"X-EXECD-ACCESS-TOKEN", "token"},
		sets:   []string{":authority", "$UP", ":path", "/files/y?a=b"},
		secret: []string{"01234567k"},
		want:   heard{"/files/y?a=b", "$UP", http.Header{"X-Execd-Access-Token": {"token"}}},
		may:    []string{":authority", ":path"},
	},
	{
		name: "agent-sandbox", args: []string{"--dialect", "agent-sandbox", "--path-form"},
		path: "/s/default/a/8888/lab?a=b", host: "gateway.example.org",
		send: []string{
			"X-Sandbox-ID", "sandbox-id", "X-Sandbox-Namespace", "sandbox-ns", "X-Sandbox-Port", "8888", "X-Sandbox-UID", "sandbox-uid", "X-Sandbox-Pod-IP", "10.9.8.7",
			"X-Sandbox-Timeout", "1.5", "Authorization", "Bearer b", "Cookie", "c=d",
		},
		sets:   []string{":path", "/lab?a=b"},
		reads:  []string{"x-sandbox-id", "x-sandbox-namespace", "x-sandbox-pod-ip", "x-sandbox-port", "x-sandbox-uid"},
		secret: []string{"sandbox-id", "sandbox-ns", "sandbox-uid", "10.9.8.7", "Bearer b", "/s/default", "X-Sandbox-"},
		want:   heard{"/lab?a=b", "", http.Header{"Cookie": {"c=d"}}},
		may:    []string{":path"},
	},
}

// TestDialects plays the sides on the oldest and on the newest Envoy.
func TestDialects(t *testing.T) {
	for _, version := range []string{lab.EnvoyVersions()[0], lab.NewestEnvoy()} {
		for _, s := range sides {
			t.Run(version+"/"+s.name, func(t *testing.T) { t.Parallel(); s.play(t, version) })
		}
	}
}

func (s side) play(t *testing.T, version string) {
	l := newLab(t)
	authz := must(l.StartAuthzServer())(t)
	addrs := must(lab.NewAddresses(lab.ExecdPort))(t)
	up := netip.AddrPortFrom(addrs.Take(), lab.ExecdPort)
	startMirror(t, up)
	config := samepodCLI(t, append([]string{"envoy", "bootstrap", "--envoy-version", version, "--samepod", authz.Addr.String(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, s.args...)...)
	a := &arm{Lab: l, t: t, addrs: addrs}
	a.envoy = must(l.StartEnvoy(t.Context(), "envoy", envoyBinary(t, version), config))(t)
	a.waitVerdicts()

	var mu sync.Mutex
	var asked *authv3.AttributeContext_HttpRequest
	says := func(upstream netip.AddrPort, sets ...string) {
		headers := []*corev3.HeaderValueOption{setting("x-samepod-pod-uid", "uid-a")}
		for i := 0; i < len(sets); i += 2 {
			headers = append(headers, setting(sets[i], strings.ReplaceAll(sets[i+1], "$UP", upstream.String())))
		}
		answer := allow(map[string]any{"samepod_upstream": upstream.String(), "samepod_pod_uid": "uid-a", "samepod_decision": "d"}, headers...)
		authz.Say(func(_ context.Context, req *authv3.CheckRequest) (*authv3.CheckResponse, error) {
			mu.Lock()
			asked = req.GetAttributes().GetRequest().GetHttp()
			mu.Unlock()
			return answer, nil
		})
	}
	requests := 0
	get := func(path string, header ...string) call {
		requests++
		return s.get(t, a.envoy.URL(path), append(slices.Clone(s.send), header...)...)
	}

	says(up, s.sets...)
	s.check(t, "a request", up, get(s.path).body)
	mu.Lock()
	if asked.GetHost() != s.host || asked.GetPath() != strings.ReplaceAll(s.path, "/x/../files//y", "/files/y") {
		t.Errorf("samepod gets host %q and path %q", asked.GetHost(), asked.GetPath())
	}
	var reads []string
	for _, h := range asked.GetHeaderMap().GetHeaders() {
		reads = append(reads, h.GetKey())
	}
	mu.Unlock()
	if slices.Sort(reads); !slices.Equal(reads, s.reads) {
		t.Errorf("samepod gets the headers %q, want %q", reads, s.reads)
	}

	requests++
	s.check(t, "an upgrade", up, s.upgrade(t, a.envoy.URL(s.path)))

	for _, other := range []string{":path", ":authority", ":method", ":scheme", "host", "x-other", "authorization", "x-execd-access-token"} {
		says(up, other, "/x")
		if slices.Contains(s.may, other) {
			continue
		}
		if c := get(s.path); c.status != 500 || c.body != "" {
			t.Errorf("samepod sets %s: %d %q", other, c.status, c.body)
		}
	}
	says(up, s.sets...)
	if slices.Contains(s.args, "--path-form") {
		for _, tc := range []struct{ what, path, header string }{{"an escaped slash", "/a%2Fb", ""}, {"an escaped backslash", "/a%5Cb", ""}, {"an underscore", "/a", "x_sandbox_id"}} {
			before := authz.Asked()
			header := []string{}
			if tc.header != "" {
				header = []string{tc.header, "a"}
			}
			if c := get(tc.path, header...); c.status != 400 || authz.Asked() != before {
				t.Errorf("%s: %d after %d checks", tc.what, c.status, authz.Asked()-before)
			}
		}
	}
	if slices.Contains(s.args, "--cors-origin") {
		s.preflight(t, a.envoy)
		requests++
	}
	if slices.Contains(s.args, "downstream") {
		pod := must(l.StartPod("a", "uid-a", addrs.Take()))(t)
		says(pod.Addr, s.sets...)
		s.callGRPC(t, a.envoy)
		requests++
	}
	a.invariant(requests)
}

func (s side) get(t *testing.T, url string, header ...string) call {
	t.Helper()
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	req.Host = s.host
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := must(httpClient.Do(req))(t)
	defer resp.Body.Close()
	return call{resp.StatusCode, resp.Header, string(must(io.ReadAll(resp.Body))(t))}
}

func (s side) upgrade(t *testing.T, url string) string {
	t.Helper()
	header := http.Header{}
	for i := 0; i < len(s.send); i += 2 {
		header.Set(s.send[i], s.send[i+1])
	}
	ws, _, err := websocket.Dial(t.Context(), strings.Replace(url, "http", "ws", 1), &websocket.DialOptions{Host: s.host, HTTPHeader: header})
	if err != nil {
		t.Fatalf("an upgrade: %v", err)
	}
	defer ws.CloseNow()
	_, text, err := ws.Read(t.Context())
	if err != nil {
		t.Errorf("a WebSocket: %v", err)
	}
	return string(text)
}

// check holds what the Pod heard to what it must hear.
func (s side) check(t *testing.T, what string, up netip.AddrPort, body string) {
	t.Helper()
	var got heard
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Errorf("%s: %q: %v", what, body, err)
		return
	}
	wantHost := s.host
	if s.want.Host != "" {
		wantHost = strings.ReplaceAll(s.want.Host, "$UP", up.String())
	}
	if got.Target != s.want.Target || got.Host != wantHost {
		t.Errorf("%s: the Pod gets %q of %q, want %q of %q", what, got.Target, got.Host, s.want.Target, wantHost)
	}
	for name, want := range s.want.Header {
		if !slices.Equal(got.Header[name], want) {
			t.Errorf("%s: the Pod gets %s %q, want %q", what, name, got.Header[name], want)
		}
	}
	for _, secret := range s.secret {
		if strings.Contains(body, secret) {
			t.Errorf("%s: the Pod learns %q: %s", what, secret, body)
		}
	}
}

func (s side) preflight(t *testing.T, e *lab.Envoy) {
	t.Helper()
	c := do(t, "OPTIONS", e.URL("/command"), "", "origin", "https://page.example.org", "access-control-request-method", "POST")
	for _, name := range append(slices.Clone(s.reads), "x-execd-access-token") {
		if !strings.Contains(c.header.Get("access-control-allow-headers"), name) {
			t.Errorf("a page may not send %s: %v", name, c.header)
		}
	}
}

func (s side) callGRPC(t *testing.T, e *lab.Envoy) {
	t.Helper()
	conn := must(grpc.NewClient(e.Addr.String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(s.host)))(t)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answer, err := grpc_testing.NewTestServiceClient(conn).UnaryCall(metadata.NewOutgoingContext(ctx, metadata.Pairs(s.send...)), &grpc_testing.SimpleRequest{Payload: &grpc_testing.Payload{Body: []byte("hello")}})
	if err != nil || string(answer.GetPayload().GetBody()) != "hello by uid-a" {
		t.Errorf("gRPC: %v, %v", answer, err)
	}
}

// TestHostRewrite is why samepod sets :authority and no route rewrites it: Envoy then
// tells the Pod what it was before.
func TestHostRewrite(t *testing.T) {
	for _, version := range []string{lab.EnvoyVersions()[0], lab.NewestEnvoy()} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			authz := must(l.StartAuthzServer())(t)
			addrs := must(lab.NewAddresses(lab.ExecdPort))(t)
			up := netip.AddrPortFrom(addrs.Take(), lab.ExecdPort)
			startMirror(t, up)
			a := &arm{Lab: l, t: t, addrs: addrs}
			config := samepodCLI(t, "envoy", "bootstrap", "--envoy-version", version, "--samepod", authz.Addr.String(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
			const plain, rewritten = "timeout: 0s   #", "host_rewrite_literal: pod\n                  timeout: 0s   #"
			if n := strings.Count(string(config), plain); n != 1 {
				t.Fatalf("the route's timeout is there %d times", n)
			}
			a.envoy = must(l.StartEnvoy(t.Context(), "envoy", envoyBinary(t, version), []byte(strings.Replace(string(config), plain, rewritten, 1))))(t)
			a.waitVerdicts()
			authz.Say(says(allow(map[string]any{"samepod_upstream": up.String(), "samepod_pod_uid": "uid-a"}, setting("x-samepod-pod-uid", "uid-a"))))
			var got heard
			if err := json.Unmarshal([]byte(side{host: signedHost}.get(t, a.envoy.URL("/")).body), &got); err != nil {
				t.Fatal(err)
			}
			if got.Host != "pod" || got.Header.Get("x-envoy-original-host") != signedHost {
				t.Errorf("Envoy %s keeps the host to itself: %+v", version, got)
			}
		})
	}
}
