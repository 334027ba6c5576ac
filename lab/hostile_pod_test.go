package lab_test

import (
	"testing"
)

// TestHostilePod: whatever a Pod answers, the caller can tell it from samepod's and
// Envoy's own answers, and nothing else is executed for it.
func TestHostilePod(t *testing.T) {
	rows := []struct {
		what  string
		probe probe
		want  string
	}{
		{"headers of ours", ask("GET", "/forge"), "200 forge@A"},
		{"early hints with headers of ours", bytesOf("GET /hints HTTP/1.1\n$CLAIM\n"), "200 hints@A"},
		{"an upgrade that nobody asked for", askSwitch, "101, then 200 switch@A, ping@A"},
		{"trailers of ours", askWithTrailers, "200, 0 trailers at the Pod, 0 at the caller trailers@A"},
		{"a redirect to B", ask("GET", "/redirect?to=http://b.test/ping"), "302 redirect@A"},
		{"a 409 of its own", ask("GET", "/pty"), "409 pty@A"},
		{"a reset", ask("POST", "/reset"), "502 upstream-reset reset@A"},
	}
	onEveryEnvoy(t, func(t *testing.T, version string) {
		t.Parallel()
		th, stages := newTheatre(t, version, 1)
		t.Cleanup(th.checkShared)
		s := stages[0]
		s.name()
		for _, row := range rows {
			for name, client := range callers {
				s.http = client
				if got := s.play(th.renderedEnvoy(t, both), row.probe, row.want); got != row.want {
					t.Errorf("%s, %s: %s; want %s", name, row.what, got, row.want)
				}
			}
		}
	})
}
