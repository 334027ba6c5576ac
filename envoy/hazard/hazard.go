// Package hazard says what in an Envoy's configuration lets a request reach
// another Pod than the one that samepod verified, or a Pod that nobody verified.
//
// It reads a bootstrap file, or what a running Envoy dumps of its configuration,
// into one model: read.go makes messages of text, config.go puts together what is
// where, reach.go finds every way to the protected cluster. The rules are a table
// (rules.go); each looks at the model and reports places. What is compared with
// samepod's own rendering is taken from it (rendering.go), so the two cannot
// differ.
//
// What cannot be judged is reported too. Silence means: read, and found safe.
package hazard

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/samepod/samepod/envoy"
)

// Severity is what follows from a finding.
type Severity string

const (
	// Hazard is what can misroute a request, or open the boundary, or cannot be
	// judged.
	Hazard Severity = "hazard"
	// Note is what costs availability, defence in depth or clear answers.
	Note Severity = "note"
)

// Rule is one thing that can be wrong. Its ID never changes its meaning.
type Rule struct {
	ID       string
	Severity Severity
	Why, Fix string
}

// Finding is a rule that is broken at a place. Rule is its ID. Place is the path of
// fields in Envoy's own names, with names of resources for indices; Found says what
// stands there.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	Place    string   `json:"place"`
	Found    string   `json:"found"`
	Why      string   `json:"why"`
	Fix      string   `json:"fix"`
}

// Options say what the configuration is to be judged by.
type Options struct {
	// Version is that of the Envoy, "1.40" or "1.40.0". Empty is what a dump says
	// of itself, and the newest for a file.
	Version string
	// Cluster is the protected cluster. Empty is the rendered name.
	Cluster string
	// Upstream is the arrangement. Empty is what the configuration looks like.
	Upstream envoy.Arrangement
	// AcceptUnasserted accepts [envoy.Assert] below 1.39, where nothing asserts.
	AcceptUnasserted bool
	// ClaimHeaders are the request headers that samepod reads; they must reach it
	// and nobody else.
	ClaimHeaders []string
	// PrivateHeaders, SetsPath and SetsHost are as in [envoy.Params].
	PrivateHeaders     []string
	SetsPath, SetsHost bool
}

// Report is the outcome: what was judged, by what, and what was found.
type Report struct {
	Version  string            `json:"version"`
	Upstream envoy.Arrangement `json:"upstream"`
	Cluster  string            `json:"cluster"`
	// Protected are the routes that lead to the protected cluster.
	Protected []string  `json:"protected"`
	Findings  []Finding `json:"findings"`
}

// Count returns how many findings have this severity.
func (r Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Check reports what is wrong in a configuration: a bootstrap in YAML or JSON, or
// the answer of the admin interface to /config_dump?include_eds. An error says
// that it could not be read, or that the options are not allowed (a
// [*envoy.ParamError]).
func Check(configuration []byte, o Options) (Report, error) {
	c, err := read(configuration)
	if err != nil {
		return Report{}, err
	}
	s, err := newSubject(c, o)
	if err != nil {
		return Report{}, err
	}
	report := Report{Version: s.release, Upstream: s.params.Upstream, Cluster: s.params.Cluster, Protected: []string{}, Findings: []Finding{}}
	seen := map[place]bool{}
	for _, c := range s.chains {
		for _, r := range c.protectedRoutes() {
			if !seen[r.place] {
				seen[r.place] = true
				report.Protected = append(report.Protected, string(r.place))
			}
		}
	}
	for _, r := range rules {
		r.find(s, func(at place, format string, args ...any) {
			report.Findings = append(report.Findings, Finding{r.ID, r.Severity, string(at), fmt.Sprintf(format, args...), r.Why, r.Fix})
		})
	}
	report.Findings = tidy(report.Findings)
	return report, nil
}

// tidy sorts hazards before notes, by the order of the rules, and says everything
// once: several listeners may share a route configuration.
func tidy(all []Finding) []Finding {
	out, seen := []Finding{}, map[Finding]bool{}
	for _, f := range all {
		if !seen[f] {
			seen[f] = true
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
	return out
}

// Rules returns every rule, in the order in which they are reported.
func Rules() []Rule {
	all := make([]Rule, len(rules))
	for i, r := range rules {
		all[i] = r.Rule
	}
	return all
}
