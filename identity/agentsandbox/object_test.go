package agentsandbox_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/agentsandbox"
	"github.com/samepod/samepod/identity/sandbox"
)

func TestDecode(t *testing.T) {
	want := sandbox.Sandbox{
		NamespacedName: named("a"), UID: "S-a", Version: "1", Kind: agentsandbox.Kind,
		Pods: []string{"a"}, Generation: seconds(t0),
		Expires:   time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		Published: []netip.Addr{netip.MustParseAddr("10.0.0.1"), {}, netip.MustParseAddr("fd00::1")},
		Pin:       pin0,
	}
	got := agentsandbox.Decode(object("a", "S-a",
		set("7f", "metadata", "labels", "opensandbox.io/id"),
		set("a", "metadata", "annotations", "agents.x-k8s.io/pod-name"),
		set("2026-12-01T00:00:00Z", "spec", "shutdownTime"),
		published("10.0.0.1", "", "fd00::1"), pinned(pin0)), nil)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(netip.Addr{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// TestStates: what one field makes of a Sandbox.
func TestStates(t *testing.T) {
	var (
		alpha    = set("agents.x-k8s.io/v1alpha1", "apiVersion")
		ended    = func(s sandbox.Sandbox) bool { return s.Ended }
		paused   = func(s sandbox.Sandbox) bool { return s.Suspended }
		waits    = func(s sandbox.Sandbox) bool { return s.Unassigned }
		deleting = func(s sandbox.Sandbox) bool { return s.Deleting }
	)
	owner := func(version, kind string) func(map[string]any) {
		return set([]any{map[string]any{"apiVersion": version, "kind": kind, "name": "p"}}, "metadata", "ownerReferences")
	}
	for _, tc := range []struct {
		what string
		edit func(map[string]any)
		is   func(sandbox.Sandbox) bool
		want bool
	}{
		{"Running", set("Running", "spec", "operatingMode"), paused, false},
		{"Suspended", suspended, paused, true},
		{"no mode", set(nil, "spec", "operatingMode"), paused, false},
		{"no spec", set(nil, "spec"), paused, false},
		{"replicas 0", set(int64(0), "spec", "replicas"), paused, true},
		{"replicas 0 out of encoding/json", set(0.0, "spec", "replicas"), paused, true},
		{"replicas 1", set(int64(1), "spec", "replicas"), paused, false},
		{"v1alpha1 without replicas", alpha, paused, false},
		{"only its condition says so", conditions(condition("Suspended", "True", t1)), paused, false},
		{"Finished", conditions(condition("Finished", "True", t1)), ended, true},
		{"not Finished", conditions(condition("Finished", "False", t1)), ended, false},
		{"Ready is False", conditions(condition("Ready", "False", t1)), ended, false},
		{"a claim's", owner("extensions.agents.x-k8s.io/v1beta1", "SandboxClaim"), waits, false},
		{"a warm pool's", owner("extensions.agents.x-k8s.io/v1beta1", "SandboxWarmPool"), waits, true},
		{"another group's warm pool's", owner("example.org/v1", "SandboxWarmPool"), waits, false},
		{"nobody's", set(nil, "metadata", "ownerReferences"), waits, false},
		{"an empty label", set("", "metadata", "labels", "agents.x-k8s.io/warm-pool-sandbox"), waits, true},
		{"no labels", set(nil, "metadata", "labels"), waits, false},
		{"deleted", set(t0, "metadata", "deletionTimestamp"), deleting, true},
		{"deleted in a form that nobody knows", set(7, "metadata", "deletionTimestamp"), deleting, true},
	} {
		if got := tc.is(agentsandbox.Decode(object("a", "S-a", tc.edit), nil)); got != tc.want {
			t.Errorf("%s: %v", tc.what, got)
		}
	}
}

func TestMalformed(t *testing.T) {
	for _, tc := range []struct {
		place string // what Malformed begins with
		edit  func(map[string]any)
	}{
		{"kind", set("SandboxClaim", "kind")},
		{"apiVersion", set("agents.x-k8s.io/v2", "apiVersion")},
		{"apiVersion", set("example.org/v1beta1", "apiVersion")},
		{"metadata", set("x", "metadata")},
		{"metadata.name", set(7, "metadata", "name")},
		{"metadata.name", set("A", "metadata", "name")},
		{"metadata.uid", set("", "metadata", "uid")},
		{"metadata.labels", set("x", "metadata", "labels")},
		{"metadata.annotations", set(strings.Repeat("x", 5000), "metadata", "annotations")},
		{"metadata.ownerReferences[0]", set([]any{"x"}, "metadata", "ownerReferences")},
		{"spec.operatingMode", set("Hibernated", "spec", "operatingMode")},
		{"spec.replicas", set("0", "spec", "replicas")},
		{"spec.shutdownTime", set("tomorrow", "spec", "shutdownTime")},
		{"status.podIPs", set("10.0.0.1", "status", "podIPs")},
		{"status.conditions", set("x", "status", "conditions")},
		{"status.conditions[0]", conditions("x")},
		{"status.conditions[0].lastTransitionTime", conditions(condition("Suspended", "False", "now"))},
	} {
		s := agentsandbox.Decode(object("a", "S-a", tc.edit), nil)
		if !strings.HasPrefix(s.Malformed, tc.place+":") || len(s.Malformed) > 400 {
			t.Errorf("%s: %q", tc.place, s.Malformed)
		}
	}
	if s := agentsandbox.Decode(object("a", "S-a", set(strings.Repeat("x", 1000), "metadata", "annotations", sandbox.PinAnnotation)), nil); s.PinFault == "" || s.Malformed != "" {
		t.Errorf("a pin that is none: %q, %q", s.PinFault, s.Malformed)
	}
}

func TestQueries(t *testing.T) {
	want := []sandbox.Query{{Name: "a"}}
	if diff := cmp.Diff(want, agentsandbox.Queries(identity.Claim{Sandbox: "a"})); diff != "" {
		t.Error(diff)
	}
}

func FuzzDecode(f *testing.F) {
	for _, edit := range []func(map[string]any){suspended, pinned(pin0), published("10.0.0.1", ""), conditions(condition("Finished", "True", t1), 7), set(0.5, "spec", "replicas"), set("x", "metadata")} {
		text, err := json.Marshal(object("a", "S-a", edit))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var object map[string]any
		if json.Unmarshal(text, &object) != nil {
			return
		}
		s := agentsandbox.Decode(object, nil)
		if s.Malformed != "" {
			return
		}
		if _, err := identity.NewNamespacedName(s.Namespace, s.Name); err != nil || s.UID == "" || s.Kind != agentsandbox.Kind {
			t.Errorf("%v of %s is well-formed: %v", s, text, err)
		}
		if s.PinFault == "" && s.Pin != (sandbox.Pin{}) {
			if again, err := sandbox.ParsePin(s.Pin.Text(nil), nil); err != nil || again != s.Pin {
				t.Errorf("the pin %v: %v", s.Pin, err)
			}
		}
	})
}
