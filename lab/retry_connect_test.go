package lab_test

import (
	"context"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/samepod/samepod/lab"
)

// Why samepod renders no retry at all, not even of a connection that failed, although
// nothing was sent: docs/envoy.md.

// retrying is a rendering that retries failed connections.
type retrying struct {
	envoy  *lab.Envoy
	authz  *lab.AuthzServer
	addr   netip.AddrPort // of the verdict
	second netip.AddrPort // of a second host, where there is one
	lab    *lab.Lab
}

func newRetrying(t *testing.T, version, policy string, args func(first, second netip.AddrPort) []string) *retrying {
	t.Helper()
	l := newLab(t)
	addrs := must(lab.NewAddresses(lab.ExecdPort))(t)
	r := &retrying{
		lab: l, authz: must(l.StartAuthzServer())(t),
		addr: netip.AddrPortFrom(addrs.Take(), lab.ExecdPort), second: netip.AddrPortFrom(addrs.Take(), lab.ExecdPort),
	}
	config := string(samepodCLI(t, append([]string{"envoy", "bootstrap", "--envoy-version", version, "--samepod", r.authz.Addr.String(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args(r.addr, r.second)...)...))
	if policy != "" {
		for old, changed := range map[string]string{
			"priority: DEFAULT, max_retries: 0": "priority: DEFAULT, max_retries: 3",
			"timeout: 0s   #":                   "retry_policy: " + policy + "\n                  timeout: 0s   #",
		} {
			if n := strings.Count(config, old); n != 1 {
				t.Fatalf("%q is there %d times", old, n)
			}
			config = strings.Replace(config, old, changed, 1)
		}
	}
	r.envoy = must(l.StartEnvoy(t.Context(), "envoy", envoyBinary(t, version), []byte(config)))(t)
	waitForVerdicts(t, r.envoy)
	r.authz.Say(says(allow(map[string]any{"samepod_upstream": r.addr.String(), "samepod_pod_uid": "uid-a", "samepod_decision": "d"}, setting("x-samepod-pod-uid", "uid-a"))))
	return r
}

func (r *retrying) ask(t *testing.T) (c call, took time.Duration) {
	t.Helper()
	asked := time.Now()
	c = do(t, "POST", r.envoy.URL("/command"), `{"command":"ls"}`)
	return c, time.Since(asked)
}

func asRendered(netip.AddrPort, netip.AddrPort) []string { return nil }

const onceMore = "{ retry_on: connect-failure, num_retries: 1 }"

// TestRetryConnect: each attempt is asserted, and none is checked. It measures how much
// longer a verdict is acted upon.
func TestRetryConnect(t *testing.T) {
	version := lab.NewestEnvoy()
	t.Run("refused", func(t *testing.T) { t.Parallel(); testRefused(t, version) })
	t.Run("silent", func(t *testing.T) { t.Parallel(); testSilent(t, version) })
	t.Run("asserted", func(t *testing.T) { t.Parallel(); testAsserted(t, version) })
	t.Run("handed over", func(t *testing.T) { t.Parallel(); testHandedOver(t, version) })
}

// testRefused: nobody listens yet, as right after a Pod is Ready.
func testRefused(t *testing.T, version string) {
	r, plain := newRetrying(t, version, onceMore, asRendered), newRetrying(t, version, "", asRendered)
	const rounds = 20
	var without, with []time.Duration
	for range rounds {
		c, took := plain.ask(t)
		checkProblem(t, "without a retry", c, 503, "pod-unreachable", false)
		without = append(without, took)
		c, took = r.ask(t)
		checkProblem(t, "with one", c, 503, "pod-unreachable", false)
		with = append(with, took)
	}
	log := must(r.envoy.WaitForAccessLog(t.Context(), rounds))(t)
	for _, line := range log {
		if line.Attempts != 2 {
			t.Errorf("%d attempts", line.Attempts)
		}
	}
	if n := must(r.envoy.Stat("cluster.samepod_verified.rbac.allowed"))(t); n != 2*rounds || r.authz.Asked() != rounds {
		t.Errorf("%d requests: asserted %d times, checked %d times", rounds, n, r.authz.Asked())
	}
	t.Logf("refused: without a retry %s", percentiles(without))
	t.Logf("refused: with one        %s", percentiles(with))
}

// testSilent: the address answers nothing, as one without a Pod does.
func testSilent(t *testing.T, version string) {
	r, plain := newRetrying(t, version, onceMore, asRendered), newRetrying(t, version, "", asRendered)
	fullQueue(t, r.addr)
	fullQueue(t, plain.addr)
	c, without := plain.ask(t)
	checkProblem(t, "without a retry", c, 503, "pod-unreachable", false)
	c, with := r.ask(t)
	checkProblem(t, "with one", c, 503, "pod-unreachable", false)
	if log := must(r.envoy.WaitForAccessLog(t.Context(), 1))(t); log[0].Attempts != 2 || r.authz.Asked() != 1 {
		t.Errorf("%d attempts after %d checks", log[0].Attempts, r.authz.Asked())
	}
	t.Logf("silent: without a retry %v, with one %v", without.Round(time.Millisecond), with.Round(time.Millisecond))
}

// fullQueue makes an address that takes no connection and refuses none: its queue is full.
func fullQueue(t *testing.T, addr netip.AddrPort) {
	t.Helper()
	open := func() int {
		fd := must(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0))(t)
		t.Cleanup(func() { _ = syscall.Close(fd) })
		return fd
	}
	where := &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	listener := open()
	if err := syscall.Bind(listener, where); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(listener, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 { // one is queued, the others wait
		_ = syscall.Connect(open(), where) // in progress
	}
}

// testAsserted: the second attempt picks another host than the verified one, and is
// refused before it connects.
func testAsserted(t *testing.T, version string) {
	r := newRetrying(t, version, onceMore, func(first, second netip.AddrPort) []string {
		return []string{"--upstream", "assert", "--endpoint", first.String(), "--endpoint", second.String()}
	})
	b := must(r.lab.StartPodOn("b", "uid-b", r.second))(t)
	const rounds = 4 // two hosts in turn: every second request begins with the verified one
	for range rounds {
		c, _ := r.ask(t)
		checkProblem(t, "B is picked", c, 409, "upstream-not-verified", false)
	}
	retried := 0
	for _, line := range must(r.envoy.WaitForAccessLog(t.Context(), rounds))(t) {
		if line.Attempts == 2 {
			retried++
		}
	}
	if retried == 0 || b.Connections() != 0 {
		t.Errorf("%d of %d requests were tried twice, B got %d connections", retried, rounds, b.Connections())
	}
}

// testHandedOver: between two attempts the address goes to B. The assertion compares
// addresses, so it lets the second attempt through, on the verdict of the first. Without
// a retry the caller asks again, and is told that A is gone.
func testHandedOver(t *testing.T, version string) {
	const patient = "{ retry_on: connect-failure, num_retries: 3, retry_back_off: { base_interval: 1s, max_interval: 1s } }"
	r, plain := newRetrying(t, version, patient, asRendered), newRetrying(t, version, "", asRendered)
	for _, e := range []*retrying{r, plain} {
		verdict := says(allow(map[string]any{"samepod_upstream": e.addr.String(), "samepod_pod_uid": "uid-a", "samepod_decision": "d"}, setting("x-samepod-pod-uid", "uid-a")))
		e.authz.Say(func(ctx context.Context, req *authv3.CheckRequest) (*authv3.CheckResponse, error) {
			if e.authz.Asked() > 1 {
				return denyWith(409, nil), nil // by now A is gone
			}
			return verdict(ctx, req)
		})
		answer := make(chan call)
		go func() {
			c, _ := e.ask(t)
			answer <- c
		}()
		eventually(t, "the first attempt fails", func() bool {
			n, err := e.envoy.Stat("cluster.samepod_verified.upstream_cx_connect_fail")
			return err == nil && n > 0
		})
		b := must(e.lab.StartPodOn("b", "uid-b", e.addr))(t)
		c := <-answer
		if e == plain {
			checkProblem(t, "without a retry", c, 503, "pod-unreachable", false)
			if again, _ := e.ask(t); again.status != 409 || len(b.Executed()) != 0 {
				t.Errorf("asked again: %d %s", again.status, again.body)
			}
			continue
		}
		if c.status != 200 || len(b.Executed()) != 1 || e.authz.Asked() != 1 {
			t.Errorf("the control: a retry after %d checks does not reach B: %d %s", e.authz.Asked(), c.status, c.body)
		}
	}
}
