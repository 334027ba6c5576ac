package creation

import (
	"os"
	"strings"
	"testing"
)

// TestCauses reads lines that were produced, and lines of public reports
// (testdata/corpus.tsv: class, text, source). Classes that only a node's logs tell
// are no causes of Events.
func TestCauses(t *testing.T) {
	text, err := os.ReadFile("testdata/corpus.tsv")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]Cause{}
	for _, c := range Causes() {
		names[c.String()] = c
	}
	seen := map[Cause]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 {
			t.Fatalf("%q", line)
		}
		want, ok := names[fields[0]]
		if !ok {
			continue
		}
		seen[want] = true
		for _, prefix := range []string{"", "(combined from similar events): ", "Failed create pod sandbox: ", "Failed to create pod sandbox: "} {
			if got := ParseCause(prefix + fields[1]); got != want {
				t.Errorf("%v, want %v: %s%s", got, want, prefix, fields[1])
			}
		}
	}
	for _, c := range Causes()[1:] {
		if !seen[c] {
			t.Errorf("no line of %v", c)
		}
	}
	for _, c := range Causes() {
		if means, look := c.Advice(); means == "" || look == "" {
			t.Errorf("no advice for %v", c)
		}
	}
	if n := len(Causes()); n > 25 {
		t.Errorf("%d causes are too many for a label", n)
	}
}

// TestCauseOfMany: the last event tells, but an echo does not outdo its cause.
func TestCauseOfMany(t *testing.T) {
	const (
		timeout  = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
		reserved = `failed to reserve sandbox name "a_ns_uid_0": name "a_ns_uid_0" is reserved for "1e66"`
	)
	for _, tc := range []struct {
		name     string
		messages []string
		want     string
	}{
		{"the last", []string{bootEOF, timeout}, "bad event timeout x2"},
		{"the echo", []string{timeout, reserved, reserved}, "bad event timeout x3"},
		{"nothing but the echo", []string{reserved}, "bad event name-reserved x1"},
		{"unknown", []string{bootEOF, "something new"}, "bad event x2"},
	} {
		steps := []step{{0, pod(bound(0), acknowledged(0))}}
		for i, m := range tc.messages {
			steps = append(steps, step{5 * (i + 1), event("e", failedSandbox, m, i+1)})
		}
		if got := play(t, Config{}, steps...); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func FuzzParseCause(f *testing.F) {
	f.Add(bootEOF)
	f.Add(strings.Repeat("(combined from similar events): ", 500))
	f.Fuzz(func(t *testing.T, message string) {
		if c := ParseCause(message); int(c) >= len(Causes()) {
			t.Errorf("%d", c)
		}
	})
}
