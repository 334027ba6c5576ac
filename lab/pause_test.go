package lab_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/samepod/samepod/lab"
)

// TestPauses: a live reader may stop reading for half a minute, on either side, and
// gets all of it. The controls have bounds that are too short, and must cut it.
func TestPauses(t *testing.T) {
	t.Parallel()
	const (
		size  = 64 << 20 // more than all buffers on the way hold
		pause = 30 * time.Second
	)
	rows := []struct {
		name  string
		args  string
		pause time.Duration
		read  func(t *testing.T, a *arm, claim []string, size int, pause time.Duration) string
		want  string
	}{
		{"caller", "", pause, pausedCaller, fmt.Sprintf("200, %d bytes", size)},
		{"caller-control", "--stream-idle 2s", 8 * time.Second, pausedCaller, "200, cut"},
		{"pod", "", pause, pausedPod, fmt.Sprintf("200, %d bytes", size)},
		{"pod-control", "--tcp-user-timeout 2s", 12 * time.Second, pausedPod, "502 upstream-reset"},
	}
	for _, version := range lab.EnvoyVersions() {
		for _, row := range rows {
			t.Run(version+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				a := newSamepodArm(t)
				a.envoy = a.startEnvoy("envoy", version, a.samepod.Authz.String(), append([]string{"--check-timeout", "10s"}, strings.Fields(row.args)...)...)
				a.waitVerdicts()
				addr := a.addrs.Take()
				a.run("a", "uid-a", addr)
				if got := row.read(t, a, claimOn("a", "uid-a", addr), size, row.pause); got != row.want {
					t.Errorf("%s; want %s", got, row.want)
				}
				a.invariant(1)
			})
		}
	}
}

// pausedCaller reads a little of a streaming response, pauses, and reads the rest.
func pausedCaller(t *testing.T, a *arm, claim []string, size int, pause time.Duration) string {
	t.Helper()
	req := must(http.NewRequest("GET", a.envoy.URL(fmt.Sprintf("/stream?bytes=%d", size)), nil))(t)
	for i := 0; i < len(claim); i += 2 {
		req.Header.Set(claim[i], claim[i+1])
	}
	client := *http1
	client.Timeout = 2 * time.Minute
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	first, err := io.CopyN(io.Discard, resp.Body, 1<<20)
	if err != nil {
		return err.Error()
	}
	time.Sleep(pause)
	rest, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		return fmt.Sprintf("%d, cut", resp.StatusCode)
	}
	return fmt.Sprintf("%d, %d bytes", resp.StatusCode, first+rest)
}

// pausedPod sends to a Pod that reads nothing for a while.
func pausedPod(t *testing.T, a *arm, claim []string, size int, pause time.Duration) string {
	t.Helper()
	req := must(http.NewRequest("POST", a.envoy.URL(fmt.Sprintf("/idle?for=%v", pause)), io.LimitReader(zeros{}, int64(size))))(t)
	for i := 0; i < len(claim); i += 2 {
		req.Header.Set(claim[i], claim[i+1])
	}
	client := *http1
	client.Timeout = 2 * time.Minute
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var n int
	if _, err := fmt.Fscanf(resp.Body, "%d bytes read", &n); err != nil {
		return fmt.Sprintf("%d %s", resp.StatusCode, resp.Header.Get("x-samepod-reason"))
	}
	return fmt.Sprintf("%d, %d bytes", resp.StatusCode, n)
}

// zeros is endless.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
