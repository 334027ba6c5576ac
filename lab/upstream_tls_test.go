package lab_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"
	"testing"

	"github.com/samepod/samepod/lab"
)

const uidURI = "spiffe://example.org/pod/"

// podTLS is the server side of a Pod with this certificate; clients, if there is
// one, vouches for who may call.
func podTLS(t *testing.T, pair lab.KeyPair, clients *lab.Authority) *tls.Config {
	t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{must(tls.LoadX509KeyPair(pair.Cert, pair.Key))(t)}}
	if clients != nil {
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		config.ClientCAs.AppendCertsFromPEM(must(os.ReadFile(clients.File))(t))
	}
	return config
}

// TestUpstreamTLS: Pods that speak TLS, by a name that they share. A server that
// has another certificate, or none, gets no byte of the request.
func TestUpstreamTLS(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		a := newSamepodArm(t)
		ours, others := must(lab.NewAuthority(a.Dir, "ours"))(t), must(lab.NewAuthority(a.Dir, "others"))(t)
		gateway := must(ours.Issue("gateway", "gateway.example.org"))(t)
		a.envoy = a.startEnvoy("envoy", version, a.samepod.Authz.String(), "--upstream-protocol", "downstream",
			"--upstream-tls-ca", ours.File, "--upstream-tls-name", "pod.example.org", "--upstream-tls-cert", gateway.Cert, "--upstream-tls-key", gateway.Key)
		a.waitVerdicts()
		for i, row := range []struct {
			rule   string
			config *tls.Config
			want   int
		}{
			{"its name", podTLS(t, must(ours.Issue("right", "pod.example.org"))(t), nil), 200},
			{"its name, and it asks for ours", podTLS(t, must(ours.Issue("mutual", "pod.example.org"))(t), ours), 200},
			{"another name", podTLS(t, must(ours.Issue("renamed", "other.example.org"))(t), nil), 503},
			{"another authority", podTLS(t, must(others.Issue("foreign", "pod.example.org"))(t), nil), 503},
			{"no TLS", nil, 503},
		} {
			name := string(rune('a' + i))
			addr := a.addrs.Take()
			pod := must(a.StartTLSPod(name, "uid-"+name, addr, row.config))(t)
			a.set(name, "uid-"+name, "Running", addr)
			c := do(t, "GET", a.envoy.URL("/ping"), "", claimOn(name, "uid-"+name, addr)...)
			if c.status != row.want || (len(pod.Executed()) > 0) != (row.want == 200) {
				t.Errorf("%s: %d %s, executed %d", row.rule, c.status, c.body, len(pod.Executed()))
			}
			if row.want == 503 {
				checkProblem(t, row.rule, c, 503, "pod-unreachable", false)
			}
		}
		a.invariant(5)
	})
}

// TestUIDCertificate closes the last window: the verdict is old, the address is B's
// by now, and B fails the handshake, since its certificate has its own uid. The
// control is the same without the uid, where B gets the request.
func TestUIDCertificate(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		l := newLab(t)
		authz := must(l.StartAuthzServer())(t)
		addrs := must(lab.NewAddresses(lab.ExecdPort))(t)
		a := &arm{Lab: l, t: t, addrs: addrs, config: writeConfig(t, l, addrs)}
		authority := must(lab.NewAuthority(l.Dir, "authority"))(t)
		start := func(name string, addr netip.Addr) *lab.Pod {
			pair := must(authority.Issue(name, "pod.example.org", uidURI+"uid-"+name))(t)
			return must(l.StartTLSPod(name, "uid-"+name, addr, podTLS(t, pair, nil)))(t)
		}
		stale := func(uid string, addr netip.AddrPort) {
			authz.Say(says(allow(map[string]any{"samepod_upstream": addr.String(), "samepod_pod_uid": uid, "samepod_decision": "d"})))
		}
		byUID := []string{"--upstream-tls-ca", authority.File, "--upstream-tls-uid-prefix", uidURI}
		byName := []string{"--upstream-tls-ca", authority.File, "--upstream-tls-name", "pod.example.org"}

		addr := addrs.Take()
		podA := start("a", addr)
		stale("uid-a", podA.Addr)
		a.envoy = a.startEnvoy("envoy", version, authz.Addr.String(), byUID...)
		control := a.startEnvoy("control", version, authz.Addr.String(), byName...)
		for what, e := range map[string]*lab.Envoy{"product": a.envoy, "control": control} {
			eventually(t, what+" reaches A", func() bool { return do(t, "GET", e.URL("/ping"), "").status == 200 })
		}
		podA.Stop()
		podB := start("b", addr)
		a.eventually("the connections of A are gone", func() bool {
			c := do(t, "GET", a.envoy.URL("/ping"), "")
			return c.reason() == "pod-unreachable"
		})
		c := do(t, "POST", a.envoy.URL("/command"), `{"command":"ls"}`)
		checkProblem(t, "an old verdict", c, 503, "pod-unreachable", false)
		if n := len(podB.Executed()); n != 0 {
			t.Errorf("B executed %d requests for A", n)
		}
		stale("uid-b", podB.Addr)
		if c := do(t, "GET", a.envoy.URL("/ping"), ""); c.status != 200 {
			t.Errorf("B for B: %d %s", c.status, c.body)
		}
		stale("uid-a", podB.Addr)
		executed := len(podB.Executed())
		eventually(t, "the control: B executes what was meant for A", func() bool {
			do(t, "POST", control.URL("/command"), `{"command":"ls"}`)
			return len(podB.Executed()) > executed
		})
		// An answer without a uid is for the certificate of no Pod.
		authz.Say(says(allow(map[string]any{"samepod_upstream": podB.Addr.String()})))
		if c := do(t, "GET", a.envoy.URL("/ping"), ""); c.status == 200 {
			t.Error("a verdict without a uid reaches B")
		}
	})
}
