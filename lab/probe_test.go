package lab_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/samepod/samepod/lab"
)

// A probe sends requests to an Envoy and says how they were answered.
type probe func(s *stage, e *lab.Envoy) string

// http1 and http2 wait for any answer, and go where nobody tells them to.
var http1, http2 = newClient(func(p *http.Protocols) { p.SetHTTP1(true) }), newClient(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })

func newClient(speaks func(*http.Protocols)) *http.Client {
	protocols := new(http.Protocols)
	speaks(protocols)
	return &http.Client{
		Transport:     &http.Transport{Protocols: protocols, DisableCompression: true},
		Timeout:       60 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answered is the status and the reason of an answer, and its time limit.
func answered(client *http.Client, method, url, body string, claim []string, header ...string) string {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	for i := 0; i < len(claim); i += 2 {
		req.Header.Add(claim[i], claim[i+1])
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "host" {
			req.Host = header[i+1]
		}
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Sprintf("%d broken off", resp.StatusCode)
	}
	if reason := resp.Header.Get("x-samepod-reason"); reason != "" {
		return fmt.Sprintf("%d %s", resp.StatusCode, reason)
	}
	return fmt.Sprint(resp.StatusCode)
}

func (s *stage) claim() []string { return claimOn(s.a.Name, s.a.UID, s.a.Addr.Addr()) }

// named are header pairs with the names of the stage.
func (s *stage) named(header []string) []string {
	header = slices.Clone(header)
	for i := range header {
		header[i] = s.names.Replace(header[i])
	}
	return header
}

func bodyFor(path string) string {
	if strings.HasPrefix(path, "/command") {
		return `{"command":"ls"}`
	}
	return ""
}

// ask sends a request that means A and is to be allowed.
func ask(method, path string, header ...string) probe {
	return func(s *stage, e *lab.Envoy) string {
		return answered(s.http, method, e.URL(path), bodyFor(path), s.claim(), s.named(header)...)
	}
}

// askDenied sends a request that means a Pod that A has replaced.
func askDenied(header ...string) probe {
	return func(s *stage, e *lab.Envoy) string {
		return answered(s.http, "POST", e.URL("/command"), bodyFor("/command"), claimOn(s.a.Name, "uid-old", s.a.Addr.Addr()), s.named(header)...)
	}
}

// askUntilPicked asks until Envoy picks the host that was verified.
func askUntilPicked(s *stage, e *lab.Envoy) (got string) {
	for range 10 {
		if got = ask("POST", "/command")(s, e); got == "200" {
			break
		}
	}
	return got
}

// askNobody sends a request that means a Pod that does not accept connections.
func askNobody(s *stage, e *lab.Envoy) string {
	return answered(s.http, "POST", e.URL("/command"), bodyFor("/command"), claimOn("nobody", "uid-nobody", s.nobody), "host", s.names.Replace("$NAME:$PORT"))
}

// askWithoutClaim asks for what is not samepod's.
func askWithoutClaim(path string) probe {
	return func(s *stage, e *lab.Envoy) string { return answered(s.http, "GET", e.URL(path), "", nil) }
}

// otherPort is of a process on A's address that no verdict can name.
const otherPort = lab.ExecdPort + 1

// askBesideOther asks while somebody listens on another port of A's address.
func askBesideOther(s *stage, e *lab.Envoy) string {
	s.join("other", netip.AddrPortFrom(s.a.Addr.Addr(), otherPort))
	return ask("GET", "/ping")(s, e)
}

// askSuccessor asks A, then gives the address to B while A's connections stay, and
// asks for B by its uid.
func askSuccessor(s *stage, e *lab.Envoy) string {
	ask("GET", "/nowhere")(s, e)
	eventually(s.t, "Envoy knows A", func() bool { // until then each request has a pool of its own
		n, _ := e.Stat("cluster.samepod_verified.membership_total") // of a gauge that is not there yet, too
		return n > 0
	})
	first := ask("GET", "/ping")(s, e)
	s.handOver()
	second := answered(s.http, "POST", e.URL("/command"), bodyFor("/command"), claimOn("b-successor", "uid-b-successor", s.a.Addr.Addr()))
	return first + ", for B " + second
}

// askBehindBusy keeps A busy, asks it for something else, and gives its address to
// B as soon as that was answered or waits for a connection.
func askBehindBusy(s *stage, e *lab.Envoy) string {
	stat := func(name string) int {
		n, _ := e.Stat("cluster.samepod_verified." + name) // of a counter that is not there yet, too
		return n
	}
	ask("GET", "/ping")(s, e)
	eventually(s.t, "Envoy knows A", func() bool { return stat("membership_total") > 0 }) // until then each request has a pool of its own
	go answered(s.http, "GET", e.URL("/wait?for=20s"), "", s.claim())
	eventually(s.t, "A is busy", func() bool {
		return slices.ContainsFunc(s.a.Executed(), func(x lab.Execution) bool { return x.Command == "wait" })
	})
	second := make(chan string, 1)
	go func() { second <- ask("POST", "/command")(s, e) }()
	eventually(s.t, "the second request is answered or waits", func() bool {
		return len(second) == 1 || stat("upstream_cx_overflow") > 0
	})
	s.handOver()
	s.a.Stop()
	return <-second
}

// askUpload sends more than an authorization server should read.
func askUpload(s *stage, e *lab.Envoy) string {
	return answered(s.http, "POST", e.URL("/files/upload"), strings.Repeat("x", 100_000), s.claim())
}

// askForSeconds reads a stream that would last 20 s for at most 6.
func askForSeconds(s *stage, e *lab.Envoy) string {
	client := *s.http
	client.Timeout = 6 * time.Second
	started := time.Now()
	answered(&client, "POST", e.URL("/command?ticks=200&every=100ms"), bodyFor("/command"), s.claim())
	if time.Since(started) > 5900*time.Millisecond {
		return "still open"
	}
	return "cut"
}

// askHole asks for a Pod whose packets vanish, and waits 3 s.
func askHole(s *stage, e *lab.Envoy) string {
	client := *s.http
	client.Timeout = 3 * time.Second
	return answered(&client, "GET", e.URL("/ping"), "", claimOn("hole", "uid-hole", s.hole))
}

// dig makes a listener that answers to nobody: its queue is full, so that the
// kernel drops who comes.
func dig(t *testing.T, at netip.AddrPort) {
	t.Helper()
	fd := must(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0))(t)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		conn, err := net.DialTimeout("tcp", at.String(), 200*time.Millisecond)
		if err != nil {
			return
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("a listener whose queue is full still answers")
}

// askLate starts the authorization server when Envoy has missed it, and asks for 3 s.
func askLate(s *stage, e *lab.Envoy) string {
	eventually(s.t, "Envoy misses its authorization server", func() bool {
		n, err := e.Stat("cluster.samepod_authz.health_check.failure")
		return err == nil && n > 0
	})
	authz := must(s.StartAuthzServerAt(s.late))(s.t)
	defer authz.Stop()
	authz.Say(believer)
	got := ""
	for started := time.Now(); time.Since(started) < 3*time.Second && got != "200"; time.Sleep(20 * time.Millisecond) {
		got = answered(s.http, "GET", e.URL("/ping"), "", s.claim())
	}
	return got
}

// seenByPod asks, and says which of these headers the Pod got.
func seenByPod(path string, names []string, header ...string) probe {
	return func(s *stage, e *lab.Envoy) string {
		before := len(s.a.Executed())
		got := ask("GET", path, header...)(s, e)
		if ran := s.a.Executed(); len(ran) > before {
			for _, name := range names {
				for at, values := range ran[len(ran)-1].Header {
					if strings.EqualFold(at, name) {
						got += fmt.Sprintf(", %s: %s", name, strings.ReplaceAll(strings.Join(values, " "), s.a.UID, "uid-a"))
					}
				}
			}
		}
		return got
	}
}

// askWithTrailers sends trailers, forged ones among them, and counts those that
// arrive on either side.
func askWithTrailers(s *stage, e *lab.Envoy) string {
	req := must(http.NewRequest("POST", e.URL("/trailers"), io.MultiReader(strings.NewReader("body"))))(s.t)
	claim := s.claim()
	for i := 0; i < len(claim); i += 2 {
		req.Header.Set(claim[i], claim[i+1])
	}
	req.Trailer = http.Header{"X-Samepod-Pod-Uid": {"evil"}, "X-Samepod-Target": {"sandboxes/b-0"}}
	resp, err := s.http.Do(req)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	text := string(must(io.ReadAll(resp.Body))(s.t))
	var atPod int
	if _, err := fmt.Sscanf(text, "body and %d trailers", &atPod); err != nil {
		return fmt.Sprintf("%d %q", resp.StatusCode, text)
	}
	return fmt.Sprintf("%d, %d trailers at the Pod, %d at the caller", resp.StatusCode, atPod, len(resp.Trailer))
}

// unusedAddress is of loopback, and nobody listens on it.
func unusedAddress(t *testing.T) netip.AddrPort {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}
