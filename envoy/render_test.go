package envoy_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/rbac/matchers/upstream_ip_port/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/samepod/samepod/envoy"
)

var update = flag.Bool("update", false, "write the golden files")

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

var claimHeaders = []string{"x-samepod-target", "x-samepod-expect-pod-uid", "x-samepod-recorded", "x-samepod-port"}

var openSandbox = []string{"opensandbox-ingress-to", "open-sandbox-ingress", "opensandbox-secure-access"}

func replicas(texts ...string) (out []envoy.Replica) {
	for _, s := range texts {
		r, err := envoy.ParseReplica(s)
		if err != nil {
			panic(err)
		}
		out = append(out, r)
	}
	return out
}

// cases are the goldens: testdata/<name>.yaml is what render gives for change.
var cases = []struct {
	name   string
	render func(envoy.Params) ([]byte, error)
	change func(*envoy.Params)
}{
	{"bootstrap-1.36-resolve", envoy.Bootstrap, func(p *envoy.Params) { p.Version, p.Upstream = 36, envoy.Resolve }},
	{"bootstrap-1.36-both", envoy.Bootstrap, func(p *envoy.Params) { p.Version = 36 }},
	{"bootstrap-1.37-resolve", envoy.Bootstrap, func(p *envoy.Params) { p.Version, p.Upstream = 37, envoy.Resolve }},
	{"bootstrap-1.38-assert-accepted", envoy.Bootstrap, func(p *envoy.Params) {
		p.Version, p.Upstream, p.AcceptUnasserted, p.Endpoints = 38, envoy.Assert, true, []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:44772")}
	}},
	{"bootstrap-1.38-resolve", envoy.Bootstrap, func(p *envoy.Params) { p.Version, p.Upstream = 38, envoy.Resolve }},
	{"bootstrap-1.39-both", envoy.Bootstrap, func(p *envoy.Params) { p.Version = 39 }},
	{"bootstrap-1.40-assert", envoy.Bootstrap, func(p *envoy.Params) {
		p.Upstream, p.Endpoints = envoy.Assert, []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:44772"), netip.MustParseAddrPort("[fd00::1]:44772")}
	}},
	{"bootstrap-1.40-both-everything", envoy.Bootstrap, func(p *envoy.Params) {
		p.Replicas = []envoy.Replica{{Path: "/run/samepod/authz.sock"}}
		p.Admin = netip.AddrPort{}
		p.CIDRs = prefixes("10.0.0.0/8", "fd00::/8")
		p.Ports = []envoy.PortRange{{First: 44772, Last: 44772}, {First: 8000, Last: 8010}}
		p.ClaimMetadata = []string{"envoy.filters.http.jwt_authn"}
		p.ContextExtensions = map[string]string{"pod": "ns/a", "b": `quo"te: {x}`}
		p.WebSocket, p.PathHardening = false, true
		p.StreamDuration, p.StreamIdle, p.TCPUserTimeout = 0, 0, 1500*time.Millisecond
		p.Cluster = "outbound|44772||sandboxes.svc"
		p.RenewEvery = 10 * time.Second
	}},
	{"bootstrap-1.40-grpc-tls-cors", envoy.Bootstrap, func(p *envoy.Params) {
		p.UpstreamProtocol = envoy.Downstream
		p.UpstreamTLS = envoy.UpstreamTLS{CASecret: "/etc/pods/ca.yaml", ClientSecret: "/etc/pods/client.yaml", Name: "pod.example.org", PodUIDPrefix: "spiffe://example.org/pod/"}
		p.CORSOrigins, p.CORSHeaders = []string{"https://console.example.org", "http://localhost:3000"}, []string{"authorization"}
	}},
	{"filters-1.36-opensandbox-path", envoy.Filters, func(p *envoy.Params) {
		p.Version, p.Upstream, p.ClaimHeaders = 36, envoy.Resolve, openSandbox
		p.SetsPath, p.PathHardening, p.SetsHost = true, true, true
	}},
	{"filters-1.40-opensandbox", envoy.Filters, func(p *envoy.Params) {
		p.ClaimHeaders, p.SetsHost = openSandbox, true
		p.CORSOrigins, p.CORSHeaders = []string{"*"}, []string{"x-execd-access-token"}
	}},
	{"filters-1.40-agent-sandbox-path", envoy.Filters, func(p *envoy.Params) {
		p.ClaimHeaders, p.PrivateHeaders = []string{"x-sandbox-id", "x-sandbox-namespace", "x-sandbox-port", "x-sandbox-uid", "x-sandbox-pod-ip"}, []string{"x-sandbox-timeout", "authorization"}
		p.SetsPath, p.PathHardening = true, true
	}},
	{"clusters-1.36-tls", envoy.Clusters, func(p *envoy.Params) {
		p.Version, p.Upstream, p.UpstreamTLS = 36, envoy.Resolve, envoy.UpstreamTLS{CASecret: "/etc/pods/ca.yaml", Name: "pod.example.org"}
	}},
	{"filters-1.36-resolve", envoy.Filters, func(p *envoy.Params) { p.Version, p.Upstream = 36, envoy.Resolve }},
	{"filters-1.36-renew", envoy.Filters, func(p *envoy.Params) { p.Version, p.Upstream, p.RenewEvery = 36, envoy.Resolve, 2500*time.Millisecond }},
	{"filters-1.40-both", envoy.Filters, func(*envoy.Params) {}},
	{"filters-1.40-no-headers", envoy.Filters, func(p *envoy.Params) {
		p.ClaimHeaders, p.ContextExtensions = nil, map[string]string{"pod": "ns/a"}
	}},
	{"clusters-1.36-resolve", envoy.Clusters, func(p *envoy.Params) { p.Version, p.Upstream = 36, envoy.Resolve }},
	{"clusters-1.40-replicas", envoy.Clusters, func(p *envoy.Params) {
		p.Replicas = replicas("samepod.gateway.svc.cluster.local:9191")
		p.ReplicaTLS = envoy.ReplicaTLS{CASecret: "/etc/envoy/samepod/ca.yaml", ClientSecret: "/etc/envoy/samepod/client.yaml", Name: "samepod.gateway.svc"}
	}},
	{"clusters-1.36-two-replicas", envoy.Clusters, func(p *envoy.Params) {
		p.Version, p.Replicas = 36, replicas("10.0.0.1:9191", "[fd00::1]:9191")
		p.ReplicaTLS = envoy.ReplicaTLS{CASecret: "/etc/envoy/samepod/ca.yaml", Name: "spiffe://example/ns/gateway/sa/samepod"}
	}},
	{"clusters-1.40-both", envoy.Clusters, func(*envoy.Params) {}},
	{"clusters-1.40-assert", envoy.Clusters, func(p *envoy.Params) {
		p.Upstream, p.Endpoints = envoy.Assert, []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:44772")}
	}},
	{"secret-ca", func(envoy.Params) ([]byte, error) { return envoy.CASecret("/certs/ca.crt") }, func(*envoy.Params) {}},
	{"secret-client", func(envoy.Params) ([]byte, error) { return envoy.ClientSecret("/certs/tls.crt", "/certs/tls.key") }, func(*envoy.Params) {}},
}

func TestGolden(t *testing.T) {
	for _, tc := range cases {
		p := envoy.DefaultParams()
		p.ClaimHeaders = claimHeaders
		tc.change(&p)
		got, err := tc.render(p)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		path := filepath.Join("testdata", tc.name+".yaml")
		if *update {
			if err := os.WriteFile(path, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != string(got) {
			t.Errorf("%s differs from %s; look at it after go test ./envoy -run Golden -update", tc.name, path)
		}
		if err := check(tc.name, got); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// check parses a rendering into Envoy's own types, strictly, and validates every
// message in it, those inside Anys too.
func check(name string, text []byte) error {
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(name, "bootstrap"):
		return parse(tree, &bootstrapv3.Bootstrap{})
	case strings.HasPrefix(name, "secret"):
		return parse(tree, &discoveryv3.DiscoveryResponse{})
	}
	for key, value := range tree {
		var err error
		switch key {
		case "clusters":
			err = parse(map[string]any{"static_resources": map[string]any{"clusters": value}}, &bootstrapv3.Bootstrap{})
		case "http_connection_manager":
			whole := value.(map[string]any)
			whole["stat_prefix"], whole["route_config"] = "x", map[string]any{} // the operator's own
			err = parse(whole, &hcmv3.HttpConnectionManager{})
		case "route":
			whole := value.(map[string]any)
			whole["match"] = map[string]any{"prefix": "/"} // the operator's own
			err = parse(whole, &routev3.Route{})
		default:
			err = fmt.Errorf("a fragment that belongs nowhere")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func parse(tree any, into proto.Message) error {
	text, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	if err := protojson.Unmarshal(text, into); err != nil {
		return err
	}
	return validate(into.ProtoReflect())
}

func validate(m protoreflect.Message) error {
	if v, ok := m.Interface().(interface{ ValidateAll() error }); ok {
		if err := v.ValidateAll(); err != nil {
			return err
		}
	}
	if a, ok := m.Interface().(*anypb.Any); ok {
		inner, err := a.UnmarshalNew()
		if err != nil {
			return err
		}
		return validate(inner.ProtoReflect())
	}
	var errs []error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, e protoreflect.Value) bool {
				if f.MapValue().Message() != nil {
					errs = append(errs, validate(e.Message()))
				}
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				errs = append(errs, validate(v.List().Get(i).Message()))
			}
		default:
			errs = append(errs, validate(v.Message()))
		}
		return true
	})
	return errors.Join(errs...)
}

// TestHazards looks at what every rendering must have, in Envoy's own types: the
// holes of the after-check are closed by what is not there.
func TestHazards(t *testing.T) {
	for v := envoy.MinVersion; v <= envoy.MaxVersion; v++ {
		for _, u := range []envoy.Arrangement{envoy.Resolve, envoy.Assert, envoy.Both} {
			p := envoy.DefaultParams()
			p.Version, p.Upstream, p.AcceptUnasserted, p.ClaimHeaders = v, u, true, claimHeaders
			if u == envoy.Assert {
				p.Endpoints = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")}
			}
			text, err := envoy.Bootstrap(p)
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%v %s", v, u)
			for _, never := range []string{"retry_policy:", "hedge_policy:", "request_mirror_policies:", "internal_redirect_policy:", "use_http_header", "listener_filters", "retry_budget", "failure_mode_allow: true", "shadow_mode", "filter_enabled", "with_request_body", "preconnect_policy", "clear_route_cache: true", "weighted_clusters", "cluster_header"} {
				if strings.Contains(string(text), never) {
					t.Errorf("%s has %s", name, never)
				}
			}
			if got := strings.Contains(string(text), "envoy.filters.http.upstream_rbac"); got != (u != envoy.Resolve && v >= 39) {
				t.Errorf("%s: upstream_rbac %v", name, got)
			}
			if got := strings.Contains(string(text), "envoy.hashable_string"); got != (v >= 38) {
				t.Errorf("%s: pool partition %v", name, got)
			}
			if got := strings.Contains(string(text), "max_requests_per_connection: 1 "); got != (v < 38) {
				t.Errorf("%s: one request a connection %v", name, got)
			}
			if got := strings.Contains(string(text), "original_dst_address"); got != (u != envoy.Assert) {
				t.Errorf("%s: pinned address %v", name, got)
			}
			if got := strings.Count(string(text), "max_retries: 0, max_connections: 4294967295"); got != 2 {
				t.Errorf("%s: %d priorities without retries and without a connection limit", name, got)
			}
		}
	}
}

func TestBadParams(t *testing.T) {
	for _, tc := range []struct {
		rule, want string
		change     func(*envoy.Params)
	}{
		{"too old", "envoy-version: 1.35; allowed: 1.36 to 1.40", func(p *envoy.Params) { p.Version = 35 }},
		{"too new", "envoy-version: 1.41; allowed: 1.36 to 1.40", func(p *envoy.Params) { p.Version = 41 }},
		{"no arrangement", `upstream: "neither"; allowed: resolve, assert, both`, func(p *envoy.Params) { p.Upstream = "neither" }},
		{"assert below 1.39", "upstream: assert: Envoy 1.38 cannot compare", func(p *envoy.Params) {
			p.Version, p.Upstream, p.Endpoints = 38, envoy.Assert, []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")}
		}},
		{"a path is read that Envoy leaves as it is", "path-form: samepod reads the path; it needs path-hardening", func(p *envoy.Params) { p.SetsPath = true }},
		{"a private header that is none", `claim header: "A"`, func(p *envoy.Params) { p.PrivateHeaders = []string{"A"} }},
		{"assert without hosts", "endpoint: missing", func(p *envoy.Params) { p.Upstream = envoy.Assert }},
		{"resolve with hosts", "endpoint: 10.0.0.1:80; allowed with --upstream assert only", func(p *envoy.Params) { p.Endpoints = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")} }},
		{"samepod at a name and at an address", "samepod: allowed: one of", func(p *envoy.Params) { p.Replicas[0].Name = envoy.HostPort{Host: "a", Port: 1} }},
		{"a name that writes YAML", `samepod: "[a\n- evil: {}]:1"; allowed: a DNS name`, func(p *envoy.Params) {
			p.Replicas = []envoy.Replica{{Name: envoy.HostPort{Host: "a\n- evil: {}", Port: 1}}}
		}},
		{"a name that is an address", `samepod: "10.0.0.1:1"; allowed: a DNS name`, func(p *envoy.Params) {
			p.Replicas = []envoy.Replica{{Name: envoy.HostPort{Host: "10.0.0.1", Port: 1}}}
		}},
		{"samepod nowhere", "samepod: missing", func(p *envoy.Params) { p.Replicas = nil }},
		{"a replica nowhere", "samepod: allowed: one of", func(p *envoy.Params) { p.Replicas = []envoy.Replica{{}} }},
		{"a replica twice", "samepod: 10.0.0.1:1: occurs twice", func(p *envoy.Params) { p.Replicas = replicas("10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:1") }},
		{"a socket beside an address", "samepod: unix:///x: beside others", func(p *envoy.Params) { p.Replicas = replicas("10.0.0.1:1", "unix:///x") }},
		{"TLS without a name", "samepod-tls-name: missing", func(p *envoy.Params) { p.ReplicaTLS.CASecret = "/ca.yaml" }},
		{"TLS without a CA", "samepod-tls-name: without effect", func(p *envoy.Params) { p.ReplicaTLS.Name = "samepod.example" }},
		{"a client certificate without a CA", "samepod-tls-client-secret: without effect", func(p *envoy.Params) {
			p.ReplicaTLS.Name, p.ReplicaTLS.ClientSecret = "samepod.example", "/client.yaml"
		}},
		{"TLS on a socket", "samepod-tls-ca-secret: without effect; samepod does not use TLS on unix:///x", func(p *envoy.Params) {
			p.Replicas, p.ReplicaTLS = replicas("unix:///x"), envoy.ReplicaTLS{CASecret: "/ca.yaml", Name: "samepod.example"}
		}},
		{"a name with a wildcard", `samepod-tls-name: "*.example"; allowed`, func(p *envoy.Params) { p.ReplicaTLS = envoy.ReplicaTLS{CASecret: "/ca.yaml", Name: "*.example"} }},
		{"a name that is an address", `samepod-tls-name: "10.0.0.1"; allowed`, func(p *envoy.Params) { p.ReplicaTLS = envoy.ReplicaTLS{CASecret: "/ca.yaml", Name: "10.0.0.1"} }},
		{"a URI of another kind", `samepod-tls-name: "https://example/x"; allowed`, func(p *envoy.Params) {
			p.ReplicaTLS = envoy.ReplicaTLS{CASecret: "/ca.yaml", Name: "https://example/x"}
		}},
		{"a name with a dot at its end", `samepod-tls-name: "samepod.example."; allowed`, func(p *envoy.Params) {
			p.ReplicaTLS = envoy.ReplicaTLS{CASecret: "/ca.yaml", Name: "samepod.example."}
		}},
		{"a SPIFFE ID that goes up", `samepod-tls-name: "spiffe://a/../b"; allowed`, func(p *envoy.Params) {
			p.ReplicaTLS = envoy.ReplicaTLS{CASecret: "/ca.yaml", Name: "spiffe://a/../b"}
		}},
		{"a SPIFFE ID that ends where it is", `samepod-tls-name: "spiffe://a/b/."; allowed`, func(p *envoy.Params) {
			p.ReplicaTLS = envoy.ReplicaTLS{CASecret: "/ca.yaml", Name: "spiffe://a/b/."}
		}},
		{"a name that is too long", `samepod-tls-name: "a.a.`, func(p *envoy.Params) {
			p.ReplicaTLS = envoy.ReplicaTLS{CASecret: "/ca.yaml", Name: strings.Repeat("a.", 127) + "a"}
		}},
		{"a relative secret", `samepod-tls-ca-secret: "ca.yaml"; allowed`, func(p *envoy.Params) { p.ReplicaTLS = envoy.ReplicaTLS{CASecret: "ca.yaml", Name: "a.example"} }},
		{"a secret that writes YAML", `samepod-tls-client-secret: "/x\ny"; allowed`, func(p *envoy.Params) {
			p.ReplicaTLS = envoy.ReplicaTLS{CASecret: "/ca.yaml", ClientSecret: "/x\ny", Name: "a.example"}
		}},
		{"samepod twice", "samepod: allowed: one of", func(p *envoy.Params) { p.Replicas[0].Path = "/x" }},
		{"a relative socket", `samepod: "x.sock"; allowed: an absolute path of at most`, func(p *envoy.Params) { p.Replicas = []envoy.Replica{{Path: "x.sock"}} }},
		{"a socket with a line break", `samepod: "/x\n- evil: {}"; allowed: an absolute path of at most 107 bytes of printable ASCII`, func(p *envoy.Params) { p.Replicas = []envoy.Replica{{Path: "/x\n- evil: {}"}} }},
		{"a cluster that writes CEL", "cluster: ", func(p *envoy.Params) { p.Cluster = "x' || true || 'y" }},
		{"a cluster that writes YAML", "cluster: ", func(p *envoy.Params) { p.Cluster = "x\nadmin: {}" }},
		{"a header that writes YAML", "claim header: ", func(p *envoy.Params) { p.ClaimHeaders = []string{"x }, { prefix: y"} }},
		{"metadata with a line break", "claim metadata namespace: ", func(p *envoy.Params) { p.ClaimMetadata = []string{"a\nb"} }},
		{"an extension with a line break", "context-extension: ", func(p *envoy.Params) { p.ContextExtensions = map[string]string{"a": "b\nc"} }},
		{"no check timeout", "check-timeout: 0s; allowed: a positive duration in whole milliseconds, at most 596h31m23.647s", func(p *envoy.Params) { p.CheckTimeout = 0 }},
		{"a negative stream duration", "stream-duration: -1s; allowed: 0 for none, or a positive duration", func(p *envoy.Params) { p.StreamDuration = -time.Second }},
		{"a fraction of a millisecond", "connect-timeout: 1ns; allowed: a positive duration in whole milliseconds", func(p *envoy.Params) { p.ConnectTimeout = 1 }},
		{"a timeout that is no C int", "tcp-user-timeout: 600h0m0s; allowed", func(p *envoy.Params) { p.TCPUserTimeout = 600 * time.Hour }},
		{"samepod's own cluster", `cluster: "samepod_authz"; allowed`, func(p *envoy.Params) { p.Cluster = "samepod_authz" }},
		{"a long socket path", "samepod: ", func(p *envoy.Params) { p.Replicas = []envoy.Replica{{Path: "/" + strings.Repeat("x", 107)}} }},
		{"samepod at a zone", "samepod: [fe80::1%eth0]:1; allowed: an address without a zone", func(p *envoy.Params) { p.Replicas[0].Address = netip.MustParseAddrPort("[fe80::1%eth0]:1") }},
		{"samepod at no port", "samepod: 127.0.0.1:0; allowed: an address that can be dialled", func(p *envoy.Params) { p.Replicas[0].Address = netip.MustParseAddrPort("127.0.0.1:0") }},
		{"samepod everywhere", "samepod: 0.0.0.0:1; allowed: an address that can be dialled", func(p *envoy.Params) { p.Replicas[0].Address = netip.MustParseAddrPort("0.0.0.0:1") }},
		{"a mapped host", "endpoint: [::ffff:10.0.0.1]:1; allowed", func(p *envoy.Params) {
			p.Upstream, p.Endpoints = envoy.Assert, []netip.AddrPort{netip.MustParseAddrPort("[::ffff:10.0.0.1]:1")}
		}},
		{"no protocol", `upstream-protocol: "h3"; allowed: http1, downstream`, func(p *envoy.Params) { p.UpstreamProtocol = "h3" }},
		{"an origin with a path", `cors-origin: "https://a/"; allowed: <scheme>://<host>[:<port>] in lower case`, func(p *envoy.Params) { p.CORSOrigins = []string{"https://a/"} }},
		{"all origins and one", `cors-origin: "*"; allowed`, func(p *envoy.Params) { p.CORSOrigins = []string{"*", "https://a"} }},
		{"an origin that writes YAML", "cors-origin: ", func(p *envoy.Params) { p.CORSOrigins = []string{"https://a\" } ]"} }},
		{"all headers", `cors-header: "*"; allowed`, func(p *envoy.Params) { p.CORSOrigins, p.CORSHeaders = []string{"*"}, []string{"*"} }},
		{"headers of no origin", `cors-header: "a"; without effect`, func(p *envoy.Params) { p.CORSHeaders = []string{"a"} }},
		{"TLS to anybody of the authority", "upstream-tls-name: missing", func(p *envoy.Params) { p.UpstreamTLS.CASecret = "/ca" }},
		{"a name without TLS", "upstream-tls-name: without effect", func(p *envoy.Params) { p.UpstreamTLS.Name = "a" }},
		{"uids without TLS", "upstream-tls-uid-prefix: without effect", func(p *envoy.Params) { p.UpstreamTLS.PodUIDPrefix = "a:b" }},
		{"a prefix that is a list", `upstream-tls-uid-prefix: "spiffe://a,b/"; allowed: the beginning of a URI`, func(p *envoy.Params) {
			p.UpstreamTLS = envoy.UpstreamTLS{CASecret: "/ca", PodUIDPrefix: "spiffe://a,b/"}
		}},
		{"a prefix that formats", `upstream-tls-uid-prefix: "a:%REQ(x)%"; allowed`, func(p *envoy.Params) { p.UpstreamTLS = envoy.UpstreamTLS{CASecret: "/ca", PodUIDPrefix: "a:%REQ(x)%"} }},
		{"the name of a Pod with a dot at its end", `upstream-tls-name: "a."; allowed`, func(p *envoy.Params) { p.UpstreamTLS = envoy.UpstreamTLS{CASecret: "/ca", Name: "a."} }},
		{"the SPIFFE ID of a Pod that goes up", `upstream-tls-name: "spiffe://a/b/.."; allowed`, func(p *envoy.Params) { p.UpstreamTLS = envoy.UpstreamTLS{CASecret: "/ca", Name: "spiffe://a/b/.."} }},
		{"a beginning of a URI that goes up", `upstream-tls-uid-prefix: "spiffe://a/../"; allowed`, func(p *envoy.Params) {
			p.UpstreamTLS = envoy.UpstreamTLS{CASecret: "/ca", PodUIDPrefix: "spiffe://a/../"}
		}},
		{"a wildcard name", `upstream-tls-name: "*.a"; allowed: a DNS name`, func(p *envoy.Params) { p.UpstreamTLS = envoy.UpstreamTLS{CASecret: "/ca", Name: "*.a"} }},
		{"a relative secret", `upstream-tls-client-secret: "c"; allowed: an absolute path`, func(p *envoy.Params) {
			p.UpstreamTLS = envoy.UpstreamTLS{CASecret: "/ca", Name: "a", ClientSecret: "c"}
		}},
		{"a URI that is asked for", `upstream-tls-name: "spiffe://a/b"; allowed with --upstream-tls-uid-prefix: a DNS name`, func(p *envoy.Params) {
			p.UpstreamTLS = envoy.UpstreamTLS{CASecret: "/ca", Name: "spiffe://a/b", PodUIDPrefix: "a:b"}
		}},
		{"no requests", "max-requests: 0; allowed", func(p *envoy.Params) { p.MaxRequests = 0 }},
	} {
		p := envoy.DefaultParams()
		tc.change(&p)
		if _, err := envoy.Bootstrap(p); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s:\n got %v\nwant %s", tc.rule, err, tc.want)
		}
	}
}

func TestBadSecrets(t *testing.T) {
	for _, tc := range []struct{ cert, key, want string }{
		{"", "/k", `cert: ""; allowed: an absolute path`},
		{"c", "/k", `cert: "c"; allowed: an absolute path`},
		{"/c\nd", "/k", "cert: "},
		{"/c", "", `key: ""; allowed: an absolute path`},
		{"/a/c", "/b/k", `key: "/b/k"; allowed: a file in the directory of the certificate, /a`},
	} {
		if _, err := envoy.ClientSecret(tc.cert, tc.key); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%q, %q: %v, want %s", tc.cert, tc.key, err, tc.want)
		}
	}
	if _, err := envoy.CASecret("ca"); err == nil {
		t.Error("a relative CA is taken")
	}
}

func TestParseVersion(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want envoy.Version
	}{
		{"1.36", 36}, {"1.36.4", 36}, {"1.40.0", 40},
		{"", 0}, {"1", 0}, {"36", 0}, {"2.36", 0}, {"1.35", 0}, {"1.41", 0}, {"1.x", 0}, {"1.40.0.1", 0}, {"v1.40", 0}, {"1.-40", 0}, {"1.40.x", 0},
	} {
		if got, err := envoy.ParseVersion(tc.in); got != tc.want || (err == nil) != (tc.want != 0) {
			t.Errorf("ParseVersion(%q) = %v, %v", tc.in, got, err)
		}
	}
}

// FuzzRender: whatever the strings say, what is rendered is the same structure.
func FuzzRender(f *testing.F) {
	f.Add("samepod_verified", "x-h", "ns", "k", "v", "/run/x.sock")
	f.Add("a'b", "x: y", "a\"b", "{{", "}}", "/a b")
	f.Fuzz(func(t *testing.T, cluster, header, namespace, key, value, path string) {
		p := envoy.DefaultParams()
		p.Cluster, p.ClaimHeaders, p.ClaimMetadata = cluster, []string{header}, []string{namespace}
		p.ContextExtensions = map[string]string{key: value}
		p.Replicas = []envoy.Replica{{Path: path}}
		text, err := envoy.Bootstrap(p)
		if err != nil {
			return
		}
		var b bootstrapv3.Bootstrap
		var tree any
		if err := yaml.Unmarshal(text, &tree); err != nil {
			t.Fatalf("no YAML: %v\n%s", err, text)
		}
		if err := parse(tree, &b); err != nil {
			t.Fatalf("no bootstrap: %v", err)
		}
		var names []string
		for _, c := range b.GetStaticResources().GetClusters() {
			names = append(names, c.GetName())
		}
		if len(names) != 2 || names[0] != cluster || b.GetStaticResources().GetClusters()[0].GetType() != clusterv3.Cluster_ORIGINAL_DST {
			t.Errorf("clusters %q", names)
		}
		if got := b.GetStaticResources().GetClusters()[1].GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetPipe().GetPath(); got != path {
			t.Errorf("path %q, want %q", got, path)
		}
	})
}
