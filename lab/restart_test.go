package lab_test

import (
	"testing"
	"time"

	"github.com/samepod/samepod/lab"
)

// allowed is a replica's counter of the checks that it has answered with an allow.
const allowed = `samepod_decisions_total{reason="same-pod"}`

// onOldestAndNewest runs a test that takes long on two Envoys.
func onOldestAndNewest(t *testing.T, f func(t *testing.T, version string)) {
	versions := lab.EnvoyVersions()
	for _, version := range []string{versions[0], versions[len(versions)-1]} {
		t.Run(version, func(t *testing.T) { f(t, version) })
	}
}

// TestRollingRestart: replicas that are stopped and started again one after the
// other cost no caller an answer, and each gets its share again. A replica that is
// killed does cost some, which is the control.
func TestRollingRestart(t *testing.T) {
	onOldestAndNewest(t, func(t *testing.T, version string) {
		a := newTLSArm(t, 2)
		pod := a.run("a", "uid-a", a.addrs.Take())
		a.front(version)
		const rate = 300
		claim := claimOn("a", "uid-a", pod.Addr.Addr())
		l := startLoad(t, a.envoy.URL("/ping"), rate, claim...)
		answered := func(n int) {
			t.Helper()
			until := l.sent() + n
			a.eventually("the load goes on", func() bool { return l.sent() >= until })
		}
		answered(rate / 2)
		for i, r := range a.replicas {
			if err := r.Stop(20 * time.Second); err != nil {
				t.Errorf("replica %d: %v", i, err)
			}
			a.start(r)
			a.waitHealthy(2)
			before := must(r.Metric(allowed))(t)
			answered(rate)
			if share := must(r.Metric(allowed))(t) - before; share < rate/4 {
				t.Errorf("replica %d has answered %v of %d checks since it is back", i, share, rate)
			}
		}
		sent, bad := l.end()
		if len(bad) > 0 {
			t.Errorf("of %d requests some did not reach the Pod: %v", sent, bad)
		}
		errors, ok := must(a.envoy.Stat("http.front.ext_authz.samepod.error"))(t), must(a.envoy.Stat("http.front.ext_authz.samepod.ok"))(t)
		if errors != 0 || ok != sent {
			t.Errorf("Envoy counts %d checks without an answer, and %d of %d allowed", errors, ok, sent)
		}
		a.invariant(sent)

		l = startLoad(t, a.envoy.URL("/ping"), rate, claim...)
		answered(rate / 2)
		a.replicas[0].Kill()
		a.eventually("the dead replica is dropped", func() bool { return must(a.envoy.Stat("cluster.samepod_authz.membership_healthy"))(t) == 1 })
		at := must(a.envoy.Stat("http.front.ext_authz.samepod.error"))(t)
		answered(rate / 2)
		sent, bad = l.end()
		if n := bad["503 no-verdict"]; n == 0 || at == 0 || len(bad) != 1 {
			t.Errorf("the control: a replica that is killed costs nothing, or something else: %v", bad)
		}
		t.Logf("killed without a drain: %v of %d", bad, sent)
		if n := must(a.envoy.Stat("http.front.ext_authz.samepod.error"))(t); n != at {
			t.Errorf("%d checks went to a replica that Envoy had dropped", n-at)
		}
	})
}
