package lab_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/samepod/samepod/lab"
)

// repeated is one header of the claim, sent once more with this value, where $SAME
// is the value that it has.
func repeated(name, value string) probe {
	return func(s *stage, e *lab.Envoy) string {
		claim := s.claim()
		was := claim[slices.Index(claim, strings.ToLower(name))+1]
		return ask("GET", "/ping", name, strings.ReplaceAll(value, "$SAME", was))(s, e)
	}
}

// instead is a claim with one header replaced.
func instead(name, value string) probe {
	return func(s *stage, e *lab.Envoy) string {
		claim := s.claim()
		at := slices.Index(claim, name) + 1
		claim[at] = strings.ReplaceAll(value, "$SAME", claim[at])
		return answered(s.http, "GET", e.URL("/ping"), "", claim)
	}
}

// callers are the protocols that clients speak.
var callers = map[string]*http.Client{"HTTP-1.1": http1, "HTTP-2": http2}

// asks are requests over HTTP/1.1 and HTTP/2.
var asks = []struct {
	what  string
	probe probe
	want  string
}{
	{"the control", ask("GET", "/ping"), "200 ping@A"},
	{"a command", ask("POST", "/command"), "200 ls@A"},
	{"another uid", askDenied(), "409 pod-replaced"},
	{"a target twice, the same", repeated("x-samepod-target", "$SAME"), "400 claim-conflict"},
	{"a target twice, B's", repeated("x-samepod-target", "sandboxes/b-0"), "400 claim-conflict"},
	{"a target twice, empty", repeated("x-samepod-target", ""), "400 claim-conflict"},
	{"a uid twice, the same", repeated("x-samepod-expect-pod-uid", "$SAME"), "400 claim-conflict"},
	{"a uid twice, B's", repeated("x-samepod-expect-pod-uid", "uid-b-0"), "400 claim-conflict"},
	{"an address twice, the same", repeated("x-samepod-recorded", "$SAME"), "400 claim-conflict"},
	{"an address twice, B's", repeated("x-samepod-recorded", "$B"), "400 claim-conflict"},
	{"a name in capitals", repeated("X-SAMEPOD-TARGET", "sandboxes/b-0"), "400 claim-conflict"},
	{"targets joined", instead("x-samepod-target", "$SAME,sandboxes/b-0"), "400 claim-conflict"},
	{"uids joined", instead("x-samepod-expect-pod-uid", "$SAME, uid-b-0"), "400 claim-conflict"},
	{"addresses joined", instead("x-samepod-recorded", "$SAME,$SAME"), "400 claim-conflict"},
	{"another port besides", ask("GET", "/ping", "x-samepod-port", "44773"), "400 claim-conflict"},
	{"an address with a zone", instead("x-samepod-recorded", "[fe80::1%eth0]:44772"), "400 claim-malformed"},
	{"a mapped address", instead("x-samepod-recorded", "[::ffff:127.0.0.2]:44772"), "400 claim-malformed"},
	{"a long target", instead("x-samepod-target", "sandboxes/"+strings.Repeat("a", 20_000)), "400 claim-malformed"},
	{"50 kB of headers", ask("GET", "/ping", "x-big", strings.Repeat("a", 50_000)), "200 ping@A"},
	{"70 kB of headers", tooLarge(ask("GET", "/ping", "x-big", strings.Repeat("a", 70_000))), "too large"},
	{"70 kB in a claim", tooLarge(instead("x-samepod-target", strings.Repeat("a", 70_000))), "too large"},
	{"200 headers", tooLarge(ask("GET", "/ping", strings.Fields(strings.Repeat("x-many 1 ", 200))...)), "too large"},
	{"TRACE", ask("TRACE", "/ping"), "405"},
	{"trailers", askWithTrailers, "200, 0 trailers at the Pod, 0 at the caller trailers@A"},
}

// tooLarge is 431 in HTTP/1.1; in HTTP/2 Envoy resets the stream.
func tooLarge(p probe) probe {
	return func(s *stage, e *lab.Envoy) string {
		got := p(s, e)
		if want := map[*http.Client]string{http1: "431", http2: "no answer"}[s.http]; got == want {
			return "too large"
		}
		return got
	}
}

var rawAsks = []struct {
	what  string
	probe probe
	want  string
}{
	{"CONNECT without a path", bytesOf("CONNECT sandbox:44772 HTTP/1.1\n$CLAIM\n"), "404"},
	{"CONNECT to a path", bytesOf("CONNECT /ping HTTP/1.1\n$CLAIM\n"), "400"},
	{"OPTIONS for everybody", bytesOf("OPTIONS * HTTP/1.1\n$CLAIM\n"), "404"},
	{"an absolute form", bytesOf("GET http://b.test/ping HTTP/1.1\n$CLAIM\n"), "200 ping@A"},
	{"HTTP/1.0", bytesOf("GET /ping HTTP/1.0\n$CLAIM\n"), "426"},
	{"two lengths", bytesOf("POST /command HTTP/1.1\n$CLAIMcontent-length: 2\ncontent-length: 16\n\n" + `{"command":"ls"}`), "400"},
	{"a length and chunks", bytesOf("POST /command HTTP/1.1\n$CLAIMcontent-length: 16\ntransfer-encoding: chunked\n\n10\n" + `{"command":"ls"}` + "\n0\n\n"), "400"},
	{"no such encoding", bytesOf("POST /command HTTP/1.1\n$CLAIMtransfer-encoding: xchunked\n\n0\n\n"), "501"},
	{"a header without a name", bytesOf("GET /ping HTTP/1.1\n$CLAIM: x\n\n"), "400"},
	{"an upgrade to HTTP/2", bytesOf("GET /ping HTTP/1.1\n$CLAIMconnection: upgrade, http2-settings\nupgrade: h2c\nhttp2-settings: AAMAAABkAAQAAP__\n\n"), "200 ping@A"},
	{"an upgrade to something else", bytesOf("GET /ping HTTP/1.1\n$CLAIMconnection: upgrade\nupgrade: foo\n\n"), "403"},
}

// TestHostileClient: whatever a caller sends reaches A once, or nobody.
func TestHostileClient(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		t.Parallel()
		th, stages := newTheatre(t, version, 1)
		t.Cleanup(th.checkShared)
		s := stages[0]
		s.name()
		e := th.renderedEnvoy(t, both)
		check := func(what string, p probe, want string) {
			t.Run(what, func(t *testing.T) {
				s.t = t
				if got := s.play(e, p, want); got != want {
					t.Errorf("%s; want %s", got, want)
				}
			})
		}
		for name, client := range callers {
			s.http = client
			for _, tc := range asks {
				check(name+"/"+tc.what, tc.probe, tc.want)
			}
		}
		s.http = http1
		for _, tc := range rawAsks {
			check("bytes/"+tc.what, tc.probe, tc.want)
		}
	})
}

// TestPathHardening: what a dialect that reads the path must not see differently
// from the Pod is refused if it is asked for, before anybody is asked.
func TestPathHardening(t *testing.T) {
	rows := []struct {
		what      string
		probe     probe
		off, hard string
	}{
		{"the control", ask("GET", "/ping"), "200 ping@A", "200 ping@A"},
		{"an escaped slash", ask("GET", "/files%2Fdownload"), "404", "400"},
		{"an escaped backslash", ask("GET", "/files%5Cdownload"), "404", "400"},
		{"an escaped slash in the query", ask("GET", "/files/download?path=%2Fetc"), "200 download /etc@A", "200 download /etc@A"},
		{"dots", bytesOf("GET /other/../ping HTTP/1.1\n$CLAIM\n"), "200 ping@A", "200 ping@A"},
		{"escaped dots", bytesOf("GET /other/%2e%2e/ping HTTP/1.1\n$CLAIM\n"), "200 ping@A", "200 ping@A"},
		{"two slashes", ask("GET", "//ping"), "307", "200 ping@A"},
		{"a header with an underscore", ask("GET", "/ping", "x_other", "1"), "200 ping@A", "400"},
		{"a claim with an underscore", ask("GET", "/ping", "x_samepod_target", "sandboxes/b-0"), "200 ping@A", "400"},
	}
	onEveryEnvoy(t, func(t *testing.T, version string) {
		t.Parallel()
		th, stages := newTheatre(t, version, 1)
		t.Cleanup(th.checkShared)
		s := stages[0]
		s.name()
		for _, row := range rows {
			for arrangement, want := range map[string]string{both: row.off, both + " --path-hardening": row.hard} {
				if got := s.play(th.renderedEnvoy(t, arrangement), row.probe, want); got != want {
					t.Errorf("%s, %s: %s; want %s", row.what, arrangement, got, want)
				}
			}
		}
	})
}
