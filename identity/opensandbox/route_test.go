package opensandbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/opensandbox"
)

const (
	routeHeader    = "opensandbox-ingress-to"
	oldRouteHeader = "open-sandbox-ingress"
	accessHeader   = "opensandbox-secure-access"
)

// to has the route in its header, with pairs of other headers.
func to(route string, pairs ...string) request {
	r := request{host: "gateway", headers: map[string]string{routeHeader: route}}
	for i := 0; i < len(pairs); i += 2 {
		r.headers[pairs[i]] = pairs[i+1]
	}
	return r
}

// TestHeaderRoutes is the mode header, one request a line. A route has no more of an
// error than its fault.
func TestHeaderRoutes(t *testing.T) {
	const missing, malformed, conflict = "missing", "malformed", "conflict"
	plain := func(id string, port uint16) identity.Claim { return identity.Claim{Sandbox: id, Port: port} }
	signed := func(id string, port uint16, expires, signature string) identity.Claim {
		c := plain(id, port)
		c.Access = identity.Access{Expires: expires, Signature: signature}
		return c
	}
	withToken := func(c identity.Claim, token identity.Secret) identity.Claim {
		c.Access.Token = token
		return c
	}
	for _, tc := range []struct {
		rule string
		req  request
		want identity.Claim
		err  string
	}{
		{"the header", to("a-80"), plain("a", 80), ""},
		{"the header before the old one", to("a-80", oldRouteHeader, "b-81"), plain("a", 80), ""},
		{"the old one before Host", request{host: "c-82.gw", headers: map[string]string{oldRouteHeader: "b-81"}}, plain("b", 81), ""},
		{"Host", request{host: "c-82.gw"}, plain("c", 82), ""},
		{"a header with '_' is another one", request{host: "c-82.gw", headers: map[string]string{"opensandbox_ingress_to": "b-81", "open_sandbox_ingress": "b-81"}}, plain("c", 82), ""},
		{"split from the right", to("aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa-44772"), plain("aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa", 44772), ""},
		{"an id that ends as a port does", to("a-80-44772"), plain("a-80", 44772), ""},
		{"the first label of a name", to("a-80.gw.example"), plain("a", 80), ""},
		{"http://", to("http://a-80.gw"), plain("a", 80), ""},
		{"https://", to("https://a-80.gw/path"), plain("a", 80), ""},
		{"https:// and http://, as the ingress has it", to("https://http://a-80"), plain("a", 80), ""},
		{"http:// and https://, likewise not", to("http://https://a-80"), identity.Claim{}, malformed},
		{"another scheme", to("ftp://a-80"), identity.Claim{}, malformed},
		{"case counts in the header", to("A-80"), plain("A", 80), ""},
		{"but not in Host", request{host: "A-80.GW"}, plain("a", 80), ""},
		{"and a letter that only Unicode folds is none", request{host: "\u212a-80.gw"}, identity.Claim{}, malformed},
		{"a port in Host", request{host: "a-80.gw:8080"}, plain("a", 80), ""},
		{"a port in Host right behind the route", request{host: "a-80:8080"}, plain("a", 80), ""},
		{"a trailing dot", request{host: "a-80."}, plain("a", 80), ""},
		{"a port in the header", to("a-80:8080"), identity.Claim{}, malformed},
		{"the highest port", to("a-65535"), plain("a", 65535), ""},

		{"signed", to("a-80-1a2b3c-01234567a"), signed("a", 80, "1a2b3c", "01234567a"), ""},
		{"signed, an id with dashes", to("a-b-8080-1a2b3c-abcdef12k"), signed("a-b", 8080, "1a2b3c", "abcdef12k"), ""},
		{"signed, in Host", request{host: "a-80-1a2b3c-01234567a.gw"}, signed("a", 80, "1a2b3c", "01234567a"), ""},
		{"signed, an id that looks signed", to("a-80-1a2b3c-01234567a-81-0-76543210b"), signed("a-80-1a2b3c-01234567a", 81, "0", "76543210b"), ""},
		{"signed, upper case in Host", request{host: "A-80-1A2B3C-01234567A"}, signed("a", 80, "1a2b3c", "01234567a"), ""},
		{"signed, with a token beside", to("a-80-0-01234567a", accessHeader, "t"), withToken(signed("a", 80, "0", "01234567a"), "t"), ""},
		{"a token", to("a-80", accessHeader, " t "), withToken(plain("a", 80), "t"), ""},
		{"three parts behind an id are no signed route", to("a-1a2b3c-01234567a"), identity.Claim{}, malformed},
		{"a signature that is too short", to("a-80-1a2b3c-0123456a"), identity.Claim{}, malformed},
		{"a signature in upper case", to("a-80-1a2b3c-0123456Aa"), identity.Claim{}, malformed},
		{"expires with leading zeros", to("a-80-01-01234567a"), identity.Claim{}, malformed},
		{"expires beyond 64 bits", to("a-80-3w5e11264sgsg-01234567a"), identity.Claim{}, malformed},
		{"expires with 64 bits", to("a-80-3w5e11264sgsf-01234567a"), signed("a", 80, "3w5e11264sgsf", "01234567a"), ""},
		{"a signed route's port that the ingress would look for elsewhere", to("a-99999-0-123456789"), identity.Claim{}, malformed},

		{"no host at all", request{}, identity.Claim{}, missing},
		{"an address for a host", request{host: "10.0.0.1:8080"}, identity.Claim{}, malformed},
		{"a name for a host", request{host: "gateway"}, identity.Claim{}, malformed},
		{"an empty header", to(""), identity.Claim{}, malformed},
		{"an empty old header", request{host: "a-80", headers: map[string]string{oldRouteHeader: ""}}, identity.Claim{}, malformed},
		{"a header twice", request{host: "a-80", repeated: routeHeader}, identity.Claim{}, conflict},
		{"the old header twice", request{host: "a-80", repeated: oldRouteHeader}, identity.Claim{}, conflict},
		{"two tokens", request{host: "a-80", repeated: accessHeader}, identity.Claim{}, conflict},
		{"an empty token", to("a-80", accessHeader, " "), identity.Claim{}, malformed},
		{"no id", to("-80"), identity.Claim{}, malformed},
		{"no port", to("a-"), identity.Claim{}, malformed},
		{"port 0", to("a-0"), identity.Claim{}, malformed},
		{"a leading zero", to("a-080"), identity.Claim{}, malformed},
		{"a sign, which the ingress takes", to("a-+80"), identity.Claim{}, malformed},
		{"above 65535, which the ingress dials", to("a-99999"), identity.Claim{}, malformed},
		{"digits of another script", to("a-８０"), identity.Claim{}, malformed},
		{"a space", to("a -80"), identity.Claim{}, malformed},
		{"an id that begins with a dash", to("-a-80"), identity.Claim{}, malformed},
		{"an id that ends with one", to("a--80"), identity.Claim{}, malformed},
		{"a slash in the id", to("ns/a-80"), identity.Claim{}, malformed},
		{"an id that is too long", to(strings.Repeat("a", 254) + "-80"), identity.Claim{}, malformed},
	} {
		checkClaim(t, tc.rule, opensandbox.Routes{}, tc.req, tc.want, tc.err)
	}
}

// TestURIRoutes is the mode uri, one path a line.
func TestURIRoutes(t *testing.T) {
	const missing, malformed = "missing", "malformed"
	to := func(path string) identity.Claim { return identity.Claim{Sandbox: "a", Port: 80, Path: path} }
	signed := func(path, stripped string) identity.Claim {
		c := to(path)
		c.Access = identity.Access{Expires: "1a2b3c", Signature: "01234567a", Path: stripped}
		return c
	}
	for _, tc := range []struct {
		path string
		want identity.Claim
		err  string
	}{
		{"/a/80/command", to("/command"), ""},
		{"/a/80/", to("/"), ""},
		{"/a/80", to("/"), ""},
		{"/a/80?x=1", to("/?x=1"), ""},
		{"/a/80/?x=1", to("/?x=1"), ""},
		{"/a/80/files/download?path=/etc/../%2Fx//y", to("/files/download?path=/etc/../%2Fx//y"), ""},
		{"/a/80/b/81/command", to("/b/81/command"), ""},
		{"/a/80/my%20file", to("/my%20file"), ""},
		{"/a/80/v1.2/..x/.y", to("/v1.2/..x/.y"), ""},
		{"/a/80/1a2b3c/01234567a/command", signed("/1a2b3c/01234567a/command", "/command"), ""},
		{"/a/80/1a2b3c/01234567a", signed("/1a2b3c/01234567a", "/"), ""},
		{"/a/80/1a2b3c/01234567a?x=1", signed("/1a2b3c/01234567a?x=1", "/?x=1"), ""},
		{"/a/80/1a2b3c/01234567A/command", to("/1a2b3c/01234567A/command"), ""},
		{"/a/80/01a2b3c/01234567a/command", to("/01a2b3c/01234567a/command"), ""},
		{"/a/80/1a2b3c?/01234567a", to("/1a2b3c?/01234567a"), ""},

		{"", identity.Claim{}, missing},
		{"*", identity.Claim{}, malformed},
		{"a/80", identity.Claim{}, malformed},
		{"http://gateway/a/80", identity.Claim{}, malformed},
		{"/", identity.Claim{}, malformed},
		{"/a", identity.Claim{}, malformed},
		{"/a/", identity.Claim{}, malformed},
		{"/a?/80", identity.Claim{}, malformed},
		{"//80", identity.Claim{}, malformed},
		{"//a/80/x", identity.Claim{}, malformed},
		{"/a//80/x", identity.Claim{}, malformed},
		{"/a/80//x", identity.Claim{}, malformed},
		{"/a/80/x//y", identity.Claim{}, malformed},
		{"/a/080/x", identity.Claim{}, malformed},
		{"/a/+80/x", identity.Claim{}, malformed},
		{"/a/0/x", identity.Claim{}, malformed},
		{"/a/65536/x", identity.Claim{}, malformed},
		{"/a/80/../../b/81/x", identity.Claim{}, malformed},
		{"/../a/80/x", identity.Claim{}, malformed},
		{"/a/80/./x", identity.Claim{}, malformed},
		{"/a/80/x/..", identity.Claim{}, malformed},
		{"/a/80/.", identity.Claim{}, malformed},
		{"/a/80/%2e%2e/x", identity.Claim{}, malformed},
		{"/a/80/x%2Fy", identity.Claim{}, malformed},
		{"/a/80/x%5cy", identity.Claim{}, malformed},
		{"/a/80/x%252Fy", identity.Claim{}, malformed},
		{"/a/80/x%00", identity.Claim{}, malformed},
		{"/a/80/x%2", identity.Claim{}, malformed},
		{"/a/80/x%zz", identity.Claim{}, malformed},
		{"/%61/80/x", identity.Claim{}, malformed},
		{"/a/8%30/x", identity.Claim{}, malformed},
		{`/a/80\x`, identity.Claim{}, malformed},
		{`/a/80/x\..\y`, identity.Claim{}, malformed},
		{"/a/80/x#y", identity.Claim{}, malformed},
		{"/a/80/x y", identity.Claim{}, malformed},
		{"/a/80/ü", identity.Claim{}, malformed},
	} {
		// In this mode nothing else in a request says anything.
		req := request{host: "b-81", path: tc.path, headers: map[string]string{routeHeader: "c-82"}}
		checkClaim(t, tc.path, opensandbox.Routes{Mode: opensandbox.URIMode}, req, tc.want, tc.err)
	}
}

func checkClaim(t *testing.T, rule string, routes opensandbox.Routes, req request, want identity.Claim, fault string) {
	want.HidesHost = want != identity.Claim{} // of every claim
	t.Helper()
	got, err := routes.Claim(req)
	e, _ := errors.AsType[*identity.ClaimError](err)
	switch {
	case err != nil && e == nil:
		t.Errorf("%s: not a ClaimError: %v", rule, err)
	case e == nil && fault != "", e != nil && fault != [...]string{"missing", "malformed", "conflict"}[e.Fault]:
		t.Errorf("%s: %v, want %q", rule, err, fault)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(identity.Claim{})); diff != "" {
		t.Errorf("%s: %+v, want %+v", rule, got, want)
	}
}

// TestErrorsKeepSecrets: a route and a token let their bearer in, so no error, which the
// caller's log may have, repeats them.
func TestErrorsKeepSecrets(t *testing.T) {
	const secret = "deadbeefz"
	for _, req := range []request{
		to("a-99999-1a2b3c-" + secret), to("a b-80-1a2b3c-" + secret),
		{path: "/a/0/1a2b3c/" + secret}, {path: "/a/80//1a2b3c/" + secret},
	} {
		for _, mode := range []opensandbox.Mode{opensandbox.HeaderMode, opensandbox.URIMode} {
			if _, err := (opensandbox.Routes{Mode: mode}).Claim(req); err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%v", err)
			}
		}
	}
}

func TestParseMode(t *testing.T) {
	for _, mode := range []opensandbox.Mode{opensandbox.HeaderMode, opensandbox.URIMode} {
		if got, err := opensandbox.ParseMode(mode.String()); got != mode || err != nil {
			t.Errorf("%v: %v, %v", mode, got, err)
		}
	}
	for _, text := range []string{"", "wildcard", "Header", "2"} {
		if _, err := opensandbox.ParseMode(text); err == nil {
			t.Errorf("%q is a mode", text)
		}
	}
}

// FuzzRoute: a route that is taken is the one text of what it says, so that whoever
// splits it from the right sees the same.
func FuzzRoute(f *testing.F) {
	for _, route := range []string{"a-80", "a-80-0-01234567a", "https://a-80.gw", "a-b-80-1a2b3c-01234567a", "/a/80/x?y", "/a/80/0/01234567a/x", "//", "%"} {
		f.Add(route)
	}
	f.Fuzz(func(t *testing.T, route string) {
		label, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(route, "https://"), "http://"), ".")
		host, _, _ := strings.Cut(strings.ToLower(label), ":")
		for i, req := range []request{to(route), {host: route}} {
			want := []string{label, host}[i]
			c, err := opensandbox.Routes{}.Claim(req)
			if err != nil {
				continue
			}
			text := c.Sandbox + "-" + itoa(c.Port)
			if c.Access.Signature != "" {
				text += "-" + c.Access.Expires + "-" + c.Access.Signature
			}
			if text != want || c.Path != "" || c.Access.Path != "" {
				t.Errorf("%+v: %+v", req, c)
			}
		}
		if c, err := (opensandbox.Routes{Mode: opensandbox.URIMode}).Claim(request{path: route}); err == nil {
			prefix := "/" + c.Sandbox + "/" + itoa(c.Port)
			if text := prefix + c.Path; text != route && text != strings.Replace(route, prefix, prefix+"/", 1) {
				t.Errorf("%q: %+v", route, c)
			}
			if a := c.Access; a.Signature != "" {
				if text := "/" + a.Expires + "/" + a.Signature + a.Path; text != c.Path && !strings.HasSuffix(c.Path, a.Signature+a.Path[1:]) {
					t.Errorf("%q: %+v", route, c)
				}
			}
		}
	})
}

// TestNoRenewal: a caller may ask that a use does not count.
func TestNoRenewal(t *testing.T) {
	for value, want := range map[string]bool{"": false, "skip": true, "Skip": false, "no": false} {
		req := to("a-80")
		if value != "" {
			req.headers["opensandbox-access-renew"] = value
		}
		got, err := opensandbox.Routes{}.Claim(req)
		if err != nil || got.NoRenewal != want {
			t.Errorf("%q: %+v, %v", value, got, err)
		}
	}
}
