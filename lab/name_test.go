package lab_test

import (
	"fmt"
	"testing"
)

// TestSamepodByName: an Envoy that is told a DNS name finds the replica behind it,
// and drops the addresses of the name on which nobody serves.
func TestSamepodByName(t *testing.T) {
	onEveryEnvoyAtOnce(t, func(t *testing.T, version string) {
		a := newSamepodArm(t)
		addr := a.addrs.Take()
		a.run("a", "uid-a", addr)
		a.envoy = a.startEnvoy("envoy", version, fmt.Sprintf("localhost:%d", a.samepod.Authz.Port()))
		a.waitVerdicts()
		if c := do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", addr)...); c.status != 200 {
			t.Errorf("the Pod: %d %s", c.status, c.body)
		}
		checkProblem(t, "another uid", do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-old", addr)...), 409, "pod-replaced", false)
		a.samepod.Kill()
		a.eventually("the replica is dropped", func() bool {
			n, err := a.envoy.Stat("cluster.samepod_authz.membership_healthy")
			return err == nil && n == 0
		})
		checkProblem(t, "no replica", do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", addr)...), 503, "no-verdict", false)
		a.invariant(3)
	})
}
