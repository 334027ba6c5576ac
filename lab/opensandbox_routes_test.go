package lab_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/samepod/samepod/lab"
)

const (
	accessToken = "s3cret-token"
	accessKey   = "c2lnbmluZy1rZXk=" // signing-key
)

// routeTest is one mode of routes: the real server, which makes them, and a Pod that says
// what it hears.
type routeTest struct {
	*gateway
	t      *testing.T
	mode   string // of the server
	server *lab.OpenSandboxServer
	up     netip.AddrPort
}

// newRouteTest starts a mode of the server's before a samepod in that of the ingress.
// sandboxA is anybody's, sandboxB asks for access.
func newRouteTest(t *testing.T, mode, ingressMode string) *routeTest {
	t.Helper()
	l, o, addrs := newOpenSandbox(t)
	ctx := t.Context()
	keys := writeFile(t, l, "keys", "k="+accessKey)
	g := newGateway(t, l, o.Kube, opensandboxConfig(o.Namespace, addrs, fmt.Sprintf("opensandbox: {mode: %s, secureAccessKeysFile: %q}", ingressMode, keys)))
	g.front(lab.NewestEnvoy(), g.samepod)
	gateway := g.envoy.Addr.String()
	if mode == "wildcard" {
		gateway = "*.sandboxes.example.org"
	}
	r := &routeTest{gateway: g, t: t, mode: mode}
	r.server = must(l.StartOpenSandboxServer(ctx, o.Kube, lab.OpenSandboxConfig{
		Namespace: o.Namespace, Gateway: gateway, RouteMode: mode, Keys: map[string]string{"k": accessKey}, Active: "k",
	}))(t)
	for _, id := range []string{sandboxA, sandboxB} {
		pod := must(o.Start(ctx, id, addrs.Take()))(t)
		object := must(o.Get(ctx, pod.Name))(t)
		o.Vanish(object.UID)
		startMirror(t, pod.Addr)
		r.up = pod.Addr
	}
	succeed(t, o.Annotate(ctx, sandboxB, "opensandbox.io/secure-access-token", accessToken))
	eventually(t, "samepod knows that it asks for access", func() bool {
		return r.get(r.endpoint(sandboxB, ""), "/x").status == http.StatusUnauthorized
	})
	return r
}

// endpoint is where the server sends callers; expires is empty for a route without a
// signature.
func (r *routeTest) endpoint(id, expires string) lab.Endpoint {
	r.t.Helper()
	query := ""
	if expires != "" {
		query = "expires=" + expires
	}
	return must(r.server.Endpoint(id, lab.ExecdPort, query))(r.t)
}

// request is a request to an endpoint as an SDK makes it, but for the name, which no DNS
// has: it goes to Envoy. The endpoint of the server may have the token that callers show.
func (r *routeTest) request(to lab.Endpoint, path string, headers ...string) *http.Request {
	host, prefix, _ := strings.Cut(to.Endpoint, "/")
	if prefix != "" {
		prefix = "/" + prefix
	}
	req := must(http.NewRequestWithContext(r.t.Context(), "GET", r.envoy.URL(prefix+path), nil))(r.t)
	req.Host = host
	for name, value := range to.Headers {
		if !strings.EqualFold(name, "OpenSandbox-Secure-Access") {
			req.Header.Set(name, value)
		}
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

func (r *routeTest) get(to lab.Endpoint, path string, headers ...string) call {
	r.t.Helper()
	req := r.request(to, path, headers...)
	return r.do(req)
}

func (r *routeTest) do(req *http.Request) call {
	r.t.Helper()
	resp := must(httpClient.Do(req))(r.t)
	defer resp.Body.Close()
	return call{resp.StatusCode, resp.Header, string(must(io.ReadAll(resp.Body))(r.t))}
}

// hears holds what the Pod hears to what it may: this target, its own address as Host, its
// own token, and no route and no secret of the gateway's.
func (r *routeTest) hears(what, body, target string, to lab.Endpoint) {
	r.t.Helper()
	var got heard
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		r.t.Errorf("%s: %q: %v", what, body, err)
		return
	}
	if got.Target != target || got.Host != r.up.String() || got.Header.Get("X-Execd-Access-Token") != "of-the-pod" {
		r.t.Errorf("%s: the Pod hears %q of %q, %v; want %q of %v", what, got.Target, got.Host, got.Header, target, r.up)
	}
	secrets := []string{accessToken, "Opensandbox-Ingress-To", "Opensandbox-Secure-Access", "sandboxes.example.org"}
	if route := to.Headers["OpenSandbox-Ingress-To"]; route != "" {
		secrets = append(secrets, route)
	}
	for _, secret := range secrets {
		if strings.Contains(body, secret) {
			r.t.Errorf("%s: the Pod learns %q: %s", what, secret, body)
		}
	}
}

// wrong is the signed route with its signature's first digit changed.
func wrong(to lab.Endpoint) lab.Endpoint {
	change := func(text string) string {
		i := strings.LastIndexAny(text[:strings.LastIndex(text, "k")], "-/") + 1
		digit := "0"
		if text[i] == '0' {
			digit = "1"
		}
		return text[:i] + digit + text[i+1:]
	}
	headers := map[string]string{}
	for name, value := range to.Headers {
		if strings.EqualFold(name, "OpenSandbox-Ingress-To") {
			value = change(value)
		}
		headers[name] = value
	}
	if len(headers) == 0 || headers["OpenSandbox-Ingress-To"] == "" {
		host, rest, uri := strings.Cut(to.Endpoint, ".sandboxes.")
		to.Endpoint = change(host)
		if uri {
			to.Endpoint += ".sandboxes." + rest
		}
	}
	return lab.Endpoint{Endpoint: to.Endpoint, Headers: headers}
}

// TestOpenSandboxRoutes: every form in which the real server tells callers where to go,
// signed and not.
func TestOpenSandboxRoutes(t *testing.T) {
	for mode, ingressMode := range map[string]string{"header": "header", "wildcard": "header", "uri": "uri"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newRouteTest(t, mode, ingressMode)
			const token = "X-EXECD-ACCESS-TOKEN"
			in := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).Unix()) }
			plain, signed, over := r.endpoint(sandboxB, ""), r.endpoint(sandboxB, in(time.Hour)), lab.Endpoint{}
			if soon := time.Now().Unix() + 2; true { // the server signs no past time
				over = r.endpoint(sandboxB, fmt.Sprint(soon))
				eventually(t, "a signature is over", func() bool { return time.Now().Unix() > soon })
			}
			if got := r.get(r.endpoint(sandboxA, ""), "/files/info?path=/a&x=y", token, "of-the-pod"); got.status != 200 {
				t.Errorf("anybody's: %d %s", got.status, got.body)
			}
			for _, tc := range []struct {
				what    string
				to      lab.Endpoint
				header  []string
				allowed bool
			}{
				{"without anything", plain, nil, false},
				{"with the token", plain, []string{"OpenSandbox-Secure-Access", accessToken}, true},
				{"with a wrong token", plain, []string{"OpenSandbox-Secure-Access", "wrong"}, false},
				{"signed", signed, nil, true},
				{"signed, and a wrong token", signed, []string{"OpenSandbox-Secure-Access", "wrong"}, false},
				{"signed wrongly", wrong(signed), nil, false},
				{"signed, and over", over, nil, false},
			} {
				got := r.get(tc.to, "/files/info?path=/a&x=y", append([]string{token, "of-the-pod"}, tc.header...)...)
				switch {
				case tc.allowed && got.status == 200:
					r.hears(tc.what, got.body, "/files/info?path=/a&x=y", tc.to)
				case tc.allowed || got.status != 401 || got.reason() != "access-denied":
					t.Errorf("%s %+v: %d %s", tc.what, tc.to, got.status, got.body)
				}
			}
			req := r.request(signed, "/ws", token, "of-the-pod")
			ws, _, err := websocket.Dial(t.Context(), strings.Replace(req.URL.String(), "http", "ws", 1), &websocket.DialOptions{Host: req.Host, HTTPHeader: req.Header})
			if err != nil {
				t.Fatalf("an upgrade: %v", err)
			}
			defer ws.CloseNow()
			_, body, err := ws.Read(t.Context())
			if err != nil {
				t.Errorf("a WebSocket: %v", err)
			}
			r.hears("an upgrade", string(body), "/ws", signed)
			r.finish()
		})
	}
}
