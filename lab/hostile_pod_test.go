package lab_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/samepod/samepod/lab"
)

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

// TestHostilePod: whatever a Pod answers, the caller can tell it from samepod's and
// Envoy's own answers, and nothing else is executed for it.
func TestHostilePod(t *testing.T) {
	rows := []struct {
		what  string
		probe probe
		want  from
	}{
		{"headers of ours", ask("GET", "/forge"), from{36: "200 forge@A"}},
		{"early hints with headers of ours", bytesOf("GET /hints HTTP/1.1\n$CLAIM\n"), from{36: "200 hints@A"}},
		{"an upgrade that nobody asked for", askSwitch, from{36: "101, then 200 switch@A ping@A"}},
		{"trailers of ours", askWithTrailers, from{36: "200, 0 trailers at the Pod, 0 at the caller trailers@A"}},
		{"a redirect to B", ask("GET", "/redirect?to=http://b.test/ping"), from{36: "302 redirect@A"}},
		{"a 409 of its own", ask("GET", "/pty"), from{36: "409 pty@A"}},
		{"a reset", ask("POST", "/reset"), from{36: "502 upstream-reset reset@A"}},
	}
	onEveryEnvoy(t, func(t *testing.T, version string) {
		t.Parallel()
		th, stages := newTheatre(t, version, 1)
		t.Cleanup(th.checkShared)
		s := stages[0]
		s.name()
		for _, row := range rows {
			for name, client := range callers {
				s.http = client
				want := row.want.at(minor(version))
				if got := s.play(th.renderedEnvoy(both), row.probe, want); got != want {
					t.Errorf("%s, %s: %s; want %s", name, row.what, got, want)
				}
			}
		}
	})
}
