package renewal

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestOff: every use of a sandbox that asks in vain is counted, and the first is logged.
func TestOff(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	var text bytes.Buffer
	o := NewOff(slog.New(slog.NewTextHandler(&text, nil)), m)
	for _, id := range []string{"a", "a", "b", "a"} {
		o.Report(Sandbox{"sandboxes", id})
	}
	if n := testutil.ToFloat64(m.intents.WithLabelValues(string(off))); n != 4 {
		t.Errorf("%v counted, want 4", n)
	}
	if n := strings.Count(text.String(), "level=WARN"); n != 2 || !strings.Contains(text.String(), "namespace=sandboxes sandbox=b") {
		t.Errorf("%s", &text)
	}
}
