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
	a.serve(a.serving, lab.Leaf{Names: []string{samepodName}})
	a.show(a.clients, lab.Leaf{Names: []string{envoyName}})
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

// serve mounts a certificate for samepod, show one for Envoy.
func (a *tlsArm) serve(ca *lab.CA, l lab.Leaf) { a.mount("samepod", ca, l, a.clients) }
func (a *tlsArm) show(ca *lab.CA, l lab.Leaf)  { a.mount("envoy", ca, l, a.serving) }

func (a *tlsArm) mount(side string, ca *lab.CA, l lab.Leaf, peers *lab.CA) {
	a.t.Helper()
	cert, key, err := ca.Issue(l)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := lab.WriteSecret(a.path(side), map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": peers.PEM}); err != nil {
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
	args := []string{"--samepod-tls-ca-secret", a.path("ca.yaml"), "--samepod-tls-client-secret", a.path("client.yaml"), "--samepod-tls-name", samepodName}
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

func TestTLSSmoke(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		a := newTLSArm(t, 2)
		pod := a.run("a", "uid-a", a.addrs.Take())
		a.front(version)
		if c := do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", pod.Addr.Addr())...); c.status != 200 {
			t.Fatalf("%d %s", c.status, c.body)
		}
	})
}
