package hazard_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/samepod/samepod/envoy"
	"github.com/samepod/samepod/envoy/hazard"
)

// TestDialects: what other dialects need of Envoy is no finding where it is meant, and
// is one where it is not there, or not meant.
func TestDialects(t *testing.T) {
	meant := hazard.Options{Version: "1.40", ClaimHeaders: []string{"x-sandbox-id"}, PrivateHeaders: []string{"authorization"}, SetsPath: true, SetsHost: true}
	p := envoy.DefaultParams()
	p.ClaimHeaders, p.PrivateHeaders = meant.ClaimHeaders, meant.PrivateHeaders
	p.SetsPath, p.PathHardening, p.SetsHost = true, true, true
	text, err := envoy.Bootstrap(p)
	if err != nil {
		t.Fatal(err)
	}
	plain := meant
	plain.SetsPath, plain.SetsHost = false, false
	for _, tc := range []struct {
		what     string
		old, new string // in the rendering
		options  hazard.Options
		want     []string
	}{
		{"as it is meant", "", "", meant, nil},
		{"more than is meant", "", "", plain, []string{"mutation-rules"}},
		{"less than is meant", "|:authority", "", meant, []string{"mutation-rules"}},
		{"any header", `"^(x-samepod-pod-uid|:path|:authority)$"`, `".*"`, meant, []string{"mutation-rules"}},
		{"a private header for Pods", `"x-sandbox-id", "authorization", `, `"x-sandbox-id", `, meant, []string{"claim-headers"}},
		{"paths as they come", "normalize_path: true", "normalize_path: false", meant, []string{"path-form"}},
		{"two slashes", "merge_slashes: true", "merge_slashes: false", meant, []string{"path-form"}},
		{"escaped slashes", "path_with_escaped_slashes_action: REJECT_REQUEST", "path_with_escaped_slashes_action: KEEP_UNCHANGED", meant, []string{"path-form"}},
		{"underscores", "{ headers_with_underscores_action: REJECT_REQUEST }", "{}", meant, []string{"path-form"}},
		{"paths as they come, where no path is read", "normalize_path: true", "normalize_path: false", plain, []string{"mutation-rules"}},
	} {
		if n := bytes.Count(text, []byte(tc.old)); tc.old != "" && n != 1 {
			t.Fatalf("%s: %q is there %d times", tc.what, tc.old, n)
		}
		changed := bytes.Replace(text, []byte(tc.old), []byte(tc.new), 1)
		r, err := hazard.Check(changed, tc.options)
		var got []string
		for _, f := range r.Findings {
			got = append(got, f.Rule)
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v; want %v", tc.what, r.Findings, err, tc.want)
		}
	}
}
