package lab_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/samepod/samepod/lab"
)

// Probes that no HTTP library would send.

// raw sends bytes and reads one answer, whatever it is.
func raw(t *testing.T, to netip.AddrPort, text string) string {
	t.Helper()
	conn := must(net.Dial("tcp", to.String()))(t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		return "no answer"
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "no answer"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, resp.Header.Get("x-samepod-reason")))
}

// bytesOf sends a request that no library would.
func bytesOf(text string) probe {
	return func(s *stage, e *lab.Envoy) string {
		text := strings.NewReplacer("$CLAIM", rawHeaders(s.claim())+"host: x\r\n", "\n", "\r\n").Replace(text)
		return raw(s.t, e.Addr, text)
	}
}

// askBehindProxy is askDenied behind a PROXY protocol header that names B as the
// destination, as any client can write it that reaches the listener.
func askBehindProxy(s *stage, e *lab.Envoy) string {
	denied := claimOn(s.a.Name, "uid-old", s.a.Addr.Addr())
	return raw(s.t, e.Addr, fmt.Sprintf("PROXY TCP4 127.0.0.1 %v 1 %d\r\nGET /ping HTTP/1.1\r\nhost: x\r\n%s\r\n", s.b.Addr.Addr(), s.b.Addr.Port(), rawHeaders(denied)))
}

// askThroughTunnel asks for a tunnel to A, and sends a request through it that says
// nothing of its own.
func askThroughTunnel(s *stage, e *lab.Envoy) string {
	conn := must(net.Dial("tcp", e.Addr.String()))(s.t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	answers := bufio.NewReader(conn)
	fmt.Fprintf(conn, "CONNECT a.test:44772 HTTP/1.1\r\nhost: a.test:44772\r\n%s\r\n", rawHeaders(s.claim()))
	first, err := http.ReadResponse(answers, &http.Request{Method: "CONNECT"})
	if err != nil {
		return "no answer"
	}
	if first.StatusCode != 200 {
		return strings.TrimSpace(fmt.Sprintf("%d %s", first.StatusCode, first.Header.Get("x-samepod-reason")))
	}
	fmt.Fprint(conn, "GET /ping HTTP/1.1\r\nhost: a.test\r\n\r\n")
	second, err := http.ReadResponse(answers, nil)
	if err != nil {
		return "200, then nothing"
	}
	return fmt.Sprintf("200, then %d", second.StatusCode)
}

// askSwitch sends two requests on one connection. The Pod answers 101 to the first
// one, though it asked for no upgrade, and goes on with an answer for whoever reads
// next. Envoy passes the bare 101 on, and nothing that stands behind it.
func askSwitch(s *stage, e *lab.Envoy) string {
	conn := must(net.Dial("tcp", e.Addr.String()))(s.t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	answers := bufio.NewReader(conn)
	got := ""
	for i, path := range []string{"/switch", "/ping"} {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nhost: x\r\n%s\r\n", path, rawHeaders(s.claim()))
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			return fmt.Sprintf("%s, then %v", got, err)
		}
		if i == 0 {
			got = fmt.Sprintf("%d%s", resp.StatusCode, resp.Header.Get("upgrade"))
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		got += fmt.Sprintf(", then %d%s", resp.StatusCode, resp.Header.Get("x-samepod-reason"))
	}
	return got
}
