package main

import (
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// TestBuildOf: what is told of a binary that was built in each of the ways in which
// people build it.
func TestBuildOf(t *testing.T) {
	vcs := func(version, revision, modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}}
	}
	for _, tc := range []struct {
		name              string
		info              *debug.BuildInfo
		version, revision string // stamped
		want              build
	}{
		{"go build without git", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "", "", build{Version: "development", Revision: "unknown"}},
		{"no build information", &debug.BuildInfo{}, "", "", build{Version: "development", Revision: "unknown"}},
		{"go build on a tag", vcs("v1.2.3", "c0ffee", "false"), "", "", build{Version: "v1.2.3", Revision: "c0ffee"}},
		{"go build with changes", vcs("v1.2.3+dirty", "c0ffee", "true"), "", "", build{Version: "v1.2.3+dirty", Revision: "c0ffee", Dirty: true}},
		{"a release", vcs("v0.0.0-20261130-c0ffee", "c0ffee", "false"), "v1.2.3", "", build{Version: "v1.2.3", Revision: "c0ffee"}},
		{"an image that is built without .git", &debug.BuildInfo{}, "v1.2.3", "c0ffee", build{Version: "v1.2.3", Revision: "c0ffee"}},
		{"a stamp does not hide changes", vcs("v1.2.3+dirty", "c0ffee", "true"), "v1.2.3", "c0ffee", build{Version: "v1.2.3", Revision: "c0ffee", Dirty: true}},
	} {
		tc.want.Go = runtime.Version()
		if got := buildOf(tc.info, tc.version, tc.revision); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// TestBuildInfoMetric: the metric says what the command says.
func TestBuildInfoMetric(t *testing.T) {
	i := startServe(t, "scope: {namespaces: [ns]}\nports: any\n")
	_, metrics := i.get(i.start.Health, "/metrics")
	b := thisBuild()
	want := `samepod_build_info{dirty="` + strconv.FormatBool(b.Dirty) + `",goversion="` + b.Go + `",revision="` + b.Revision + `",version="` + b.Version + `"} 1`
	if !strings.Contains(metrics, want) {
		t.Errorf("no %s in\n%s", want, metrics)
	}
}
