package lab_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/samepod/samepod/lab"
)

// A scene is a way to configure Envoy so that a request reaches a stranger, is
// executed twice, or goes unchecked. Each row is played on two Envoys: one with the
// mutated configuration, which must show the fault, and one with what samepod
// renders, in the same surroundings, which must not.
type scene struct {
	rules    string // ids of samepod envoy check: the first one names the row, the others may be reported besides
	name     string
	upstream string // the arrangement that is mutated
	given    []edit // surroundings, which are harmless in themselves: in both arms
	edits    []edit
	says     lab.Answer // in samepod's place
	cold     bool       // nobody is in samepod's place when Envoy starts
	probe    probe
	mutated  from // the answer, and who executed what, such as "200 ping@B"
	safe     from // the same of what is rendered
	// holds says what else keeps the mutated configuration from executing anything
	// that it should not, where it does not; harm what is wrong with it nevertheless.
	holds, harm string
	// unlogged says why the access log does not show the fault.
	unlogged string
}

// from is what happens from a minor version of Envoy on; before the first one the
// row cannot be configured.
type from map[int]string

func (f from) at(minor int) (want string) {
	best := 0
	for v, text := range f {
		if v <= minor && v > best {
			best, want = v, text
		}
	}
	return want
}

const (
	resolve = "resolve"
	assert  = "assert"
	both    = "both"

	refused = "configuration refused" // by Envoy
)

// TestHazards plays every hazard on every Envoy. Each test is named for the id of
// the rule: TestHazards/1.40.0/retry/route. What is a fault of a version, and not of
// its configuration, is in TestAddressForms.
func TestHazards(t *testing.T) {
	rows := slices.Concat(addressHazards, uncheckedHazards, twiceHazards, callerHazards)
	onEveryEnvoy(t, func(t *testing.T, version string) {
		t.Parallel()
		th, stages := newTheatre(t, version, len(rows))
		t.Cleanup(th.checkShared)
		for i, row := range rows {
			if row.mutated.at(minor(version)) == "" {
				continue
			}
			t.Run(strings.Fields(row.rules)[0]+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				stages[i].compare(t, row)
			})
		}
	})
}

// compare plays both arms of a row.
func (s *stage) compare(t *testing.T, row scene) {
	surroundings := s.setUp(t, row)
	given := readBootstrap(t, s.bootstrapFor(row.upstream))
	given.apply(t, s.names, surroundings...)
	rendered := given.text(t)
	mutated := readBootstrap(t, rendered)
	mutated.apply(t, s.names, row.edits...)
	checkSays(t, s.version, row, rendered, mutated.text(t))

	executed, noticed := s.arm(row, "mutated", mutated.text(t), row.mutated.at(minor(s.version)))
	var safe []string
	if len(surroundings) == 0 {
		safe = s.playRow(row, "rendered", s.renderedEnvoy(t, row.upstream), row.safe.at(minor(s.version)))
	} else {
		var broken error
		if safe, broken = s.arm(row, "rendered", rendered, row.safe.at(minor(s.version))); broken != nil {
			t.Errorf("rendered: %v", broken)
		}
	}

	// A fault is what the rendered arm does not execute. The log must show it.
	if fault := without(executed, safe); len(fault) > 0 {
		if (noticed == nil) != (row.unlogged != "") {
			t.Errorf("executed %v besides; the access log says: %v; unlogged: %q", fault, noticed, row.unlogged)
		}
	} else if row.holds+row.harm == "" {
		t.Errorf("the mutation shows no fault, and nothing says why")
	}
}

// without is all but some, each as often as it is there.
func without(all, some []string) (rest []string) {
	some = slices.Clone(some)
	for _, word := range all {
		if i := slices.Index(some, word); i >= 0 {
			some = slices.Delete(some, i, i+1)
		} else {
			rest = append(rest, word)
		}
	}
	return rest
}

// arm plays a row on an Envoy of its own, and says who executed what and what the
// access log shows.
func (s *stage) arm(row scene, name string, config []byte, want string) (executed []string, noticed error) {
	s.t.Helper()
	e, err := s.StartEnvoy(s.t.Context(), fmt.Sprintf("%d-%s", s.n, name), envoyBinary(s.t, s.version), config)
	if err != nil {
		if want != refused {
			s.t.Fatalf("%s: %v", name, err)
		}
		return nil, err
	}
	if !row.cold {
		waitForVerdicts(s.t, e)
	}
	executed = s.playRow(row, name, e, want)
	if !e.Alive() {
		s.t.Errorf("%s: Envoy has ended", name)
	}
	return executed, loggedInvariant(s.t, e)
}

func (s *stage) playRow(row scene, name string, e *lab.Envoy, want string) (executed []string) {
	s.t.Helper()
	defer s.restore()
	got := s.play(e, row.probe, want)
	if got != want {
		s.t.Errorf("%s: %s; want %s", name, got, want)
	}
	for word := range strings.FieldsSeq(got) {
		if strings.Contains(word, "@") {
			executed = append(executed, strings.TrimSuffix(word, ","))
		}
	}
	return executed
}
