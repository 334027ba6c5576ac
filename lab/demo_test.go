package lab_test

import (
	"strings"
	"testing"

	"github.com/samepod/samepod/lab"
)

// TestDemo: the demo of each engine tells its story, or fails. That of the dialect claim
// is CI's make demo.
func TestDemo(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"opensandbox", "agent-sandbox"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			out, err := lab.Output(t.Context(), "go", "run", "./demo", "-dialect", dialect)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(out); !strings.Contains(got, "200 executed in b") || !strings.Contains(got, "with samepod     POST /command for a  ->  409 ") {
				t.Errorf("it does not tell the incident:\n%s", got)
			}
		})
	}
}
