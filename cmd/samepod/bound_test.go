package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/samepod/samepod/lab"
)

// TestMaxConnections: silence takes no place of those who speak, what is beyond the
// limit is refused at once, and a place that is given up can be had.
func TestMaxConnections(t *testing.T) {
	i := startServe(t, minimal, "--max-connections", "2")
	for range 3 {
		silent, err := net.Dial("tcp", i.start.Listen[0])
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	check := func(conn *grpc.ClientConn, options ...grpc.CallOption) error {
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := authv3.NewAuthorizationClient(conn).Check(soon, &authv3.CheckRequest{}, options...)
		return err
	}
	first, second, third := i.dial(i.start.Listen[0]), i.dial(i.start.Listen[0]), i.dial(i.start.Listen[0])
	for range 2 {
		if err := errors.Join(check(first), check(second)); err != nil {
			t.Fatal(err)
		}
		if err := check(third); status.Code(err) != codes.Unavailable {
			t.Errorf("a third connection: %v", err)
		}
	}
	first.Close()
	if err := check(third, grpc.WaitForReady(true)); err != nil {
		t.Errorf("after another was closed: %v", err)
	}
}

// flood keeps silent connections open, and opens one for each that is closed, until
// the test ends: at most n, and at most four in a millisecond.
func flood(t *testing.T, address string, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	var filled sync.WaitGroup
	filled.Add(n)
	places := make(chan func(), n)
	for range n {
		places <- sync.OnceFunc(filled.Done)
	}
	all.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for opened := 1; ; opened++ {
			var done func()
			select {
			case <-ctx.Done():
				return
			case done = <-places:
			}
			if opened%4 == 0 {
				<-tick.C
			}
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			done()
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			all.Go(func() {
				_, _ = io.Copy(io.Discard, conn) // until it is closed
				stop()
				conn.Close()
				places <- done
			})
		}
	})
	filled.Wait()
}

// TestFlood: while thousands of clients without a certificate hold and renew silent
// connections, one with a certificate gets through the handshake before Envoy would
// give up.
func TestFlood(t *testing.T) {
	ca, secret := newCA(t), t.TempDir()
	writeServing(t, ca, ca, secret, lab.Leaf{})
	i := startServe(t, minimal, "--max-connections", "512", "--tls-cert-file", secret+"/tls.crt", "--tls-key-file", secret+"/tls.key", "--tls-client-ca-file", secret+"/ca.crt", "--tls-client-identity", "envoy.example")
	cert, key, err := ca.Issue(lab.Leaf{Names: []string{"envoy.example"}})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	config := &tls.Config{RootCAs: roots, ServerName: "samepod.example", NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	connect := func() error {
		const connectTimeout = 250 * time.Millisecond // Envoy's, as rendered
		started := time.Now()
		conn, err := tls.DialWithDialer(&net.Dialer{Deadline: started.Add(connectTimeout)}, "tcp", i.start.Listen[0], config)
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(started.Add(connectTimeout))
		_, err = conn.Read(make([]byte, 1)) // the server's SETTINGS: it took the certificate
		return err
	}
	if err := connect(); err != nil {
		t.Fatalf("without a flood: %v", err)
	}
	flood(t, i.start.Listen[0], 2*mostUnproven)
	var failed []error
	const tries = 20
	for range tries {
		if err := connect(); err != nil {
			failed = append(failed, err)
		}
		time.Sleep(30 * time.Millisecond) // so that the flood goes on around them
	}
	t.Logf("%d of %d handshakes fail", len(failed), tries)
	if len(failed) > tries/2 { // a busy machine may be slower than Envoy's patience
		t.Errorf("%d of %d handshakes fail: %v", len(failed), tries, errors.Join(failed...))
	}
}

// TestHTTPConnections: however many connections are held to the HTTP listeners, few
// are kept, and who comes next is answered.
func TestHTTPConnections(t *testing.T) {
	i := startServe(t, minimal)
	for _, address := range []string{i.start.Health, i.start.Admin} {
		var held []net.Conn
		for range mostHTTP + 50 {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			held = append(held, conn)
		}
		if status, _ := i.get(address, "/"); status != 404 {
			t.Errorf("%s: %d", address, status)
		}
		for n, conn := range held[:50] {
			conn.SetReadDeadline(time.Now().Add(5 * time.Second)) // less than httpTimeout
			if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%s: connection %d is kept beside %d later ones", address, n, mostHTTP)
			}
		}
		held[60].SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := held[60].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: a connection within the bound: %v", address, err)
		}
	}
}

// pipes is a listener whose connections are made in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error { return nil }
func (p pipes) Addr() net.Addr {
	return &net.UnixAddr{Name: "pipe", Net: "unix"}
}

// TestHTTPTimeouts: how long a client of the HTTP listeners may keep them waiting.
func TestHTTPTimeouts(t *testing.T) {
	const ask = "GET / HTTP/1.1\r\nHost: x\r\n"
	for _, tc := range []struct {
		rule          string
		answer, works time.Duration // that it may take, and that it takes
		send          string
		read          bool          // what is answered
		ends          time.Duration // when the connection is closed
	}{
		{"silence", httpTimeout, 0, "", true, httpTimeout},
		{"half a request", httpTimeout, 0, ask, true, httpTimeout},
		{"half of a body", httpTimeout, 0, ask + "Content-Length: 9\r\n\r\nx", true, httpTimeout},
		{"idle after an answer", httpTimeout, 0, ask + "\r\n", true, httpTimeout},
		{"an answer that nobody reads", httpTimeout, 0, ask + "\r\n", false, httpTimeout},
		{"a profile", profileTimeout, 30 * time.Second, ask + "\r\n", true, 30*time.Second + httpTimeout},
		{"a profile that nobody reads", profileTimeout, 30 * time.Second, ask + "\r\n", false, profileTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(tc.works):
					io.WriteString(w, strings.Repeat("x", 1<<16))
				case <-r.Context().Done():
				}
			}), tc.answer)
			l := make(pipes)
			served := make(chan error)
			go func() { served <- serveHTTP(s, l) }()
			client, server := net.Pipe()
			closed := &closing{Conn: server, at: make(chan time.Time, 1)}
			l <- closed
			started := time.Now()
			io.WriteString(client, tc.send)
			if tc.read {
				got, _ := io.ReadAll(bufio.NewReader(client))
				// What half a body gets is a race between its two timeouts; that it ends is not.
				if whole := strings.HasSuffix(tc.send, "\r\n\r\n"); whole && len(got) <= 1<<16 {
					t.Errorf("%s: an answer of %d bytes", tc.rule, len(got))
				}
			}
			if took := (<-closed.at).Sub(started); took != tc.ends {
				t.Errorf("%s: it is closed after %v, want %v", tc.rule, took, tc.ends)
			}
			close(l)
			<-served
			client.Close()
			s.Close()
		})
	}
}

// closing is a connection that tells when it is closed.
type closing struct {
	net.Conn
	at   chan time.Time
	once sync.Once
}

func (c *closing) Close() error {
	c.once.Do(func() { c.at <- time.Now() })
	return c.Conn.Close()
}

// TestOldestGoes: beyond the bound the connection that has had the most time is closed,
// and nobody else.
func TestOldestGoes(t *testing.T) {
	l := make(pipes, 3)
	bound := &boundListener{Listener: l, mostUnproven: 2}
	var closed []*closing
	for range 3 {
		_, server := net.Pipe()
		c := &closing{Conn: server, at: make(chan time.Time, 1)}
		closed = append(closed, c)
		l <- c
		if _, err := bound.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range closed {
		if got, want := len(c.at) == 1, i == 0; got != want {
			t.Errorf("connection %d is closed: %v", i, got)
		}
	}
}
