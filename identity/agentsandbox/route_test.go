package agentsandbox_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/agentsandbox"
)

func TestClaim(t *testing.T) {
	routes := agentsandbox.DefaultRoutes()
	routes.PathPrefix = "/s"
	hint := netip.MustParseAddr("10.0.0.9")
	for _, tc := range []struct {
		what string
		in   request
		want identity.Claim
	}{
		{"the id alone", request{"x-sandbox-id=a"}, identity.Claim{Sandbox: "a", Namespace: "default", Port: 8888}},
		{"everything", request{"x-sandbox-id=a", "x-sandbox-namespace=n", "x-sandbox-port=80", "x-sandbox-uid=S-a", "x-sandbox-pod-ip=10.0.0.9"}, identity.Claim{Sandbox: "a", Namespace: "n", Port: 80, SandboxUID: "S-a", Hint: hint}},
		{"a path that is the Pod's", request{"/x/y?z", "x-sandbox-id=a"}, identity.Claim{Sandbox: "a", Namespace: "default", Port: 8888}},
		{"a path that only begins like the prefix", request{"/sx/n/a/80/", "x-sandbox-id=a"}, identity.Claim{Sandbox: "a", Namespace: "default", Port: 8888}},
		{"the prefix alone", request{"/s", "x-sandbox-id=a"}, identity.Claim{Sandbox: "a", Namespace: "default", Port: 8888}},
		{"the path", request{"/s/n/a/80/x/y"}, identity.Claim{Sandbox: "a", Namespace: "n", Port: 80, Path: "/x/y"}},
		{"with a query", request{"/s/n/a/80/x?y=/s/m/b/81/"}, identity.Claim{Sandbox: "a", Namespace: "n", Port: 80, Path: "/x?y=/s/m/b/81/"}},
		{"with an empty query", request{"/s/n/a/80/x?"}, identity.Claim{Sandbox: "a", Namespace: "n", Port: 80, Path: "/x?"}},
		{"nothing behind the port", request{"/s/n/a/80"}, identity.Claim{Sandbox: "a", Namespace: "n", Port: 80, Path: "/"}},
		{"a query behind the port", request{"/s/n/a/80?x"}, identity.Claim{Sandbox: "a", Namespace: "n", Port: 80, Path: "/?x"}},
		{"what is behind it stays as it is", request{"/s/n/a/80/x%20y;z"}, identity.Claim{Sandbox: "a", Namespace: "n", Port: 80, Path: "/x%20y;z"}},
		{"headers add to the path", request{"/s/n/a/80/", "x-sandbox-uid=S-a", "x-sandbox-pod-ip=10.0.0.9"}, identity.Claim{Sandbox: "a", Namespace: "n", Port: 80, Path: "/", SandboxUID: "S-a", Hint: hint}},
		{"headers agree with the path", request{"/s/n/a/80/", "x-sandbox-id=a", "x-sandbox-namespace=n", "x-sandbox-port=80"}, identity.Claim{Sandbox: "a", Namespace: "n", Port: 80, Path: "/"}},
	} {
		if got, err := routes.Claim(tc.in); err != nil || got != tc.want {
			t.Errorf("%s: %+v, %v", tc.what, got, err)
		}
	}
}

func TestBadClaims(t *testing.T) {
	routes := agentsandbox.DefaultRoutes()
	routes.PathPrefix = "/s"
	const missing, malformed, conflict = identity.ClaimMissing, identity.ClaimMalformed, identity.ClaimConflict
	for _, tc := range []struct {
		what   string
		in     request
		want   identity.ClaimFault
		detail string
	}{
		{"nothing", nil, missing, "x-sandbox-id is not in the request"},
		{"all but the id", request{"x-sandbox-namespace=n", "x-sandbox-port=80"}, missing, "x-sandbox-id"},
		{"an empty id", request{"x-sandbox-id="}, malformed, `x-sandbox-id is ""`},
		{"a name of DNS", request{"x-sandbox-id=a.evil.example.org"}, malformed, "DNS label"},
		{"a path", request{"x-sandbox-id=../a"}, malformed, "DNS label"},
		{"64 bytes", request{"x-sandbox-id=" + strings.Repeat("a", 64)}, malformed, "DNS label"},
		{"a dash at the end", request{"x-sandbox-id=a-"}, malformed, "DNS label"},
		{"an empty namespace, which the Go router takes for the default", request{"x-sandbox-id=a", "x-sandbox-namespace="}, malformed, "x-sandbox-namespace"},
		{"two namespaces", request{"x-sandbox-id=a", "x-sandbox-namespace=n,m"}, conflict, "x-sandbox-namespace"},
		{"an empty port", request{"x-sandbox-id=a", "x-sandbox-port="}, malformed, "x-sandbox-port"},
		{"no port", request{"x-sandbox-id=a", "x-sandbox-port=http"}, malformed, "x-sandbox-port"},
		{"an empty uid", request{"x-sandbox-id=a", "x-sandbox-uid="}, malformed, "x-sandbox-uid"},
		{"no uid", request{"x-sandbox-id=a", "x-sandbox-uid=a b"}, malformed, "x-sandbox-uid"},
		{"an empty hint, which the routers take for none", request{"x-sandbox-id=a", "x-sandbox-pod-ip="}, malformed, "x-sandbox-pod-ip"},
		{"a hint that is a name", request{"x-sandbox-id=a", "x-sandbox-pod-ip=localhost"}, malformed, "x-sandbox-pod-ip"},
		{"a hint in another form", request{"x-sandbox-id=a", "x-sandbox-pod-ip=FD00::1"}, malformed, `canonical form, which is "fd00::1"`},
		{"the prefix and a slash", request{"/s/", "x-sandbox-id=a"}, malformed, "/s/<namespace>/<id>/<port>/"},
		{"half a path is not made up for by headers", request{"/s/n/a", "x-sandbox-id=a", "x-sandbox-port=80"}, malformed, "path"},
		{"no port in the path, which has no default", request{"/s/n/a//x"}, malformed, "port"},
		{"a port with a query in the way", request{"/s/n/a?/80/"}, malformed, "path"},
		{"another id", request{"/s/n/a/80/", "x-sandbox-id=b"}, conflict, "x-sandbox-id says b, the path says a"},
		{"another namespace", request{"/s/n/a/80/", "x-sandbox-namespace=default"}, conflict, "x-sandbox-namespace"},
		{"another port", request{"/s/n/a/80/", "x-sandbox-port=8888"}, conflict, "x-sandbox-port"},
		{"a hostile value fills nothing", request{"x-sandbox-id=" + strings.Repeat("ä", 5000)}, malformed, "…"},
	} {
		c, err := routes.Claim(tc.in)
		wrong, ok := errors.AsType[*identity.ClaimError](err)
		if !ok || wrong.Fault != tc.want || !strings.Contains(wrong.Detail, tc.detail) || len(wrong.Detail) > 400 || c != (identity.Claim{}) {
			t.Errorf("%s: %+v, %v", tc.what, c, err)
		}
	}
}

// TestNoPathForm: without a prefix every path is the Pod's.
func TestNoPathForm(t *testing.T) {
	for _, path := range []string{"/", "/n/a/80/x", "//n/a/80"} {
		if c, err := agentsandbox.DefaultRoutes().Claim(request{path, "x-sandbox-id=b"}); err != nil || c.Sandbox != "b" || c.Path != "" {
			t.Errorf("%s: %+v, %v", path, c, err)
		}
	}
}

func TestRoutesValidate(t *testing.T) {
	for _, tc := range []struct {
		routes agentsandbox.Routes
		ok     bool
	}{
		{agentsandbox.DefaultRoutes(), true},
		{agentsandbox.Routes{DefaultNamespace: "n", DefaultPort: 80, PathPrefix: "/router/s_1.0~"}, true},
		{agentsandbox.Routes{}, false},
		{agentsandbox.Routes{DefaultNamespace: "n"}, false},
		{agentsandbox.Routes{DefaultNamespace: "N", DefaultPort: 80}, false},
		{agentsandbox.Routes{DefaultNamespace: "n", DefaultPort: 80, PathPrefix: "/"}, false},
		{agentsandbox.Routes{DefaultNamespace: "n", DefaultPort: 80, PathPrefix: "s"}, false},
		{agentsandbox.Routes{DefaultNamespace: "n", DefaultPort: 80, PathPrefix: "/s/"}, false},
		{agentsandbox.Routes{DefaultNamespace: "n", DefaultPort: 80, PathPrefix: "/s//t"}, false},
		{agentsandbox.Routes{DefaultNamespace: "n", DefaultPort: 80, PathPrefix: "/s/../t"}, false},
		{agentsandbox.Routes{DefaultNamespace: "n", DefaultPort: 80, PathPrefix: "/s t"}, false},
		{agentsandbox.Routes{DefaultNamespace: "n", DefaultPort: 80, PathPrefix: "/%73"}, false},
		{agentsandbox.Routes{DefaultNamespace: "n", DefaultPort: 80, PathPrefix: "/s?x"}, false},
	} {
		if err := tc.routes.Validate(); (err == nil) != tc.ok {
			t.Errorf("%+v: %v", tc.routes, err)
		}
	}
}

func FuzzRoute(f *testing.F) {
	f.Add("/s/n/a/80/x?y", "a", "n", "80", "S-a", "10.0.0.1", "/s")
	f.Add("/x", "b", "", "", "", "::1", "")
	f.Add("/s/n/a/80", "", "", "+80", "", "fe80::1%eth0", "/s")
	f.Fuzz(func(t *testing.T, path, id, namespace, port, uid, ip, prefix string) {
		routes := agentsandbox.DefaultRoutes()
		routes.PathPrefix = prefix
		if routes.Validate() != nil {
			return
		}
		in := request{"/" + strings.TrimPrefix(path, "/")}
		for name, value := range map[string]string{"id": id, "namespace": namespace, "port": port, "uid": uid, "pod-ip": ip} {
			if value != "" {
				in = append(in, "x-sandbox-"+name+"="+value)
			}
		}
		c, err := routes.Claim(in)
		if err != nil {
			if _, ok := errors.AsType[*identity.ClaimError](err); !ok || c != (identity.Claim{}) {
				t.Errorf("%q: %+v, %v", in, c, err)
			}
			return
		}
		if _, err := identity.NewNamespacedName(c.Namespace, c.Sandbox); err != nil || c.Port == 0 || c.Recorded.IsValid() || c.Pod != (identity.NamespacedName{}) || c.Hint.Zone() != "" || c.Hint.Is4In6() {
			t.Errorf("%q: %+v, %v", in, c, err)
		}
		if id != "" && c.Sandbox != id || namespace != "" && c.Namespace != namespace || c.Path != "" && !strings.HasSuffix(in.Path(), strings.TrimPrefix(c.Path, "/")) {
			t.Errorf("%q is heard as %+v", in, c)
		}
	})
}
