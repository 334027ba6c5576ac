package lab_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/samepod/samepod/lab"
)

const (
	samepodName = "samepod.example"
	envoyName   = "spiffe://example/ns/gateway/sa/envoy"
)

// tlsArm is the product with TLS between Envoy and samepod's replicas: two CAs, one
// for each side, and mounted Secrets with certificates of them.
type tlsArm struct {
	*arm
	serving, clients *lab.CA
	replicas         []*replica
}

// replica is one of several samepods, at an address that it keeps when it is started
// again.
type replica struct {
	*lab.Samepod
	addr netip.AddrPort
}

func newTLSArm(t *testing.T, replicas int, more ...string) *tlsArm {
	t.Helper()
	l := newLab(t)
	addrs := must(lab.NewAddresses(lab.ExecdPort))(t)
	a := &tlsArm{
		arm:     &arm{Lab: l, t: t, addrs: addrs, pods: map[string]lab.PodRecord{}, config: writeConfig(t, l, addrs), podsYML: filepath.Join(l.Dir, "pods.yaml")},
		serving: must(lab.NewCA("serving"))(t), clients: must(lab.NewCA("clients"))(t),
	}
	a.writePods()
	a.mount("samepod", a.serving, lab.Leaf{Names: []string{samepodName}}, a.clients)
	a.mount("envoy", a.clients, lab.Leaf{Names: []string{envoyName}}, a.serving)
	a.write("ca.yaml", samepodCLI(t, "envoy", "secret", "ca", "--ca", a.path("envoy/ca.crt")))
	a.write("client.yaml", samepodCLI(t, "envoy", "secret", "client", "--cert", a.path("envoy/tls.crt"), "--key", a.path("envoy/tls.key")))
	for range replicas {
		r := &replica{addr: netip.AddrPortFrom(addrs.Take(), 19191)}
		a.start(r, more...)
		a.replicas = append(a.replicas, r)
	}
	a.samepod = a.replicas[0].Samepod
	return a
}

func (a *tlsArm) path(name string) string { return filepath.Join(a.Dir, name) }

func (a *tlsArm) write(name string, text []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.path(name), text, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// mount gives one side a certificate of ca, and the CAs that it trusts.
func (a *tlsArm) mount(side string, ca *lab.CA, l lab.Leaf, trusted ...*lab.CA) {
	a.t.Helper()
	var bundle []byte
	for _, t := range trusted {
		bundle = append(bundle, t.PEM...)
	}
	cert, key, err := ca.Issue(l)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := lab.WriteSecret(a.path(side), map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": bundle}); err != nil {
		a.t.Fatal(err)
	}
}

// start starts a replica, or starts it again.
func (a *tlsArm) start(r *replica, more ...string) {
	a.t.Helper()
	args := append([]string{
		"--config", a.config, "--pods-file", a.podsYML, "--pods-file-poll", "100ms", "--drain-delay", "3s", "--listen", r.addr.String(),
		"--tls-cert-file", a.path("samepod/tls.crt"), "--tls-key-file", a.path("samepod/tls.key"), "--tls-client-ca-file", a.path("samepod/ca.crt"), "--tls-client-identity", envoyName,
	}, more...)
	r.Samepod = must(a.StartSamepod(a.t.Context(), "samepod", must(binaries.race())(a.t), args...))(a.t)
	if err := r.WaitReady(a.t.Context(), true, 30*time.Second); err != nil {
		a.t.Fatal(err)
	}
}

// front starts an Envoy in front of all replicas and waits until it has seen them.
func (a *tlsArm) front(version string) {
	a.t.Helper()
	// What is tested is that nothing is lost, not how fast this machine is.
	args := []string{"--check-timeout", "5s", "--samepod-tls-ca-secret", a.path("ca.yaml"), "--samepod-tls-client-secret", a.path("client.yaml"), "--samepod-tls-name", samepodName}
	for _, r := range a.replicas[1:] {
		args = append(args, "--samepod", r.addr.String())
	}
	a.envoy = a.startEnvoy("envoy", version, a.replicas[0].addr.String(), args...)
	a.waitHealthy(len(a.replicas))
}

func (a *tlsArm) waitHealthy(n int) {
	a.t.Helper()
	a.eventually(fmt.Sprintf("Envoy sees %d healthy replicas", n), func() bool {
		got, err := a.envoy.Stat("cluster.samepod_authz.membership_healthy")
		return err == nil && got == n
	})
}

// TestTLSRotation: certificates and CAs of both sides are exchanged under load
// without an error, and are in force: at the end nothing of the old ones would do.
func TestTLSRotation(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		a := newTLSArm(t, 2, "--max-connection-age", "1s")
		pod := a.run("a", "uid-a", a.addrs.Take())
		a.front(version)
		// Up to 1.36 Envoy connects once before it has read its secrets, and says nothing.
		before := []float64{refusals(t, a.replicas[0].Samepod), refusals(t, a.replicas[1].Samepod)}
		l := startLoad(t, a.envoy.URL("/ping"), 100, claimOn("a", "uid-a", pod.Addr.Addr())...)
		serving, clients := must(lab.NewCA("serving 2"))(t), must(lab.NewCA("clients 2"))(t)
		good := lab.Leaf{Names: []string{samepodName}}
		shown := lab.Leaf{Names: []string{envoyName}}
		for i, step := range []struct {
			rule  string
			reads int // files that are new to Envoy
			do    func()
		}{
			{"both trust both CAs", 2, func() {
				a.mount("samepod", a.serving, good, a.clients, clients)
				a.mount("envoy", a.clients, shown, a.serving, serving)
			}},
			{"both show a certificate of the new one", 1, func() {
				a.mount("samepod", serving, good, a.clients, clients)
				a.mount("envoy", clients, shown, a.serving, serving)
			}},
			{"both trust the new one alone", 2, func() {
				a.mount("samepod", serving, good, clients)
				a.mount("envoy", clients, shown, serving)
			}},
		} {
			read := must(a.envoy.Stat(sdsUpdates))(t)
			good.NotAfter = time.Now().Add(time.Duration(2+i) * time.Hour).Truncate(time.Second)
			step.do()
			for _, r := range a.replicas {
				a.eventually("samepod reads its files: "+step.rule, func() bool {
					return must(r.Metric("samepod_tls_certificate_not_after_timestamp_seconds"))(t) == float64(good.NotAfter.Unix())
				})
			}
			a.eventually("Envoy reads its certificate and CA: "+step.rule, func() bool { return must(a.envoy.Stat(sdsUpdates))(t) >= read+step.reads })
			connected := must(a.envoy.Stat("cluster.samepod_authz.upstream_cx_total"))(t)
			a.eventually("connections are made anew: "+step.rule, func() bool { return must(a.envoy.Stat("cluster.samepod_authz.upstream_cx_total"))(t) >= connected+4 })
		}
		sent, bad := l.end()
		if len(bad) > 0 {
			slow := must(a.envoy.Stat("cluster.samepod_authz.upstream_rq_timeout"))(t)
			t.Errorf("of %d requests some did not reach the Pod: %v; %d checks took too long", sent, bad, slow)
		}
		for i, r := range a.replicas {
			if n := refusals(t, r.Samepod) - before[i]; n != 0 {
				t.Errorf("replica %d has refused %v connections", i, n)
			}
		}
		a.invariant(sent)
	})
}

// refusals are all that a replica has refused.
func refusals(t *testing.T, s *lab.Samepod) (sum float64) {
	t.Helper()
	for _, why := range []string{"handshake", "certificate", "identity"} {
		sum += must(s.Metric(fmt.Sprintf("samepod_tls_refused_total{why=%q}", why)))(t)
	}
	return sum
}

// sdsUpdates counts the certificates and CAs that Envoy has read.
const sdsUpdates = "cluster.samepod_authz.client_ssl_socket_factory.ssl_context_update_by_sds"

// TestTLSRefused: who shows the wrong certificate gets no verdict, or none is taken
// from him. Each line is followed by a good certificate, with which all is well.
func TestTLSRefused(t *testing.T) {
	onEveryEnvoyAtOnce(t, func(t *testing.T, version string) {
		a := newTLSArm(t, 1, "--max-connection-age", "1s")
		addr := a.addrs.Take()
		a.run("a", "uid-a", addr)
		a.front(version)
		other := must(lab.NewCA("other"))(t)
		now := time.Now()
		good, shown := lab.Leaf{Names: []string{samepodName}}, lab.Leaf{Names: []string{envoyName}}
		refused := func(why string) func() bool {
			before := must(a.samepod.Metric(fmt.Sprintf("samepod_tls_refused_total{why=%q}", why)))(t)
			return func() bool {
				return must(a.samepod.Metric(fmt.Sprintf("samepod_tls_refused_total{why=%q}", why)))(t) > before
			}
		}
		for _, tc := range []struct {
			rule string
			why  string // for which samepod refuses Envoy; "handshake" where Envoy refuses samepod
			do   func()
		}{
			{"Envoy of another CA", "certificate", func() { a.mount("envoy", other, shown, a.serving) }},
			{"Envoy of another name", "identity", func() {
				a.mount("envoy", a.clients, lab.Leaf{Names: []string{envoyName + "2"}, CommonName: envoyName}, a.serving)
			}},
			{"Envoy with an expired certificate", "certificate", func() {
				a.mount("envoy", a.clients, lab.Leaf{Names: shown.Names, NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(-time.Hour)}, a.serving)
			}},
			{"samepod of another CA", "handshake", func() { a.mount("samepod", other, good, a.clients) }},
			{"samepod of another name", "handshake", func() {
				a.mount("samepod", a.serving, lab.Leaf{Names: []string{"x." + samepodName}, CommonName: samepodName}, a.clients)
			}},
		} {
			isRefused := refused(tc.why)
			tc.do()
			a.waitHealthy(0)
			a.eventually(tc.rule+" is refused", isRefused)
			checkProblem(t, tc.rule, do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", addr)...), 503, "no-verdict", false)
			a.mount("samepod", a.serving, good, a.clients)
			a.mount("envoy", a.clients, shown, a.serving)
			// Health is asked on a connection of its own; that of the checks may be a try
			// with the old certificate still.
			a.eventually("after "+tc.rule+" all is well", func() bool {
				return do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", addr)...).status == 200
			})
		}
	})
}
