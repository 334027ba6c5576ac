package mtls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/samepod/samepod/lab"
)

const gateway = "spiffe://prod.example/ns/gateway/sa/envoy"

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// pair is a certificate with its key, in PEM.
type pair struct{ cert, key []byte }

func issue(ca *lab.CA, l lab.Leaf) pair {
	cert, key, err := ca.Issue(l)
	if err != nil {
		panic(err)
	}
	return pair{cert, key}
}

// lockedBuffer is a log that is written and read at once.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// stage is a Keeper with what its files say.
type stage struct {
	t      *testing.T
	ca     *lab.CA
	dir    string
	files  Files
	log    lockedBuffer
	keeper *Keeper
}

var server = lab.Leaf{Names: []string{"samepod.example"}}

func newStage(t *testing.T, identities ...string) *stage {
	t.Helper()
	dir := t.TempDir()
	s := &stage{t: t, ca: must(lab.NewCA("ca")), dir: dir, files: Files{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")}}
	s.write(issue(s.ca, server), s.ca.PEM)
	s.keeper = must(Open(s.files, must(ParseIdentities(identities)), slog.New(slog.NewJSONHandler(&s.log, nil))))
	return s
}

func (s *stage) write(p pair, ca []byte) {
	s.t.Helper()
	if err := lab.WriteSecret(s.dir, map[string][]byte{"tls.crt": p.cert, "tls.key": p.key, "ca.crt": ca}); err != nil {
		s.t.Fatal(err)
	}
}

// connect makes one connection with this client configuration. It returns the
// server's certificate, and what the server said of the client.
func (s *stage) connect(client *tls.Config) (*x509.Certificate, error) {
	s.t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	said := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			said <- err
			return
		}
		defer conn.Close()
		secured, _, err := s.keeper.Credentials().ServerHandshake(conn)
		if err == nil {
			_, err = io.WriteString(secured, "x")
		}
		said <- err
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		return nil, <-said
	}
	defer conn.Close()
	_, _ = conn.Read(make([]byte, 1)) // a client of 1.3 learns here that it was refused
	return conn.ConnectionState().PeerCertificates[0], <-said
}

func (s *stage) client(p *pair) *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.ca.PEM)
	c := &tls.Config{RootCAs: roots, ServerName: "samepod.example", NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS10}
	if p != nil {
		cert := must(tls.X509KeyPair(p.cert, p.key))
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil } // also one that nobody asked for
	}
	return c
}

// named is a certificate whose names need not be what their kind asks for.
func named(dns []string, uris ...url.URL) lab.Leaf {
	return lab.Leaf{Change: func(c *x509.Certificate) {
		c.DNSNames = dns
		for i := range uris {
			c.URIs = append(c.URIs, &uris[i])
		}
	}}
}

// TestClients: who gets through the handshake.
func TestClients(t *testing.T) {
	s := newStage(t, gateway, "envoy.example")
	other := must(lab.NewCA("other"))
	hour := time.Hour
	for _, tc := range []struct {
		rule    string
		ca      *lab.CA
		leaf    lab.Leaf
		change  func(*tls.Config)
		refused string // part of the error; "" for admitted
	}{
		{"a SPIFFE ID on the list", s.ca, lab.Leaf{Names: []string{gateway}}, nil, ""},
		{"a DNS name on the list", s.ca, lab.Leaf{Names: []string{"envoy.example"}}, nil, ""},
		{"a DNS name in capitals", s.ca, lab.Leaf{Names: []string{"Envoy.Example"}}, nil, ""},
		{"one of two DNS names", s.ca, lab.Leaf{Names: []string{"other.example", "envoy.example"}}, nil, ""},
		{"the DNS name beside another's SPIFFE ID", s.ca, lab.Leaf{Names: []string{"envoy.example", gateway + "2"}}, nil, ""},
		{"another SPIFFE ID", s.ca, lab.Leaf{Names: []string{gateway + "2"}}, nil, "not among the client identities"},
		{"a SPIFFE ID below", s.ca, lab.Leaf{Names: []string{gateway + "/x"}}, nil, "not among the client identities"},
		{"a SPIFFE ID in capitals", s.ca, lab.Leaf{Names: []string{"spiffe://prod.example/ns/GATEWAY/sa/envoy"}}, nil, "not among the client identities"},
		{"two SPIFFE IDs", s.ca, lab.Leaf{Names: []string{gateway, "spiffe://prod.example/ns/x/sa/y"}}, nil, "not among the client identities"},
		{"a DNS name that reads as the SPIFFE ID", s.ca, named([]string{gateway}), nil, "not among the client identities"},
		{"that, in capitals", s.ca, named([]string{strings.ToUpper(gateway)}), nil, "not among the client identities"},
		{"that, beside another's SPIFFE ID", s.ca, named([]string{gateway}, url.URL{Scheme: "spiffe", Host: "prod.example", Path: "/x"}), nil, "not among the client identities"},
		{"a URI that reads as the DNS name", s.ca, named(nil, url.URL{Path: "envoy.example"}), nil, "not among the client identities"},
		{"another DNS name", s.ca, lab.Leaf{Names: []string{"x.envoy.example"}}, nil, "not among the client identities"},
		{"a wildcard that covers it", s.ca, lab.Leaf{Names: []string{"*.example"}}, nil, "not among the client identities"},
		{"the name as common name", s.ca, lab.Leaf{CommonName: "envoy.example"}, nil, "not among the client identities"},
		{"an address", s.ca, lab.Leaf{Names: []string{"127.0.0.1"}}, nil, "not among the client identities"},
		{"no name", s.ca, lab.Leaf{}, nil, "not among the client identities"},
		{"another CA", other, lab.Leaf{Names: []string{gateway}}, nil, "unknown authority"},
		{"expired", s.ca, lab.Leaf{Names: []string{gateway}, NotBefore: time.Now().Add(-2 * hour), NotAfter: time.Now().Add(-hour)}, nil, "expired"},
		{"not yet valid", s.ca, lab.Leaf{Names: []string{gateway}, NotBefore: time.Now().Add(hour), NotAfter: time.Now().Add(2 * hour)}, nil, "expired"},
		{"a server's certificate", s.ca, lab.Leaf{Names: []string{gateway}, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, nil, "incompatible key usage"},
		{"TLS 1.2", s.ca, lab.Leaf{Names: []string{gateway}}, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, "unsupported versions"},
		{"TLS 1.1", s.ca, lab.Leaf{Names: []string{gateway}}, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 }, "unsupported versions"},
		{"no HTTP/2", s.ca, lab.Leaf{Names: []string{gateway}}, func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }, "missing selected ALPN property"},
	} {
		p := issue(tc.ca, tc.leaf)
		config := s.client(&p)
		if tc.change != nil {
			tc.change(config)
		}
		_, err := s.connect(config)
		if (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s: %v, want %q", tc.rule, err, tc.refused)
		}
	}
	if _, err := s.connect(s.client(nil)); err == nil || !strings.Contains(err.Error(), "didn't provide a certificate") {
		t.Errorf("no certificate: %v", err)
	}
	got := s.keeper.State().Refused
	if got[RefusedIdentity] != 13 || got[RefusedCertificate] != 4 || got[RefusedHandshake] != 4 {
		t.Errorf("refusals %v", got)
	}
	if n := strings.Count(s.log.String(), "refused a connection"); n != 3 {
		t.Errorf("%d refusals are logged, want one of each kind:\n%s", n, &s.log)
	}
}

// TestAnyIdentity: "*" admits every certificate of the CA, and none of another.
func TestAnyIdentity(t *testing.T) {
	s := newStage(t, AnyIdentity)
	good, bad := issue(s.ca, lab.Leaf{}), issue(must(lab.NewCA("other")), lab.Leaf{})
	if _, err := s.connect(s.client(&good)); err != nil {
		t.Error(err)
	}
	if _, err := s.connect(s.client(&bad)); err == nil {
		t.Error("a certificate of another CA is admitted")
	}
	var zero Identities
	if err := zero.admit(&x509.Certificate{DNSNames: []string{"a"}}); err == nil {
		t.Error("the zero value admits somebody")
	}
}

// TestServerOnly: without a client CA nobody is asked for a certificate.
func TestServerOnly(t *testing.T) {
	s := newStage(t, gateway)
	s.keeper = must(Open(Files{Cert: s.files.Cert, Key: s.files.Key}, Identities{}, slog.New(slog.DiscardHandler)))
	if _, err := s.connect(s.client(nil)); err != nil {
		t.Error(err)
	}
}

func TestParseIdentities(t *testing.T) {
	for _, good := range []string{"*", gateway, "spiffe://a/b", "spiffe://a_b-c.d/B/1.2", "envoy", "envoy.example", "a-b.c1.example", "_x.example", "xn--bcher-kva.example"} {
		if _, err := ParseIdentities([]string{good}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "spiffe://", "spiffe://a", "spiffe://a/", "spiffe://a//b", "spiffe://a/b/", "spiffe://a/*", "spiffe://A/b", "spiffe://a/b?c", "spiffe://a/b#c", "spiffe://a/%62", "spiffe://a:1/b", "spiffe://u@a/b",
		"spiffe://a/./b", "spiffe://a/b/..", "spiffe:/a/b", "https://a/b", "*.example", "envoy.example.", "Envoy.example", "a..b", "-a", "a-", "10.0.0.1", "::1", "a b", "a,b", "a\n", "spiffe://a/" + strings.Repeat("b", 2048), strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a",
	} {
		if _, err := ParseIdentities([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := ParseIdentities([]string{"*", "a"}); err == nil {
		t.Error("a list beside * is taken")
	}
}

// authority is a certificate that may sign others, but for a change.
func authority(change func(*x509.Certificate)) lab.Leaf {
	return lab.Leaf{CommonName: "an authority", Change: func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		change(c)
	}}
}

// TestReload: a new certificate and a new client CA are in force at the next
// connection, and whatever is broken leaves the old ones in force and is told.
func TestReload(t *testing.T) {
	s := newStage(t, gateway)
	client := issue(s.ca, lab.Leaf{Names: []string{gateway}})
	now := time.Now()
	serial := func() string {
		t.Helper()
		cert, err := s.connect(s.client(&client))
		if err != nil {
			t.Fatal(err)
		}
		return cert.SerialNumber.String()
	}
	good := issue(s.ca, server)
	first := serial()
	cut := func(pem []byte) []byte { return pem[:len(pem)-40] }
	for _, tc := range []struct {
		rule   string
		p      pair
		ca     []byte
		change func()
		want   string // part of the fault
	}{
		{"half a certificate", pair{cut(good.cert), good.key}, s.ca.PEM, nil, "tls.crt: certificate 1 is cut off or no PEM"},
		{"half an intermediate", pair{append(bytes.Clone(good.cert), cut(s.ca.PEM)...), good.key}, s.ca.PEM, nil, "tls.crt: certificate 2 is cut off or no PEM"},
		{"half a key", pair{good.cert, cut(good.key)}, s.ca.PEM, nil, "tls.crt with "},
		{"another key", pair{good.cert, issue(s.ca, server).key}, s.ca.PEM, nil, "private key does not match public key"},
		{"an empty certificate", pair{nil, good.key}, s.ca.PEM, nil, "tls.crt: holds no certificate"},
		{"an empty CA", good, nil, nil, "ca.crt: holds no certificate"},
		{"half of the second CA", good, append(bytes.Clone(s.ca.PEM), cut(s.ca.PEM)...), nil, "ca.crt: certificate 2 is cut off or no PEM"},
		{"a CA that is none", good, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), nil, "ca.crt: certificate 1: x509"},
		{"a client's certificate for its CA", good, client.cert, nil, `ca.crt: certificate 1 ("") is no CA`},
		{"that, beside the CA", good, append(bytes.Clone(s.ca.PEM), client.cert...), nil, `ca.crt: certificate 2 ("") is no CA`},
		{"a certificate that is no CA but for its key usage", good, issue(s.ca, authority(func(c *x509.Certificate) { c.IsCA = false })).cert, nil, `ca.crt: certificate 1 ("CN=an authority") is no CA`},
		{"a CA that may not sign", good, issue(s.ca, authority(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign })).cert, nil, `ca.crt: certificate 1 ("CN=an authority") is no CA`},
		{"an expired CA", good, issue(s.ca, authority(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) })).cert, nil, "ca.crt: no CA is valid now: the last expires at 2"},
		{"a future CA", good, issue(s.ca, authority(func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) })).cert, nil, "ca.crt: no CA is valid now: the last expires at 2"},
		{"an expired certificate", issue(s.ca, lab.Leaf{Names: server.Names, NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(-time.Minute)}), s.ca.PEM, nil, "tls.crt: expired at 2"},
		{"a future certificate", issue(s.ca, lab.Leaf{Names: server.Names, NotBefore: now.Add(time.Hour), NotAfter: now.Add(2 * time.Hour)}), s.ca.PEM, nil, "tls.crt: is not valid before 2"},
		{"a client's certificate", issue(s.ca, lab.Leaf{Names: server.Names, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}), s.ca.PEM, nil, "tls.crt: is no server certificate"},
		{"a certificate without names", issue(s.ca, lab.Leaf{CommonName: "samepod.example"}), s.ca.PEM, nil, "tls.crt: has no subject alternative name"},
		{"a huge file", pair{bytes.Repeat([]byte("x"), mostBytes+1), good.key}, s.ca.PEM, nil, "tls.crt: has 1048577 bytes; allowed: at most 1048576"},
		{"no file", good, s.ca.PEM, func() { os.Remove(s.files.Key) }, "no such file"},
		{"a directory", good, s.ca.PEM, func() { os.Remove(s.files.Key); os.Mkdir(s.files.Key, 0o700) }, "tls.key: is no regular file"},
	} {
		s.write(tc.p, tc.ca)
		if tc.change != nil {
			tc.change()
		}
		err := s.keeper.look(now)
		if err == nil || !strings.Contains(err.Error(), tc.want) || s.keeper.State().Fault != err.Error() {
			t.Errorf("%s: %v, state %+v, want %q", tc.rule, err, s.keeper.State(), tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: the error tells the key", tc.rule)
		}
		if got := serial(); got != first {
			t.Errorf("%s: it is in force", tc.rule)
		}
	}
	os.Remove(s.files.Key)
	s.write(good, s.ca.PEM)
	if err := s.keeper.look(now); err != nil || s.keeper.State().Fault != "" {
		t.Fatalf("a good certificate: %v, %+v", err, s.keeper.State())
	}
	if serial() == first {
		t.Error("a good certificate is not in force")
	}

	// What was in force comes back: there is nothing to do, and nothing wrong.
	s.write(pair{good.cert, nil}, s.ca.PEM)
	_ = s.keeper.look(now)
	s.write(good, s.ca.PEM)
	if err := s.keeper.look(now); err != nil || s.keeper.State().Fault != "" {
		t.Errorf("the old files again: %v, %+v", err, s.keeper.State())
	}

	other := must(lab.NewCA("next"))
	s.write(good, other.PEM)
	if err := s.keeper.look(now); err != nil {
		t.Fatal(err)
	}
	if _, err := s.connect(s.client(&client)); err == nil {
		t.Error("a client of the CA that was removed is admitted")
	}
	next := issue(other, lab.Leaf{Names: []string{gateway}})
	if _, err := s.connect(s.client(&next)); err != nil {
		t.Errorf("a client of the new CA: %v", err)
	}
	s.write(good, append(bytes.Clone(other.PEM), s.ca.PEM...))
	if err := s.keeper.look(now); err != nil {
		t.Fatal(err)
	}
	expired := issue(other, authority(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }))
	s.write(good, slices.Concat(other.PEM, expired.cert, s.ca.PEM))
	if err := s.keeper.look(now); err != nil {
		t.Errorf("an expired CA beside good ones: %v", err)
	}
	for _, p := range []pair{client, next} {
		if _, err := s.connect(s.client(&p)); err != nil {
			t.Errorf("a bundle of both: %v", err)
		}
	}
}

// TestNoResumption: each connection proves anew who the client is.
func TestNoResumption(t *testing.T) {
	s := newStage(t, gateway)
	client := issue(s.ca, lab.Leaf{Names: []string{gateway}})
	config := s.client(&client)
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	config.VerifyConnection = func(c tls.ConnectionState) error {
		if c.DidResume {
			t.Error("a session is resumed")
		}
		return nil
	}
	for range 2 {
		if _, err := s.connect(config); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRun: files are looked at by themselves, and a fault is logged once.
func TestRun(t *testing.T) {
	s := newStage(t, gateway)
	go s.keeper.Run(t.Context(), 5*time.Millisecond)
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not within 10 s\n%s", what, &s.log)
			}
		}
	}
	s.write(pair{}, s.ca.PEM)
	eventually("the fault is told", func() bool { return s.keeper.State().Fault != "" })
	eventually("the fault is logged", func() bool { return strings.Contains(s.log.String(), "cannot use the TLS files") })
	s.write(issue(s.ca, lab.Leaf{Names: server.Names, NotAfter: time.Now().Add(30 * time.Minute)}), s.ca.PEM)
	eventually("the new certificate is in force", func() bool { return time.Until(s.keeper.State().NotAfter) < 31*time.Minute })
	if text := s.log.String(); strings.Count(text, "cannot use the TLS files") != 1 || strings.Count(text, "the certificate is in force") != 2 || strings.Contains(text, "PRIVATE") {
		t.Errorf("logged:\n%s", text)
	}
	st := s.keeper.State()
	if st.Expired(time.Now()) != "" || !strings.HasPrefix(st.Expired(st.NotAfter.Add(time.Second)), "the certificate expired at 2") {
		t.Errorf("expiry: %q", st.Expired(st.NotAfter.Add(time.Second)))
	}
}

// TestUnix: a unix socket stays as it is.
func TestUnix(t *testing.T) {
	s := newStage(t, gateway)
	l := must(net.Listen("unix", filepath.Join(t.TempDir(), "s")))
	defer l.Close()
	go func() {
		conn := must(net.Dial("unix", l.Addr().String()))
		defer conn.Close()
		io.WriteString(conn, "plain")
	}()
	conn := must(l.Accept())
	defer conn.Close()
	secured, _, err := s.keeper.Credentials().Clone().(*serverCredentials).ServerHandshake(conn)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(secured); err != nil || string(text) != "plain" {
		t.Errorf("%q, %v", text, err)
	}
}
