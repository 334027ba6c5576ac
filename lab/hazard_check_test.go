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
		findings, err := hazard.Check(config, hazard.Options{
			Version: version, Upstream: envoy.Arrangement(row.upstream), AcceptUnasserted: true,
			ClaimHeaders: []string{"x-samepod-target", "x-samepod-expect-pod-uid", "x-samepod-recorded", "x-samepod-port"},
		})
		if err != nil {
			t.Errorf("samepod envoy check: %v", err)
		}
		for _, f := range findings {
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
