package lab_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/samepod/samepod/lab"
)

// What is under way when a Pod vanishes.
const (
	keptRequest = "a request on a kept connection" // from 1.38
	upload      = "an upload"
	quietStream = "a quiet stream"
)

// ending is how a request ended that was under way.
type ending struct {
	what   string
	at     time.Time
	broken bool // the answer had begun, and broke off
	answer call // otherwise
	err    error
}

// blackHole is what is under way through one Envoy to a Pod that is about to vanish.
type blackHole struct {
	*testing.T
	envoy    *lab.Envoy
	claim    []string
	vanished chan struct{} // closed when it has
	ended    chan ending

	underWay int // how many endings there will be
	requests int // made
}

// start returns when everything is under way.
func (b *blackHole) start(pod *lab.Pod, kept bool) {
	b.Helper()
	before := uploads(pod)
	reader, writer := io.Pipe()
	go b.follow(upload, "POST", "/files/upload", reader)
	if _, err := writer.Write([]byte("begins")); err != nil {
		b.Fatal(err)
	}
	eventually(b.T, "the upload begins", func() bool { return uploads(pod) > before })
	go func() {
		<-b.vanished
		_, _ = writer.Write([]byte("goes on")) // the answer tells
	}()

	resp, err := b.send("POST", "/command?ticks=1&every=1h", strings.NewReader(`{"command":"sleep"}`))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
	go b.finish(quietStream, resp, nil)

	b.underWay, b.requests = 2, 2
	warm(b.T, pod, kept, func() call {
		b.requests++
		return do(b.T, "GET", b.envoy.URL("/ping"), "", b.claim...)
	})
	if kept {
		b.underWay++
		b.requests++
		go func() {
			<-b.vanished
			b.follow(keptRequest, "GET", "/ping", nil)
		}()
	}
}

func uploads(pod *lab.Pod) (n int) {
	for _, e := range pod.Executed() {
		if e.Command == "upload" {
			n++
		}
	}
	return n
}

func (b *blackHole) send(method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(b.Context(), method, b.envoy.URL(path), body)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(b.claim); i += 2 {
		req.Header.Set(b.claim[i], b.claim[i+1])
	}
	return httpClient.Do(req)
}

func (b *blackHole) follow(what, method, path string, body io.Reader) {
	resp, err := b.send(method, path, body)
	b.finish(what, resp, err)
}

func (b *blackHole) finish(what string, resp *http.Response, err error) {
	end := ending{what: what, err: err}
	if err == nil {
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		end.broken = err != nil
		end.answer = call{resp.StatusCode, resp.Header, string(text)}
	}
	end.at = time.Now()
	b.ended <- end
}

// tolerance is for slow machines: what is under way began up to a second or two
// before the Pod vanished. It is less than half of what the option makes different.
const tolerance = 3 * time.Second

// check holds every ending to the time that it should take.
func (b *blackHole) check(since time.Time, want map[string]time.Duration, status int, reason string) {
	b.Helper()
	for range b.underWay {
		end := <-b.ended
		took := end.at.Sub(since).Round(10 * time.Millisecond)
		b.Logf("%s: %s ended after %v", b.envoy.Name, end.what, took)
		if d := took - want[end.what]; d.Abs() > tolerance {
			b.Errorf("%s: %s ended after %v, want %v", b.envoy.Name, end.what, took, want[end.what])
		}
		switch {
		case end.err != nil:
			b.Errorf("%s: %s: %v", b.envoy.Name, end.what, end.err)
		case end.what == quietStream:
			if end.answer.status != 200 || !end.broken {
				b.Errorf("%s: %s: %d, broken %v", b.envoy.Name, end.what, end.answer.status, end.broken)
			}
		default:
			checkProblem(b.T, b.envoy.Name+": "+end.what, end.answer, status, reason, "unknown")
		}
	}
	asked := time.Now()
	b.requests++
	checkProblem(b.T, "a new connection", do(b.T, "GET", b.envoy.URL("/ping"), "", b.claim...), 503, "pod-unreachable", false)
	took := time.Since(asked).Round(10 * time.Millisecond)
	b.Logf("%s: a new connection ended after %v", b.envoy.Name, took)
	if took > tolerance {
		b.Errorf("%s: a new connection ended after %v, want 0.5 s", b.envoy.Name, took)
	}
}

var socketOption = regexp.MustCompile(`(?m)^ *upstream_bind_config:\n *socket_options: .*TCP_USER_TIMEOUT.*\n`)

// TestBlackHole: a Pod's interface vanishes without a FIN, and nobody gets its
// address. TCP_USER_TIMEOUT ends what waits for an acknowledgement, keepalive what
// waits for an answer, and the connect timeout whatever is new. Without the socket
// option, which is the control, what waits for an acknowledgement does so for as
// long as a stream may last: there are no keepalive probes while data is on its way.
func TestBlackHole(t *testing.T) {
	const (
		userTimeout    = 2 * time.Second
		streamDuration = 14 * time.Second
		// The first probe is sent after 5 s. 2 s later, at the next look, the option has
		// been exceeded; without it there are three probes. The caller of a broken answer
		// is told another 1 s later, by Envoy's delayed_close_timeout.
		keepalive, keepaliveAlone = 8 * time.Second, 12 * time.Second
	)
	onNode(t, func(t *testing.T) {
		onEveryEnvoy(t, func(t *testing.T, version string) {
			t.Parallel()
			prefixes := dualStack(version)
			a := newNodeArm(t, prefixes, nil)
			config := a.bootstrap(version, a.samepod.Authz.String(), "--check-timeout", "5s", "--tcp-user-timeout", userTimeout.String(), "--stream-duration", streamDuration.String())
			without := socketOption.ReplaceAll(config, nil)
			if len(without) == len(config) {
				t.Fatal("there is no socket option to take out")
			}
			pod := a.plug("a", "uid-a", prefixes, 5)
			a.set("a", "uid-a", "Running", pod.Addr.Addr())
			vanished := make(chan struct{})
			start := func(name string, config []byte) *blackHole {
				a.envoy = must(a.StartEnvoy(t.Context(), name, envoyBinary(t, version), config))(t)
				a.waitVerdicts()
				b := &blackHole{T: t, envoy: a.envoy, claim: claimOn("a", "uid-a", pod.Addr.Addr()), vanished: vanished, ended: make(chan ending, 3)}
				b.start(pod, minor(version) >= 38)
				return b
			}
			product, control := start("as rendered", config), start("without the option", without)
			if err := pod.Network.Unplug(); err != nil {
				t.Fatal(err)
			}
			since := time.Now()
			close(vanished)

			product.check(since, map[string]time.Duration{keptRequest: userTimeout, upload: userTimeout, quietStream: keepalive}, 502, "upstream-reset")
			a.envoy = product.envoy
			a.invariant(product.requests)
			control.check(since, map[string]time.Duration{keptRequest: streamDuration, upload: streamDuration, quietStream: keepaliveAlone}, 504, "upstream-timeout")
		})
	})
}
