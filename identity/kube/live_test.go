package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

func newLive(t *testing.T, handler http.Handler, scope []string) *Live {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	l, err := NewLive(Options{Kubeconfig: kubeconfig(t, server.URL), UserAgent: "samepod"}, []LiveKind{{
		Resource: boxes, Decode: decodeBox,
		Queries: func(c identity.Claim) []sandbox.Query {
			return []sandbox.Query{{Name: c.Sandbox}, {Label: "example.com/id", Value: c.Sandbox}}
		},
	}}, scope)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var boxA = sandbox.Sandbox{Kind: boxes.Owner(), NamespacedName: identity.NamespacedName{Namespace: "ns", Name: "a"}, UID: "A", Version: "7"}

// live are the calls of a Live, each with what it came to.
var live = map[string]func(context.Context, *Live) string{
	"get": func(ctx context.Context, l *Live) string {
		s, found, err := l.Get(ctx, boxes.Owner(), boxA.NamespacedName)
		return outcome(s, found, err)
	},
	"pod": func(ctx context.Context, l *Live) string {
		p, found, err := l.Pod(ctx, identity.NamespacedName{Namespace: "ns", Name: "p"})
		return outcome(sandbox.Sandbox{UID: p.UID}, found, err)
	},
	"pin": func(ctx context.Context, l *Live) string {
		s, err := l.Annotate(ctx, boxA, "v1 pin")
		return outcome(s, err == nil, err)
	},
	"unpin": func(ctx context.Context, l *Live) string {
		s, err := l.Annotate(ctx, boxA, "")
		return outcome(s, err == nil, err)
	},
	"find": func(ctx context.Context, l *Live) string {
		all, err := l.Find(ctx, identity.Claim{Sandbox: "a"})
		return outcomes(all, err)
	},
	"find in ns": func(ctx context.Context, l *Live) string {
		all, err := l.Find(ctx, identity.Claim{Sandbox: "a", Namespace: "ns"})
		return outcomes(all, err)
	},
	"find in nowhere": func(ctx context.Context, l *Live) string {
		all, err := l.Find(ctx, identity.Claim{Sandbox: "a", Namespace: "nowhere"})
		return outcomes(all, err)
	},
	"find no label": func(ctx context.Context, l *Live) string {
		all, err := l.Find(ctx, identity.Claim{Sandbox: "a,b!=c"})
		return outcomes(all, err)
	},
}

func outcome(s sandbox.Sandbox, found bool, err error) string {
	switch {
	case errors.Is(err, sandbox.ErrConflict):
		return "conflict"
	case errors.Is(err, sandbox.ErrForbidden):
		return "forbidden"
	case err != nil:
		return err.Error()
	case !found:
		return "none"
	}
	return fmt.Sprintf("%s version %q", s.UID, s.Version)
}

func outcomes(all []sandbox.Sandbox, err error) string {
	if err != nil {
		return outcome(sandbox.Sandbox{}, false, err)
	}
	var text []string
	for _, s := range all {
		text = append(text, string(s.UID))
	}
	return strings.Join(text, " ")
}

// TestLiveRequests: what is asked is exactly this. Nothing may be answered from a cache
// (resourceVersion=0), and a pin is for one version of one object.
func TestLiveRequests(t *testing.T) {
	const base = "/apis/sandbox.example.com/v2"
	for _, tc := range []struct {
		call  string
		scope []string
		want  []string // in any order
	}{
		{"get", nil, []string{"GET " + base + "/namespaces/ns/boxes/a"}},
		{"pod", nil, []string{"GET /api/v1/namespaces/ns/pods/p"}},
		{"pin", nil, []string{"PATCH " + base + `/namespaces/ns/boxes/a {"metadata":{"annotations":{"samepod.dev/pin":"v1 pin"},"resourceVersion":"7","uid":"A"}}`}},
		{"unpin", nil, []string{"PATCH " + base + `/namespaces/ns/boxes/a {"metadata":{"annotations":{"samepod.dev/pin":null},"resourceVersion":"7","uid":"A"}}`}},
		{"find", nil, []string{
			"GET " + base + "/boxes?fieldSelector=metadata.name%3Da&limit=10",
			"GET " + base + "/boxes?labelSelector=example.com%2Fid%3Da&limit=10",
		}},
		{"find", []string{"ns", "ms"}, []string{
			"GET " + base + "/namespaces/ms/boxes?fieldSelector=metadata.name%3Da&limit=10",
			"GET " + base + "/namespaces/ms/boxes?labelSelector=example.com%2Fid%3Da&limit=10",
			"GET " + base + "/namespaces/ns/boxes?fieldSelector=metadata.name%3Da&limit=10",
			"GET " + base + "/namespaces/ns/boxes?labelSelector=example.com%2Fid%3Da&limit=10",
		}},
		{"find in ns", []string{"ns", "ms"}, []string{
			"GET " + base + "/namespaces/ns/boxes?fieldSelector=metadata.name%3Da&limit=10",
			"GET " + base + "/namespaces/ns/boxes?labelSelector=example.com%2Fid%3Da&limit=10",
		}},
		{"find in ns", nil, []string{
			"GET " + base + "/namespaces/ns/boxes?fieldSelector=metadata.name%3Da&limit=10",
			"GET " + base + "/namespaces/ns/boxes?labelSelector=example.com%2Fid%3Da&limit=10",
		}},
		{"find in nowhere", []string{"ns", "ms"}, nil},
		{"find in nowhere", []string{}, nil},
		{"find no label", nil, []string{"GET " + base + `/boxes?fieldSelector=metadata.name%3Da%5C%2Cb%21%5C%3Dc&limit=10`}},
	} {
		e := newEngineServer("v2", "v1")
		live[tc.call](t.Context(), newLive(t, e, tc.scope))
		got := e.asked("")
		slices.Sort(got)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s in %q asks\n%s\nwant\n%s", tc.call, tc.scope, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
	}
}

// TestFindBudget: made up names cost the API server no more in a scope of many namespaces
// than in one.
func TestFindBudget(t *testing.T) {
	scope := make([]string, 100)
	for i := range scope {
		scope[i] = fmt.Sprint("ns-", i)
	}
	e := newEngineServer("v2", "v1")
	l := newLive(t, e, scope)
	began, busy := time.Now(), 0
	for range 50 {
		if _, err := l.Find(t.Context(), identity.Claim{Sandbox: "a"}); errors.Is(err, sandbox.ErrBusy) {
			busy++
		} else if err != nil {
			t.Error(err)
		}
	}
	if n, most := len(e.asked("")), questionsPerSecond*(2+int(time.Since(began)/time.Second)+1); busy == 0 || n == 0 || n > most {
		t.Errorf("%d of 50 are refused, %d questions; want no more than %d", busy, n, most)
	}
}

// TestLiveAnswers: an object that does not exist, a kind that does not, and an API server
// that does not say are three things.
func TestLiveAnswers(t *testing.T) {
	const none = "the server could not find the requested resource"
	for _, tc := range []struct {
		rule   string
		change func(*engineServer)
		call   string
		want   string
	}{
		{"it exists", func(*engineServer) {}, "get", `A version "1"`},
		{"it exists", func(*engineServer) {}, "pin", `A version "8"`},
		{"it exists, in an old version", func(e *engineServer) { e.served = []string{"v1"} }, "get", `A version "1"`},
		{"it exists, in an old version", func(e *engineServer) { e.served = []string{"v1"} }, "pin", `A version "8"`},
		{"it exists, in an old version", func(e *engineServer) { e.served = []string{"v1"} }, "find", "A"},
		{"two answers, one sandbox", func(*engineServer) {}, "find", "A"},
		{"two sandboxes", func(e *engineServer) { e.boxes = []string{"a", "b"} }, "find", "A B"},
		{"it does not exist", func(e *engineServer) { e.boxes = nil }, "get", "none"},
		{"it does not exist", func(e *engineServer) { e.boxes = nil }, "find", ""},
		{"it is deleted", func(e *engineServer) { e.boxes = nil }, "pin", "conflict"},
		{"no such Pod", func(*engineServer) {}, "pod", "none"},
		{"no CRD", func(e *engineServer) { e.served = nil }, "get", "none"},
		{"no CRD", func(e *engineServer) { e.served = nil }, "find", ""},
		{"no CRD", func(e *engineServer) { e.served = nil }, "pin", "conflict"},
		{"somebody else's 404", func(e *engineServer) { e.broken = true }, "get", none + "; and which kinds there are: " + none},
		{"somebody else's 404", func(e *engineServer) { e.broken = true }, "find", none + "; and which kinds there are: " + none},
		{"somebody else's 404", func(e *engineServer) { e.broken = true }, "pod", none + " (get pods p)"},
		{"forbidden", func(e *engineServer) { e.status = 403 }, "get", "forbidden"},
		{"forbidden", func(e *engineServer) { e.status = 403 }, "find", "forbidden"},
		{"forbidden", func(e *engineServer) { e.status = 403 }, "pin", "forbidden"},
		{"changed meanwhile", func(e *engineServer) { e.status = 409 }, "pin", "conflict"},
		{"broken", func(e *engineServer) { e.status = 500 }, "get", "Internal"},
	} {
		e := newEngineServer("v2", "v1")
		e.boxes = []string{"a"}
		tc.change(e)
		if got := live[tc.call](t.Context(), newLive(t, e, nil)); got != tc.want {
			t.Errorf("%s: %s: %q, want %q", tc.rule, tc.call, got, tc.want)
		}
	}
	if _, _, err := newLive(t, newEngineServer(), nil).Get(t.Context(), "Lid.example.com", boxA.NamespacedName); err == nil || err.Error() != `kind "Lid.example.com": not one that is read` {
		t.Errorf("another kind: %v", err)
	}
}

// TestLiveCall: a call ends in time. Connections are suspect only if nobody gets an
// answer on them: a caller who gives up at once, or one slow answer, must not cost the
// others theirs.
func TestLiveCall(t *testing.T) {
	slow := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, tc := range []struct {
		rule     string
		patience time.Duration // of the caller; 0 is without end
		do       func(context.Context) error
		answered time.Duration // when another call is, if it is
		took     time.Duration
		closed   int
	}{
		{"answered", 0, func(context.Context) error { return nil }, 0, 0, 0},
		{"refused", 0, func(context.Context) error { return errors.New("no") }, 0, 0, 0},
		{"silent, and the caller waits for ever", 0, slow, 0, liveTimeout, 1},
		{"silent, and the caller has little time", 300 * time.Millisecond, slow, 0, 300 * time.Millisecond, 1},
		{"silent, while others are answered", 300 * time.Millisecond, slow, 100 * time.Millisecond, 300 * time.Millisecond, 0},
		{"the caller gives up at once", 20 * time.Millisecond, slow, 0, 20 * time.Millisecond, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			closed := 0
			l := &Live{closeConnections: func() { closed++ }}
			l.answered.Store(new(time.Now()))
			time.Sleep(time.Second)
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if tc.patience > 0 {
				ctx, cancel = context.WithTimeout(ctx, tc.patience)
			}
			defer cancel()
			if tc.answered > 0 {
				time.AfterFunc(tc.answered, func() { _ = l.call(t.Context(), func(context.Context) error { return nil }) })
			}
			began := time.Now()
			_ = l.call(ctx, tc.do)
			if took := time.Since(began); took != tc.took || closed != tc.closed {
				t.Errorf("%s: took %v, closed %d times, want %v and %d", tc.rule, took, closed, tc.took, tc.closed)
			}
		})
	}
}

// TestLiveHangs: after a silence the next call is on a new connection. HTTP/2, as with a
// real API server, keeps a hanging one for all.
func TestLiveHangs(t *testing.T) {
	var addrs []string
	e := newEngineServer("v2")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		addrs = append(addrs, r.RemoteAddr)
		first := len(addrs) == 1
		e.mu.Unlock()
		if first {
			<-r.Context().Done()
			return
		}
		e.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	l := newLive(t, e, nil)
	config, err := restConfig(Options{Kubeconfig: kubeconfig(t, server.URL)})
	if err != nil {
		t.Fatal(err)
	}
	config.Insecure = true
	config, l.closeConnections = ownConnections(config)
	if l.objects, err = newEngineClient(config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if got := live["get"](ctx, l); !strings.Contains(got, context.DeadlineExceeded.Error()) {
		t.Errorf("of an API server that is silent: %s", got)
	}
	for range 2 {
		if got := live["get"](t.Context(), l); got != "none" {
			t.Errorf("afterwards: %s", got)
		}
	}
	if len(addrs) != 3 || addrs[0] == addrs[1] || addrs[1] != addrs[2] {
		t.Errorf("asked from %q, want a new connection after the first call alone", addrs)
	}
}
