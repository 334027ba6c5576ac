package authz

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/samepod/samepod/identity"
)

// TestReasons is the contract of design section 5: word and status of every
// reason there is.
func TestReasons(t *testing.T) {
	want := map[int]string{
		0:   "same-pod",
		409: "pod-gone pod-replaced pod-terminal pod-terminating ip-moved ip-ambiguous container-replaced sandbox-gone sandbox-replaced sandbox-ambiguous pod-shared unverifiable",
		404: "unknown-sandbox",
		403: "address-not-allowed port-not-allowed target-not-allowed",
		401: "access-denied",
		400: "claim-missing claim-malformed claim-conflict",
		503: "not-synced view-stale pod-not-ready not-assigned sandbox-suspended hint-stale overloaded internal",
	}
	got := map[int][]string{}
	for _, r := range Reasons() {
		got[r.Status()] = append(got[r.Status()], r.String())
		if r.Title() == "" || r.Detail() == "" {
			t.Errorf("%v has no text", r)
		}
	}
	for status, words := range want {
		w, g := strings.Fields(words), got[status]
		slices.Sort(w)
		slices.Sort(g)
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("status %d (-want +got):\n%s", status, diff)
		}
		delete(got, status)
	}
	if len(got) > 0 {
		t.Errorf("statuses beyond the contract: %v", got)
	}
	if Reason(0) != Internal {
		t.Error("the zero reason is not Internal")
	}
}

// denialHeaders are what a caller gets with a denial.
func denialHeaders(t *testing.T, options []*corev3.HeaderValueOption) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, o := range options {
		//nolint:staticcheck // deprecated, and what some Envoys read
		if o.GetAppend() == nil || o.GetAppend().GetValue() || o.GetAppendAction() != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			t.Errorf("header %s does not overwrite in both fields: %v", o.GetHeader().GetKey(), o)
		}
		if len(o.GetHeader().GetRawValue()) > 0 {
			t.Errorf("header %s uses raw_value, which Envoy ignores", o.GetHeader().GetKey())
		}
		got[o.GetHeader().GetKey()] = o.GetHeader().GetValue()
	}
	return got
}

func TestDenials(t *testing.T) {
	for _, r := range Reasons() {
		if r == SamePod {
			continue
		}
		resp := response(deny(r), "the-decision")
		if resp.GetStatus().GetCode() == 0 {
			t.Errorf("%v: status code 0 allows", r)
		}
		if got := int(resp.GetDeniedResponse().GetStatus().GetCode()); got != r.Status() || got < 400 {
			t.Errorf("%v: HTTP %d, want %d", r, got, r.Status())
		}
		if fields := resp.GetDynamicMetadata().GetFields(); len(fields) != 1 || fields[DecisionKey].GetStringValue() != "the-decision" {
			t.Errorf("%v: metadata %v; a denial has the decision and nothing else", r, fields)
		}
		want := map[string]string{
			"content-type": "application/problem+json", "cache-control": "no-store",
			"x-samepod-reason": r.String(), "x-samepod-decision": "the-decision",
		}
		if r.Status() == 503 {
			want["retry-after"] = "1"
		}
		if diff := cmp.Diff(want, denialHeaders(t, resp.GetDeniedResponse().GetHeaders())); diff != "" {
			t.Errorf("%v: headers (-want +got):\n%s", r, diff)
		}
		var body map[string]any
		if err := json.Unmarshal([]byte(resp.GetDeniedResponse().GetBody()), &body); err != nil {
			t.Fatalf("%v: %v", r, err)
		}
		wantBody := map[string]any{
			"type": "urn:samepod:reason:" + r.String(), "title": r.Title(), "status": float64(r.Status()),
			"detail": r.Detail(), "reason": r.String(), "decision": "the-decision", "forwarded": false, "code": r.String(), "message": r.String() + ": " + r.Detail(),
		}
		if diff := cmp.Diff(wantBody, body); diff != "" {
			t.Errorf("%v: body (-want +got):\n%s", r, diff)
		}
		if len(resp.GetDeniedResponse().GetBody()) > 4096 {
			t.Errorf("%v: Envoy would cut a body of %d bytes", r, len(resp.GetDeniedResponse().GetBody()))
		}
	}
}

func TestDetailReachesTheCaller(t *testing.T) {
	body := response(Verdict{Reason: ClaimMalformed, Detail: `header x is "<a>"`}, "d").GetDeniedResponse().GetBody()
	if want := `"detail":"header x is \"<a>\"",`; !strings.Contains(body, want) {
		t.Errorf("body %s lacks %s", body, want)
	}
}

func TestAllow(t *testing.T) {
	type fields map[string]string
	for _, tc := range []struct {
		upstream          string
		verdict           Verdict
		metadata, headers fields // besides the ones of every allow
	}{
		{"10.0.0.1:80", Verdict{}, nil, nil},
		{"[fd00::1]:44772", Verdict{}, nil, nil},
		{"10.0.0.1:80", Verdict{Path: "/rest?a=b"}, nil, fields{":path": "/rest?a=b"}},
		{"[fd00::1]:80", Verdict{OwnHost: true}, nil, fields{":authority": "[fd00::1]:80"}},
		{"10.0.0.1:80", Verdict{Sandbox: identity.NamespacedName{Namespace: "ns", Name: "sandbox-s"}, SandboxID: "s"}, fields{"samepod_sandbox": "ns/sandbox-s", "samepod_sandbox_id": "s"}, nil},
		{"10.0.0.1:80", Verdict{Sandbox: identity.NamespacedName{Namespace: "ns", Name: "s"}, SandboxID: "s", Renew: true}, fields{"samepod_sandbox": "ns/s", "samepod_sandbox_id": "s", "samepod_renew": "true"}, nil},
	} {
		v := tc.verdict
		v.Reason, v.Upstream, v.UID = SamePod, netip.MustParseAddrPort(tc.upstream), "U-a"
		metadata, headers := map[string]string{"samepod_upstream": tc.upstream, "samepod_pod_uid": "U-a", "samepod_decision": "the-decision"}, map[string]string{"x-samepod-pod-uid": "U-a"}
		maps.Copy(metadata, tc.metadata)
		maps.Copy(headers, tc.headers)
		resp := response(v, "the-decision")
		if resp.GetStatus() == nil || resp.GetStatus().GetCode() != 0 || resp.GetOkResponse() == nil {
			t.Errorf("%s: %v is no allow", tc.upstream, resp)
		}
		got := map[string]string{}
		for k, v := range resp.GetDynamicMetadata().GetFields() {
			got[k] = v.GetStringValue()
		}
		if diff := cmp.Diff(metadata, got); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
		ok := resp.GetOkResponse()
		if diff := cmp.Diff(headers, denialHeaders(t, ok.GetHeaders())); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		//nolint:staticcheck // deprecated, and overriding our metadata where it is set
		if len(ok.GetHeadersToRemove())+len(ok.GetResponseHeadersToAdd())+len(ok.GetQueryParametersToSet())+len(ok.GetQueryParametersToRemove()) > 0 || ok.GetDynamicMetadata() != nil {
			t.Errorf("an allow sets more than it may: %v", ok)
		}
	}
}

// TestContradictoryVerdictsDeny: an allow that lacks its address or its uid is a
// mistake somewhere, and no allow. Without a uid Envoy would put the request into the
// pool of all requests without one.
func TestContradictoryVerdictsDeny(t *testing.T) {
	up := netip.MustParseAddrPort("10.0.0.1:80")
	for _, v := range []Verdict{
		{}, {Reason: SamePod}, {Reason: SamePod, Upstream: up}, {Reason: SamePod, UID: "U-a"}, {Reason: reasonEnd}, {Reason: 255}, {Reason: PodGone, Upstream: up, UID: "U-a"},
	} {
		resp := response(v, "d")
		if resp.GetStatus().GetCode() == 0 || resp.GetDeniedResponse() == nil || resp.GetDynamicMetadata().GetFields()[UpstreamKey] != nil {
			t.Errorf("%+v: %v", v, resp)
		}
	}
}

// TestOneMakerOfResponses reads the package's own source. An unset status allows,
// so no file but response.go may make a CheckResponse, it must not make one
// without a Status, and outside of it nobody may return one that response did not
// make.
func TestOneMakerOfResponses(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if sel, ok := n.Type.(*ast.SelectorExpr); !ok || sel.Sel.Name != "CheckResponse" {
					return true
				}
				made++
				status := slices.ContainsFunc(n.Elts, func(e ast.Expr) bool {
					kv, ok := e.(*ast.KeyValueExpr)
					return ok && kv.Key.(*ast.Ident).Name == "Status"
				})
				if name != "response.go" || !status {
					t.Errorf("%s: a CheckResponse is made here, with a status: %v", fset.Position(n.Pos()), status)
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "new" && strings.Contains(exprString(n.Args[0]), "CheckResponse") {
					t.Errorf("%s: an empty CheckResponse is made here", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
	if made != 2 {
		t.Errorf("%d makers of CheckResponse, want one for allows and one for denials", made)
	}
}

func exprString(e ast.Expr) string {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		return sel.Sel.Name
	}
	return ""
}
