package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/samepod/samepod/creation"
	"github.com/samepod/samepod/creation/gate"
)

// report is what the gate says.
type report struct {
	gate.Verdict
	From     time.Time                  `json:"from"`
	To       time.Time                  `json:"to"`
	Settled  time.Time                  `json:"settled"` // until when good ones are counted
	Covered  float64                    `json:"coveredSeconds"`
	Before   before                     `json:"before"`
	Excluded map[string]int             `json:"excluded"`
	Causes   map[string]int             `json:"causes"`
	Versions map[string]creation.Counts `json:"nodeVersions"`
	Owners   int                        `json:"owners,omitempty"`
	Nodes    []creation.Named           `json:"nodes,omitempty"`
	Source   string                     `json:"source"`
}

// before is the window before, as long.
type before struct {
	creation.Counts
	Covered float64 `json:"coveredSeconds"`
	// Chance is how often chance alone makes the difference so large.
	Chance float64 `json:"chance"`
}

func (r report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v  %s\n\n", r.Answer, r.Why)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name string, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", plain(name), plain(fmt.Sprintf(format, args...)))
	}
	row("window", "%s to %s, %s", r.From.UTC().Format(time.RFC3339), r.To.UTC().Format(time.RFC3339), covered(r.Covered, r.To.Sub(r.From)))
	row("settled", "%s: good ones are counted until then, since what fails is known later", r.Settled.UTC().Format(time.RFC3339))
	row("Pods", "%d, of which %d failed: %s", r.Pods, r.Failures, rateOf(r.Pods, r.Failures))
	row("bounds", "%.4f %% to %.4f %%, each with %g %% confidence; the target is %g %%", 100*r.LowerBound, 100*r.UpperBound, 100*r.Confidence, 100*r.Target)
	row("to decide", "%d failures of %d Pods are a FAIL; no failure more up to %d Pods is a PASS", r.FailAt, r.Pods, r.PodsToPass)
	if n := r.Before.Total(); n > 0 {
		row("before", "%d Pods, of which %d failed: %s; chance makes it so much worse in %.2g of 1", n, r.Before.Bad, rateOf(n, r.Before.Bad), r.Before.Chance)
	} else {
		row("before", "nothing is known, %s", covered(r.Before.Covered, r.To.Sub(r.From)))
	}
	for _, v := range slices.Sorted(maps.Keys(r.Versions)) {
		c := r.Versions[v]
		row("on "+orUnknown(v), "%d Pods, of which %d failed: %s", c.Total(), c.Bad, rateOf(c.Total(), c.Bad))
	}
	for _, name := range byNumber(r.Causes) {
		row("cause", "%s: %d", name, r.Causes[name])
	}
	for _, n := range r.Nodes[:min(len(r.Nodes), 5)] {
		row("node", "%s: %d failed", n.Name, n.Bad)
	}
	if r.Owners > 0 {
		row("owners", "%d controllers have failed Pods", r.Owners)
	}
	for _, name := range byNumber(r.Excluded) {
		row("not counted", "%s: %d", name, r.Excluded[name])
	}
	_ = t.Flush() // into memory
	return b.String()
}

// covered says how much of a window somebody counted.
func covered(seconds float64, of time.Duration) string {
	is := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if of-is > max(of/100, 15*time.Second) {
		return fmt.Sprintf("of which %v were counted", is)
	}
	return "all of it counted"
}

func rateOf(pods, failures int) string {
	if pods == 0 {
		return "no rate"
	}
	return fmt.Sprintf("%.4g %%", 100-100*float64(failures)/float64(pods))
}

func orUnknown(version string) string {
	if version == "" {
		return "unknown"
	}
	return version
}

// byNumber are the names, the largest number first.
func byNumber(numbers map[string]int) []string {
	names := slices.Sorted(maps.Keys(numbers))
	slices.SortStableFunc(names, func(a, b string) int { return numbers[b] - numbers[a] })
	return slices.DeleteFunc(names, func(name string) bool { return numbers[name] == 0 })
}
