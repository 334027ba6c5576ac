package lab_test

import (
	"strings"
	"testing"
)

// TestCORS: a page of a listed origin may call Pods and read why it may not. The
// control is an Envoy without --cors-origin, which asks samepod about a preflight.
func TestCORS(t *testing.T) {
	onEveryEnvoyAtOnce(t, func(t *testing.T, version string) {
		const page = "https://console.example.org"
		a := newArm(t, version, "--cors-origin", page, "--cors-header", "authorization")
		addr := a.addrs.Take()
		pod := a.run("a", "uid-a", addr)
		preflight := func(url, origin string) call {
			return do(t, "OPTIONS", url, "", "origin", origin, "access-control-request-method", "POST", "access-control-request-headers", "authorization,x-samepod-target")
		}
		checks := func() int {
			total := 0
			for _, reason := range []string{"same-pod", "claim-missing", "pod-replaced"} {
				n := must(a.samepod.Metric(`samepod_decisions_total{reason="` + reason + `"}`))(t)
				total += int(n)
			}
			return total
		}

		c := preflight(a.envoy.URL("/command"), page)
		if c.status != 200 || c.header.Get("access-control-allow-origin") != page || !strings.Contains(c.header.Get("access-control-allow-headers"), "x-samepod-target") || !strings.Contains(c.header.Get("access-control-allow-headers"), "authorization") || checks() != 0 {
			t.Errorf("a preflight: %d %v after %d checks", c.status, c.header, checks())
		}
		for _, origin := range []string{"https://evil.example.org", page + ".evil.example.org", "null"} {
			c = preflight(a.envoy.URL("/command"), origin)
			checkProblem(t, origin, c, 400, "claim-missing", false)
			if c.header.Get("access-control-allow-origin") != "" {
				t.Errorf("%s may call: %v", origin, c.header)
			}
		}
		c = do(t, "GET", a.envoy.URL("/ping"), "", append(claimOn("a", "uid-a", addr), "origin", page)...)
		if c.status != 200 || c.header.Get("access-control-allow-origin") != page {
			t.Errorf("a call: %d %v", c.status, c.header)
		}
		executed := len(pod.Executed())
		c = do(t, "GET", a.envoy.URL("/ping"), "", append(claimOn("a", "uid-old", addr), "origin", page)...)
		checkProblem(t, "another uid", c, 409, "pod-replaced", false)
		if c.header.Get("access-control-allow-origin") != page || !strings.Contains(c.header.Get("access-control-expose-headers"), "x-samepod-reason") {
			t.Errorf("a page cannot read the denial: %v", c.header)
		}
		if len(pod.Executed()) != executed {
			t.Error("a denied call reached the Pod")
		}
		a.invariant(6)

		control := a.startEnvoy("control", version, a.samepod.Authz.String())
		eventually(t, "the control asks samepod", func() bool {
			return preflight(control.URL("/command"), page).status == 400
		})
	})
}
