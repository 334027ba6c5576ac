package node

import "slices"

// Severity is what follows from a finding.
type Severity string

const (
	// OK is what was looked at and is right.
	OK Severity = "ok"
	// Skipped is what does not apply to this node.
	Skipped Severity = "skipped"
	// Info is worth knowing and harmless.
	Info Severity = "info"
	// Warning is what can fail, or fails some Pods.
	Warning Severity = "warning"
	// Unknown is what could not be looked at. It is never taken for OK.
	Unknown Severity = "unknown"
	// Failure is what keeps Pods from starting.
	Failure Severity = "failure"
)

// Severities are all of them, the least first.
func Severities() []Severity {
	return []Severity{OK, Skipped, Info, Warning, Unknown, Failure}
}

// AtLeast reports whether s is as bad as other, or worse. A severity that is none of
// [Severities] is worse than all.
func (s Severity) AtLeast(other Severity) bool {
	i := slices.Index(Severities(), s)
	return i < 0 || i >= slices.Index(Severities(), other)
}

// Finding is what a check found.
type Finding struct {
	// Check is the ID of the check.
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Found is one sentence: what is so.
	Found string `json:"found"`
	// Evidence is where it stands: a link and its target, a line of a file.
	Evidence []string `json:"evidence,omitempty"`
	// Consequence is what follows for Pods.
	Consequence string `json:"consequence,omitempty"`
	// Remedy is what to do.
	Remedy string `json:"remedy,omitempty"`
}

// Report is what a node was found to be.
type Report struct {
	// Containerds are the configurations that were judged.
	Containerds []Containerd `json:"containerds"`
	// Findings are in the order of the checks; every check has at least one.
	Findings []Finding `json:"findings"`
}

// Count is how many findings have this severity.
func (r Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// The exit codes are those of a custom plugin of node-problem-detector.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUnknown = 2
)

// Exit is [ExitFailure] if a finding other than an unknown one is as bad as
// threshold, which is [Failure] or [Warning]; else [ExitUnknown] if anything is
// unknown, or nothing was looked at; else [ExitOK].
func (r Report) Exit(threshold Severity) int {
	code := ExitOK
	if len(r.Findings) == r.Count(Skipped) {
		code = ExitUnknown
	}
	for _, f := range r.Findings {
		switch {
		case f.Severity == Unknown:
			code = ExitUnknown
		case f.Severity.AtLeast(threshold):
			return ExitFailure
		}
	}
	return code
}
