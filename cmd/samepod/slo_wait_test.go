package main

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/samepod/samepod/creation"
)

// TestGateWaits: it looks again until the plan is done, and shows how far it is.
func TestGateWaits(t *testing.T) {
	s, _ := replica(t, 1, outcomes{n: 10, ago: 20 * time.Second, result: creation.Good})
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 4 { // a look is three questions
			for range 40 {
				s.ledger.Add(creation.Outcome{Generation: 1, Result: creation.Good, At: time.Now().Add(-20 * time.Second)})
			}
		}
		s.handler(http.NotFoundHandler()).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	code, out, stderr := gateOf(t, "--samepod", server.URL, "--wait", "1h", "--pods", "50", "--poll", "1s", "--window", "1m", "--settle", "1s")
	if code != 2 || !strings.Contains(out, "50, of which 0 failed") {
		t.Errorf("%d\n%s", code, out)
	}
	if want := "[####                ] 10 of 50 Pods, 0 failed, at most "; !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 2 {
		t.Errorf("progress: %q", stderr)
	}
	// Enough failures for the whole plan end it at once.
	_, url := replica(t, 1, outcomes{n: 9, ago: 20 * time.Second, result: creation.Bad})
	if code, _, stderr := gateOf(t, "--samepod", url, "--wait", "1h"); code != 1 || strings.Contains(stderr, "of 2995") {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestGateRetries: while it waits, a look that fails is made again; at its end the last
// error is told.
func TestGateRetries(t *testing.T) {
	for _, tc := range []struct {
		name   string
		fails  int
		wait   string
		code   int
		stderr []string
	}{
		{"once", 1, "1h", 1, []string{"503 Service Unavailable: failure 1, at most "}},
		{"always", math.MaxInt, "1s", 3, []string{"503 Service Unavailable: failure 1, at most 1s", "503 Service Unavailable: failure 2\n"}},
		{"without --wait", 1, "0s", 3, []string{"503 Service Unavailable: failure 1\n"}},
	} {
		s, _ := replica(t, 1, outcomes{n: 9, ago: 20 * time.Second, result: creation.Bad})
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked <= tc.fails {
				http.Error(w, fmt.Sprint("failure ", asked), http.StatusServiceUnavailable)
				return
			}
			s.handler(http.NotFoundHandler()).ServeHTTP(w, r)
		}))
		code, _, stderr := gateOf(t, "--samepod", server.URL, "--wait", tc.wait, "--poll", "1s")
		server.Close()
		for _, want := range tc.stderr {
			if code != tc.code || !strings.Contains(stderr, want) {
				t.Errorf("%s: %d, no %q in %s", tc.name, code, want, stderr)
			}
		}
	}
}
