package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/lab"
	"github.com/samepod/samepod/mtls"
)

// writeServing writes a mounted Secret with a certificate of ca for the service, and
// clients as the CAs of clients.
func writeServing(t *testing.T, ca, clients *lab.CA, dir string, l lab.Leaf) {
	t.Helper()
	l.Names = []string{"samepod.example"}
	cert, key, err := ca.Issue(l)
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.WriteSecret(dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": clients.PEM}); err != nil {
		t.Fatal(err)
	}
}

func newCA(t *testing.T) *lab.CA {
	t.Helper()
	ca, err := lab.NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// dialTLS connects as a client with a certificate of ca, or with none.
func dialTLS(t *testing.T, address string, roots, ca *lab.CA, names ...string) *grpc.ClientConn {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots.PEM)
	config := &tls.Config{RootCAs: pool, ServerName: "samepod.example", MinVersion: tls.VersionTLS12}
	if ca != nil {
		cert, key, err := ca.Issue(lab.Leaf{Names: names})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestServeTLS: the whole service on an address that is not loopback answers a
// client on the list and no other, follows its files, and tells what is wrong with
// them.
func TestServeTLS(t *testing.T) {
	ca, clients, secret := newCA(t), newCA(t), t.TempDir()
	writeServing(t, ca, clients, secret, lab.Leaf{})
	socket := filepath.Join(t.TempDir(), "authz.sock")
	i := startServe(t, minimal, "--listen", "0.0.0.0:0", "--listen", "unix://"+socket,
		"--tls-cert-file", secret+"/tls.crt", "--tls-key-file", secret+"/tls.key", "--tls-client-ca-file", secret+"/ca.crt", "--tls-client-identity", "envoy.example", "--tls-client-identity", "spiffe://example/envoy")
	refused := func(conn *grpc.ClientConn) bool {
		_, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{})
		return status.Code(err) == codes.Unavailable
	}
	for _, address := range i.start.Listen[:2] {
		address = "127.0.0.1" + address[strings.LastIndex(address, ":"):]
		for _, name := range []string{"envoy.example", "spiffe://example/envoy"} {
			if got := i.check(dialTLS(t, address, ca, clients, name), "ns/a", "A", "10.0.0.1:80"); got != "same-pod" {
				t.Errorf("%s as %s: %s", address, name, got)
			}
		}
		for rule, conn := range map[string]*grpc.ClientConn{
			"without TLS": i.dial(address), "without a certificate": dialTLS(t, address, ca, nil), "of another CA": dialTLS(t, address, ca, ca, "envoy.example"), "not listed": dialTLS(t, address, ca, clients, "other.example"),
		} {
			if !refused(conn) {
				t.Errorf("%s: a client %s is answered", address, rule)
			}
		}
	}
	if got := i.check(i.dial("unix://"+socket), "ns/a", "A", "10.0.0.1:80"); got != "same-pod" {
		t.Errorf("the unix socket: %s", got)
	}
	if _, body := i.get(i.start.Health, "/readyz"); !strings.Contains(body, "[+] tls: valid until 2") || len(i.start.Notes) > 0 {
		t.Errorf("readiness: %s; notes %q", body, i.start.Notes)
	}

	if err := lab.WriteSecret(secret, map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("x"), "ca.crt": clients.PEM}); err != nil {
		t.Fatal(err)
	}
	i.eventually("the fault is told", func() bool {
		status, body := i.get(i.start.Health, "/readyz")
		_, metrics := i.get(i.start.Health, "/metrics")
		return status == 200 && strings.Contains(body, "; fault: "+secret+"/tls.crt: holds no certificate") && strings.Contains(metrics, "samepod_tls_fault 1") && strings.Contains(metrics, `samepod_tls_refused_total{why="identity"}`)
	})
	address := i.start.Listen[0]
	if got := i.check(dialTLS(t, address, ca, clients, "envoy.example"), "ns/a", "A", "10.0.0.1:80"); got != "same-pod" {
		t.Errorf("with the last good certificate: %s", got)
	}
	soon := time.Now().Add(4 * time.Second)
	writeServing(t, ca, clients, secret, lab.Leaf{NotAfter: soon})
	i.eventually("it expires", func() bool {
		status, body := i.get(i.start.Health, "/readyz")
		return status == 503 && strings.HasPrefix(body, "not ready: tls: the certificate expired at 2") && strings.Contains(body, "[-] tls: the certificate expired at ")
	})
	if !refused(dialTLS(t, address, ca, clients, "envoy.example")) {
		t.Error("a client takes the expired certificate")
	}
	writeServing(t, ca, clients, secret, lab.Leaf{})
	i.eventually("it heals", func() bool {
		status, body := i.get(i.start.Health, "/readyz")
		return status == 200 && !strings.Contains(body, "fault")
	})
	if got := i.check(dialTLS(t, address, ca, clients, "envoy.example"), "ns/a", "A", "10.0.0.1:80"); got != "same-pod" {
		t.Errorf("with the new certificate: %s", got)
	}
	if strings.Contains(i.log.String(), "PRIVATE KEY") {
		t.Error("the log has a key")
	}
}

// TestServeTLSNotes: what lets anyone ask is told.
func TestServeTLSNotes(t *testing.T) {
	ca, secret := newCA(t), t.TempDir()
	writeServing(t, ca, ca, secret, lab.Leaf{})
	files := []string{"--listen", "0.0.0.0:0", "--tls-cert-file", secret + "/tls.crt", "--tls-key-file", secret + "/tls.key"}
	for want, args := range map[string][]string{
		"--tls-any-client: whoever reaches the listener":                append(files[:6:6], "--tls-any-client"),
		"--tls-client-identity *: whoever has a certificate of the CA":  append(files[:6:6], "--tls-client-ca-file", secret+"/ca.crt", "--tls-client-identity", "*"),
		"--insecure-authz: whoever reaches the listener learns address": {"--listen", "0.0.0.0:0", "--insecure-authz"},
	} {
		i := startServe(t, minimal, args...)
		if len(i.start.Notes) != 1 || !strings.HasPrefix(strings.Replace(i.start.Notes[0], "client CA", "CA", 1), want) {
			t.Errorf("notes %q, want %s", i.start.Notes, want)
		}
		i.cancel()
	}
}

// TestConnectionAge: an old connection is told to end, and no check is lost by it.
func TestConnectionAge(t *testing.T) {
	i := startServe(t, minimal, "--max-connection-age", "1s")
	conn := i.dial(i.start.Listen[0])
	peers := map[string]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for n := 0; len(peers) < 3; n++ {
		var p peer.Peer
		if _, err := authv3.NewAuthorizationClient(conn).Check(ctx, &authv3.CheckRequest{}, grpc.Peer(&p)); err != nil {
			t.Fatalf("check %d: %v", n, err)
		}
		peers[p.LocalAddr.String()] = true
	}
}

func TestTLSMetrics(t *testing.T) {
	ca, secret := newCA(t), t.TempDir()
	writeServing(t, ca, ca, secret, lab.Leaf{})
	f := tlsFlags{cert: secret + "/tls.crt", key: secret + "/tls.key"}
	log, err := newLogger(&bytes.Buffer{}, "json", "error")
	if err != nil {
		t.Fatal(err)
	}
	keeper, err := f.open(log)
	if err != nil {
		t.Fatal(err)
	}
	index := identity.NewIndex(identity.HistoryConfig{})
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(newCollector(&readiness{index: index, tls: keeper}, func() uint64 { return 0 }))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); len(problems) > 0 || err != nil {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	if len(keeper.State().Refused) != len([]mtls.Refusal{mtls.RefusedHandshake, mtls.RefusedCertificate, mtls.RefusedIdentity}) {
		t.Errorf("refusals %v", keeper.State().Refused)
	}
}
