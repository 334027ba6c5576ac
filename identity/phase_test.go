package identity

import "testing"

func TestParsePhase(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want Phase
		ok   bool
	}{
		{"Pending", PhasePending, true},
		{"Running", PhaseRunning, true},
		{"Succeeded", PhaseSucceeded, true},
		{"Failed", PhaseFailed, true},
		{"Unknown", PhaseUnknown, true},
		{"", PhaseUnknown, true},
		{"running", PhaseUnknown, false},
		{"Completed", PhaseUnknown, false}, // kubectl's word, not the API's
	} {
		got, err := parsePhase(tc.in)
		if got != tc.want || (err == nil) != tc.ok {
			t.Errorf("parsePhase(%q) = %v, %v", tc.in, got, err)
		}
		if tc.in != "" && tc.ok && got.String() != tc.in {
			t.Errorf("parsePhase(%q).String() = %q", tc.in, got)
		}
	}
}
