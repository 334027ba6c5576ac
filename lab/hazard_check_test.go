package lab_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/samepod/samepod/envoy"
	"github.com/samepod/samepod/envoy/hazard"
)

// checkSays holds samepod envoy check to a row: the surroundings are no finding, and
// what is mutated is reported under the ids of the row and no other. Only what
// something else holds may go unreported.
func checkSays(t *testing.T, version string, row scene, rendered, mutated []byte) {
	t.Helper()
	ids := func(config []byte) (ids []string) {
		r, err := hazard.Check(config, hazard.Options{
			Version: version, Upstream: envoy.Arrangement(row.upstream), AcceptUnasserted: true,
			ClaimHeaders: []string{"x-samepod-target", "x-samepod-expect-pod-uid", "x-samepod-recorded", "x-samepod-port"},
		})
		if err != nil {
			t.Errorf("samepod envoy check: %v", err)
		}
		for _, f := range r.Findings {
			if f.Rule != "envoy-patch" && !slices.Contains(ids, f.Rule) { // of the version, not of the configuration
				ids = append(ids, f.Rule)
			}
		}
		return ids
	}
	if got := ids(rendered); len(got) > 0 {
		t.Errorf("samepod envoy check reports %v where nothing is wrong", got)
	}
	got := ids(mutated)
	for _, id := range got {
		if !slices.Contains(strings.Fields(row.rules), id) {
			t.Errorf("samepod envoy check reports %s, which is not of %q", id, row.rules)
		}
	}
	if len(got) == 0 && row.holds == "" {
		t.Errorf("samepod envoy check reports nothing; want %s", row.rules)
	}
}

// unplayed are the rules without a row, and why.
var unplayed = map[string]string{
	"nothing-protected": "an Envoy that protects nothing is each control of this package",
	"envoy-version":     "1.37.0 is not among the Envoys of this lab; what it does was seen elsewhere",
	"envoy-patch":       "the faults are of releases that this lab has; none of them crashed by what was tried (TestHostileClient)",
	"opaque-filter":     "what such a filter may write is address-writer and filter-between; this one only cannot be read",
	"other-destination": "the control of the demo and of the replays is such a cluster, and reaches a stranger",
	"pod-unproven":      "TestUpstreamTLS and TestUIDCertificate have the controls",
	"samepod-exposed":   "what samepod answers to whom it should not is authz's own tests; nothing is dialled",
	"check-timeout":     "what an old verdict does is TestUIDCertificate; this is how old it may get",
	"samepod-unproven":  "TestTLSRefused has the controls; what a false samepod can allow is every row that says something in its place",
	"path-form":         "TestDialects has what samepod and the Pod get of such paths; the right Pod is reached",
	"admin-open":        "what the admin interface can do is Envoy's documentation",
}

// TestEveryRuleIsPlayed: what samepod envoy check reports is shown to be unsafe, or
// says why it cannot be.
func TestEveryRuleIsPlayed(t *testing.T) {
	played := map[string]bool{}
	for _, row := range slices.Concat(addressHazards, uncheckedHazards, twiceHazards, callerHazards) {
		for id := range strings.FieldsSeq(row.rules) {
			played[id] = true
		}
	}
	for _, r := range hazard.Rules() {
		if played[r.ID] == (unplayed[r.ID] != "") {
			t.Errorf("%s: played %v, and why not: %q", r.ID, played[r.ID], unplayed[r.ID])
		}
		delete(played, r.ID)
	}
	for id := range played {
		t.Errorf("%s is no rule", id)
	}
}
