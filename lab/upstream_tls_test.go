package lab_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/samepod/samepod/lab"
)

const uidURI = "spiffe://example.org/pod/"

// podTLS is the server side of a Pod with a certificate for these names.
func podTLS(t *testing.T, ca *lab.CA, names ...string) *tls.Config {
	t.Helper()
	cert, key, err := ca.Issue(lab.Leaf{Names: names})
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{must(tls.X509KeyPair(cert, key))(t)}}
}

// mutual asks callers for a certificate of this authority.
func mutual(config *tls.Config, ca *lab.CA) *tls.Config {
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	config.ClientCAs.AppendCertsFromPEM(ca.PEM)
	return config
}

// writeSecrets writes what Envoy reads of this authority, and a certificate of its
// own, and returns the flags that name them.
func writeSecrets(t *testing.T, dir string, ca *lab.CA) []string {
	t.Helper()
	cert, key, err := ca.Issue(lab.Leaf{Names: []string{"gateway.example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	mounted := filepath.Join(dir, "upstream")
	if err := lab.WriteSecret(mounted, map[string][]byte{"ca.crt": ca.PEM, "tls.crt": cert, "tls.key": key}); err != nil {
		t.Fatal(err)
	}
	caFile, clientFile := filepath.Join(dir, "upstream-ca.yaml"), filepath.Join(dir, "upstream-client.yaml")
	for file, text := range map[string][]byte{
		caFile:     samepodCLI(t, "envoy", "secret", "ca", "--ca", mounted+"/ca.crt"),
		clientFile: samepodCLI(t, "envoy", "secret", "client", "--cert", mounted+"/tls.crt", "--key", mounted+"/tls.key"),
	} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--upstream-tls-ca-secret", caFile, "--upstream-tls-client-secret", clientFile}
}

// TestUpstreamTLS: Pods that speak TLS, by a name that they share. A server that
// has another certificate, or none, gets no byte of the request.
func TestUpstreamTLS(t *testing.T) {
	onEveryEnvoyAtOnce(t, func(t *testing.T, version string) {
		a := newSamepodArm(t)
		ours, others := must(lab.NewCA("ours"))(t), must(lab.NewCA("others"))(t)
		a.envoy = a.startEnvoy("envoy", version, a.samepod.Authz.String(), append(writeSecrets(t, a.Dir, ours), "--upstream-protocol", "downstream", "--upstream-tls-name", "pod.example.org")...)
		a.waitVerdicts()
		for i, row := range []struct {
			rule   string
			config *tls.Config
			want   int
		}{
			{"its name", podTLS(t, ours, "pod.example.org"), 200},
			{"its name, and it asks for ours", mutual(podTLS(t, ours, "pod.example.org"), ours), 200},
			{"another name", podTLS(t, ours, "other.example.org"), 503},
			{"another authority", podTLS(t, others, "pod.example.org"), 503},
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
	onEveryEnvoyAtOnce(t, func(t *testing.T, version string) {
		l := newLab(t)
		authz := must(l.StartAuthzServer())(t)
		addrs := must(lab.NewAddresses(lab.ExecdPort))(t)
		a := &arm{Lab: l, t: t, addrs: addrs, config: writeConfig(t, l, addrs)}
		ca := must(lab.NewCA("pods"))(t)
		secrets := writeSecrets(t, l.Dir, ca)
		start := func(name string, addr netip.Addr) *lab.Pod {
			return must(l.StartTLSPod(name, "uid-"+name, addr, podTLS(t, ca, "pod.example.org", uidURI+"uid-"+name)))(t)
		}
		stale := func(uid string, addr netip.AddrPort) {
			authz.Say(says(allow(map[string]any{"samepod_upstream": addr.String(), "samepod_pod_uid": uid, "samepod_decision": "d"})))
		}

		addr := addrs.Take()
		podA := start("a", addr)
		stale("uid-a", podA.Addr)
		a.envoy = a.startEnvoy("envoy", version, authz.Addr.String(), append(secrets, "--upstream-tls-uid-prefix", uidURI)...)
		control := a.startEnvoy("control", version, authz.Addr.String(), append(secrets, "--upstream-tls-name", "pod.example.org")...)
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
