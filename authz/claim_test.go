package authz

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/samepod/samepod/identity"
)

// set gives a header this value; "" removes it (Envoy has no other way to say
// that a header is absent; an empty value is setEmpty).
func set(name, value string) func(*authv3.AttributeContext) {
	return func(a *authv3.AttributeContext) {
		if value == "" {
			delete(a.GetRequest().GetHttp().GetHeaders(), name)
			return
		}
		a.Request.Http.Headers[name] = value
	}
}

func setEmpty(name string) func(*authv3.AttributeContext) {
	return func(a *authv3.AttributeContext) { a.Request.Http.Headers[name] = "" }
}

// raw moves every header to the list encoding, as encode_raw_headers does, and
// adds these name, value pairs.
func raw(more ...string) func(*authv3.AttributeContext) {
	return func(a *authv3.AttributeContext) {
		http := a.GetRequest().GetHttp()
		http.HeaderMap = &corev3.HeaderMap{}
		add := func(k, v string) {
			http.HeaderMap.Headers = append(http.HeaderMap.Headers, &corev3.HeaderValue{Key: k, RawValue: []byte(v)})
		}
		for k, v := range http.GetHeaders() {
			add(k, v)
		}
		http.Headers = nil
		for i := 0; i < len(more); i += 2 {
			add(more[i], more[i+1])
		}
	}
}

func extension(key, value string) func(*authv3.AttributeContext) {
	return func(a *authv3.AttributeContext) {
		if a.ContextExtensions == nil {
			a.ContextExtensions = map[string]string{}
		}
		a.ContextExtensions[key] = value
	}
}

func withMetadata(namespace string, fields map[string]any) func(*authv3.AttributeContext) {
	return func(a *authv3.AttributeContext) {
		s, err := structpb.NewStruct(fields)
		if err != nil {
			panic(err)
		}
		a.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{namespace: s}}
	}
}

const (
	target, expectUID, recordedAt, portHeader = "x-samepod-target", "x-samepod-expect-pod-uid", "x-samepod-recorded", "x-samepod-port"
)

// TestClaim changes one thing of a valid request a line.
func TestClaim(t *testing.T) {
	type change = func(*authv3.AttributeContext)
	for _, tc := range []struct {
		rule    string
		changes []change
		want    Reason // SamePod: the claim is read
		detail  string // part of what the caller is told
	}{
		{"valid", nil, SamePod, ""},
		{"valid, raw headers", []change{raw()}, SamePod, ""},
		{"valid, header name in capitals", []change{set(target, ""), raw("X-Samepod-Target", "ns/a")}, SamePod, ""},
		{"port alone", []change{set(recordedAt, ""), set(portHeader, "80")}, SamePod, ""},
		{"port agrees", []change{set(portHeader, "80")}, SamePod, ""},

		{"no target", []change{set(target, "")}, ClaimMissing, "header x-samepod-target"},
		{"no uid", []change{set(expectUID, "")}, ClaimMissing, "header x-samepod-expect-pod-uid"},
		{"no port", []change{set(recordedAt, "")}, ClaimMissing, "neither header x-samepod-recorded nor header x-samepod-port"},

		{"empty target", []change{setEmpty(target)}, ClaimMalformed, "is empty"},
		{"empty uid", []change{setEmpty(expectUID)}, ClaimMalformed, "is empty"},
		{"empty recorded", []change{setEmpty(recordedAt), set(portHeader, "80")}, ClaimMalformed, "is empty"},
		{"empty port", []change{setEmpty(portHeader)}, ClaimMalformed, "is empty"},
		{"target without namespace", []change{set(target, "a")}, ClaimMalformed, `"a": must be <namespace>/<pod>`},
		{"target in capitals", []change{set(target, "ns/A")}, ClaimMalformed, "DNS subdomain"},
		{"target is an address", []change{set(target, "10.0.0.1")}, ClaimMalformed, "must be <namespace>/<pod>"},
		{"target is a URL", []change{set(target, "http://ns/a")}, ClaimMalformed, "DNS label"},
		{"uid with a space", []change{set(expectUID, "U a")}, ClaimMalformed, "a uid has only"},
		{"recorded is a name", []change{set(recordedAt, "pod-a.ns.svc:80")}, ClaimMalformed, "must be <ip>:<port>"},
		{"recorded has no port", []change{set(recordedAt, addrX)}, ClaimMalformed, "must be <ip>:<port>"},
		{"recorded is mapped", []change{set(recordedAt, "[::ffff:10.0.0.1]:80")}, ClaimMalformed, `canonical is "10.0.0.1:80"`},
		{"recorded has a zone", []change{set(recordedAt, "[fe80::1%eth0]:80")}, ClaimMalformed, "no zone"},
		{"recorded has a padded port", []change{set(recordedAt, "10.0.0.1:080")}, ClaimMalformed, `canonical form, which is "10.0.0.1:80"`},
		{"recorded is unspecified", []change{set(recordedAt, "0.0.0.0:80")}, ClaimMalformed, "unspecified"},
		{"recorded is empty of an address", []change{set(recordedAt, ":80")}, ClaimMalformed, "must be <ip>:<port>"},
		{"port with a sign", []change{set(portHeader, "+80")}, ClaimMalformed, "1 to 65535"},
		{"port 0", []change{set(recordedAt, ""), set(portHeader, "0")}, ClaimMalformed, "1 to 65535"},
		{"NUL", []change{set(recordedAt, addrX+":80\x00")}, ClaimMalformed, `\x00`},
		{"not UTF-8", []change{set(target, ""), raw(target, "ns/\xff")}, ClaimMalformed, `\xff`},
		{"very long", []change{set(target, "ns/"+strings.Repeat("a", 10_000))}, ClaimMalformed, "aaa…"},

		{"target twice, joined", []change{set(target, "ns/a,ns/b")}, ClaimConflict, "header x-samepod-target occurs more than once"},
		{"target twice, the same", []change{set(target, "ns/a,ns/a")}, ClaimConflict, "more than once"},
		{"target twice, raw", []change{raw(target, "ns/b")}, ClaimConflict, "more than once"},
		{"target twice, raw, in capitals", []change{raw("X-SAMEPOD-TARGET", "ns/b")}, ClaimConflict, "more than once"},
		{"uid twice (knative#2046)", []change{raw(expectUID, "U-b")}, ClaimConflict, "more than once"},
		{"recorded list (kgateway#12414)", []change{set(recordedAt, addrX+":80,"+addrY+":80")}, ClaimConflict, "more than once"},
		{"port twice", []change{set(portHeader, "80, 80")}, ClaimConflict, "more than once"},
		{"a trailing comma", []change{set(target, "ns/a,")}, ClaimConflict, "more than once"},
		{"both encodings", []change{raw(), set2(target, "ns/a")}, ClaimConflict, "more than once"},
		{"two values in one entry", []change{raw(), func(a *authv3.AttributeContext) {
			for _, h := range a.GetRequest().GetHttp().GetHeaderMap().GetHeaders() {
				h.Value = "ns/b"
			}
		}}, ClaimConflict, "more than once"},
		{"two ports", []change{set(portHeader, "81")}, ClaimConflict, "says port 80, header x-samepod-port says port 81"},
	} {
		mapping := DefaultMapping()
		c, err := mapping.Claim(request(tc.changes...).GetAttributes())
		got := Verdict{Reason: SamePod}
		if err != nil {
			got = refuse(err)
		}
		if got.Reason != tc.want || !strings.Contains(got.Detail, tc.detail) {
			t.Errorf("%s: %v %q, want %v with %q", tc.rule, got.Reason, got.Detail, tc.want, tc.detail)
		}
		if (c != identity.Claim{}) != (tc.want == SamePod) {
			t.Errorf("%s: claim %+v beside %v", tc.rule, c, err)
		}
		if tc.want == SamePod && (c.Pod.String() != "ns/a" || c.UID != "U-a" || c.AnyUID || c.Port != 80 || !c.Authorized) {
			t.Errorf("%s: claim %+v", tc.rule, c)
		}
		if len(got.Detail) > 400 {
			t.Errorf("%s: a detail of %d bytes", tc.rule, len(got.Detail))
		}
	}
}

// set2 sets a header of the map after raw has emptied it.
func set2(name, value string) func(*authv3.AttributeContext) {
	return func(a *authv3.AttributeContext) { a.Request.Http.Headers = map[string]string{name: value} }
}

// TestClaimSources reads fields from everywhere they may stand.
func TestClaimSources(t *testing.T) {
	jwt := func(path string) Source { return Source{Metadata: MetadataPath{"envoy.filters.http.jwt_authn", path}} }
	mapped := Mapping{
		Target:   Source{ContextExtension: "pod"},
		UID:      jwt("payload/sandbox/uid"),
		Recorded: Source{Header: "x-addr"},
	}
	payload := func(uid any) func(*authv3.AttributeContext) {
		return withMetadata("envoy.filters.http.jwt_authn", map[string]any{"payload": map[string]any{"sandbox": map[string]any{"uid": uid}}})
	}
	ok := []func(*authv3.AttributeContext){extension("pod", "ns/a"), payload("U-a"), set("x-addr", addrX+":80")}
	for _, tc := range []struct {
		rule   string
		more   func(*authv3.AttributeContext)
		want   Reason
		detail string
	}{
		{"all there", nil, SamePod, ""},
		{"the default headers are nobody's", set(target, "ns/b"), SamePod, ""},
		{"a header of the extension's name is nobody's", set("pod", "ns/b"), SamePod, ""},
		{"no extension", func(a *authv3.AttributeContext) { a.ContextExtensions = nil }, ClaimMissing, "context extension pod"},
		{"an empty extension", extension("pod", ""), ClaimMalformed, "context extension pod is empty"},
		{"a joined extension", extension("pod", "ns/a,ns/b"), ClaimMalformed, "context extension pod"},
		{"no metadata", func(a *authv3.AttributeContext) { a.MetadataContext = nil }, ClaimMissing, "metadata envoy.filters.http.jwt_authn:payload/sandbox/uid"},
		{"metadata of another filter", withMetadata("other", map[string]any{"payload": "x"}), ClaimMissing, "payload/sandbox/uid"},
		{"metadata stops early", withMetadata("envoy.filters.http.jwt_authn", map[string]any{"payload": "x"}), ClaimMissing, "payload/sandbox/uid"},
		{"metadata is a number", payload(7.0), ClaimMalformed, "must be a string, is a number"},
		{"metadata is a list", payload([]any{"U-a"}), ClaimMalformed, "must be a string, is a list"},
		{"metadata is a boolean", payload(true), ClaimMalformed, "must be a string, is a boolean"},
		{"metadata is an object", payload(map[string]any{}), ClaimMalformed, "must be a string, is an object"},
		{"metadata is null", payload(nil), ClaimMalformed, "must be a string, is null"},
		{"metadata is empty", payload(""), ClaimMalformed, "is empty"},
	} {
		changes := ok
		if tc.more != nil {
			changes = append(append([]func(*authv3.AttributeContext){}, ok...), tc.more)
		}
		c, err := mapped.Claim(request(changes...).GetAttributes())
		got := Verdict{Reason: SamePod}
		if err != nil {
			got = refuse(err)
		} else if c.Pod.Name != "a" || c.UID != "U-a" || c.Recorded.String() != addrX+":80" {
			t.Errorf("%s: claim %+v", tc.rule, c)
		}
		if got.Reason != tc.want || !strings.Contains(got.Detail, tc.detail) {
			t.Errorf("%s: %v %q, want %v with %q", tc.rule, got.Reason, got.Detail, tc.want, tc.detail)
		}
	}
}

func TestClaimOptionalUID(t *testing.T) {
	m := DefaultMapping()
	m.UIDOptional = true
	for _, tc := range []struct {
		rule    string
		change  func(*authv3.AttributeContext)
		want    Reason
		wantAny bool
	}{
		{"given", func(*authv3.AttributeContext) {}, SamePod, false},
		{"absent", set(expectUID, ""), SamePod, true},
		{"empty is not absent", setEmpty(expectUID), ClaimMalformed, false},
		{"malformed is not absent", set(expectUID, "U a"), ClaimMalformed, false},
	} {
		c, err := m.Claim(request(tc.change).GetAttributes())
		got := Verdict{Reason: SamePod}
		if err != nil {
			got = refuse(err)
		}
		if got.Reason != tc.want || c.AnyUID != tc.wantAny {
			t.Errorf("%s: %v, any %v; want %v, %v", tc.rule, got.Reason, c.AnyUID, tc.want, tc.wantAny)
		}
	}
}

// TestClaimAllowed: what a verified token says must equal what the caller names,
// and silence is not consent.
func TestClaimAllowed(t *testing.T) {
	m := DefaultMapping()
	m.Allowed = Source{Metadata: MetadataPath{"jwt", "pod"}}
	for _, tc := range []struct {
		rule   string
		change func(*authv3.AttributeContext)
		want   bool
	}{
		{"equal", withMetadata("jwt", map[string]any{"pod": "ns/a"}), true},
		{"another Pod", withMetadata("jwt", map[string]any{"pod": "ns/b"}), false},
		{"absent", func(*authv3.AttributeContext) {}, false},
		{"malformed", withMetadata("jwt", map[string]any{"pod": "*"}), false},
		{"not a string", withMetadata("jwt", map[string]any{"pod": []any{"ns/a"}}), false},
	} {
		if c, err := m.Claim(request(tc.change).GetAttributes()); err != nil || c.Authorized != tc.want {
			t.Errorf("%s: authorized %v, %v; want %v", tc.rule, c.Authorized, err, tc.want)
		}
	}
}

// FuzzClaim: whatever a caller writes into its headers, a claim that is read is
// in the one accepted form, and what is refused says why.
func FuzzClaim(f *testing.F) {
	f.Add("ns/a", "U-a", "10.0.0.1:80", "80")
	f.Add("ns/a,ns/b", "", "[fd00::1]:80", "")
	f.Add("", "U\x00", "[::ffff:10.0.0.1]:80", "080")
	mapping := DefaultMapping()
	f.Fuzz(func(t *testing.T, tgt, u, rec, port string) {
		req := request(raw())
		http := req.GetAttributes().GetRequest().GetHttp()
		http.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
			{Key: target, RawValue: []byte(tgt)}, {Key: expectUID, RawValue: []byte(u)}, {Key: recordedAt, RawValue: []byte(rec)}, {Key: portHeader, RawValue: []byte(port)},
		}}
		c, err := mapping.Claim(req.GetAttributes())
		if err != nil {
			v := refuse(err)
			if v.Reason.Status() != 400 || v.Detail == "" {
				t.Errorf("refused with %v %q", v.Reason, v.Detail)
			}
			resp := response(v, "d")
			if _, err := proto.Marshal(resp); err != nil {
				t.Errorf("the denial does not marshal: %v", err)
			}
			return
		}
		if c.Pod.String() != tgt || string(c.UID) != u || c.Recorded.IsValid() && c.Recorded.String() != rec {
			t.Errorf("%q %q %q %q was read as %+v", tgt, u, rec, port, c)
		}
	})
}
