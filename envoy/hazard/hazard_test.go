package hazard_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/samepod/samepod/envoy"
	"github.com/samepod/samepod/envoy/hazard"
)

var claims = []string{"x-samepod-target", "x-samepod-expect-pod-uid", "x-samepod-recorded", "x-samepod-port"}

// render is what samepod prints for a version and an arrangement.
func render(t *testing.T, v envoy.Version, u envoy.Arrangement) []byte {
	t.Helper()
	p := envoy.DefaultParams()
	p.Version, p.Upstream, p.AcceptUnasserted, p.ClaimHeaders = v, u, true, claims
	if u == envoy.Assert {
		p.Endpoints = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:44772")}
	}
	text, err := envoy.Bootstrap(p)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func options(v envoy.Version, u envoy.Arrangement) hazard.Options {
	return hazard.Options{Version: v.String(), Upstream: u, AcceptUnasserted: true, ClaimHeaders: claims}
}

func check(text []byte, o hazard.Options) ([]hazard.Finding, error) {
	r, err := hazard.Check(text, o)
	return r.Findings, err
}

// found is what a test compares: the rule and where.
func found(all []hazard.Finding) []string {
	var out []string
	for _, f := range all {
		out = append(out, f.Rule+" "+f.Place)
	}
	slices.Sort(out)
	return out
}

// TestNoFalseAlarms: what samepod renders has no hazard, told or guessed.
func TestNoFalseAlarms(t *testing.T) {
	for v := envoy.MinVersion; v <= envoy.MaxVersion; v++ {
		for _, u := range []envoy.Arrangement{envoy.Resolve, envoy.Assert, envoy.Both} {
			told := options(v, u)
			guessed := told
			guessed.Upstream = ""
			for _, o := range []hazard.Options{told, guessed} {
				r, err := hazard.Check(render(t, v, u), o)
				if err != nil || len(r.Findings) != 0 || len(r.Protected) != 1 {
					t.Errorf("%v %s, told %q: %v, %v", v, u, o.Upstream, err, r)
				}
			}
			if r, _ := hazard.Check(render(t, v, u), guessed); r.Upstream != u && (u != envoy.Both || v >= 39) {
				t.Errorf("%v %s looks like %s", v, u, r.Upstream)
			}
		}
	}
}

// TestGoldens: the goldens of the rendering have no hazard either.
func TestGoldens(t *testing.T) {
	files, err := filepath.Glob("../testdata/bootstrap-*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o := hazard.Options{Version: strings.Split(filepath.Base(file), "-")[1], AcceptUnasserted: true, ClaimHeaders: claims}
		if strings.Contains(file, "everything") {
			o.Cluster = "outbound|44772||sandboxes.svc"
		}
		o.Version = strings.TrimSuffix(o.Version, ".yaml")
		r, err := hazard.Check(text, o)
		if err != nil || len(r.Findings) != 0 || len(r.Protected) != 1 {
			t.Errorf("%s: %v, %v", file, err, fmt.Sprint(r))
		}
	}
}
