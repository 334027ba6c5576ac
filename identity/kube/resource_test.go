package kube

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

const missingBoxes = "the API server has no boxes.sandbox.example.com (its CRD is not installed)"

// streaming answers streaming lists of boxes with what a test sends, and everything
// else as before.
func streaming(e *engineServer, events chan doc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/apis/sandbox.example.com/v1/") || r.URL.Query().Get("sendInitialEvents") == "" {
			e.ServeHTTP(w, r)
			return
		}
		w.Header().Set("content-type", "application/json")
		for {
			select {
			case <-r.Context().Done():
				return
			case event := <-events:
				_ = json.NewEncoder(w).Encode(event)
				w.(http.Flusher).Flush()
				if event["object"].(doc)["apiVersion"] == "v1" {
					<-r.Context().Done() // what comes next is for the next list
					return
				}
			}
		}
	}
}

// TestBoxes is the ordinary life of a watch of what no client knows the type of: in the
// version that is served, with lists trimmed, and held to the kind.
func TestBoxes(t *testing.T) {
	events := make(chan doc)
	e := newEngineServer("v1")
	index := startBoxes(t, streaming(e, events), nil)
	for _, step := range []struct {
		kind   string
		object doc
		want   string
	}{
		{"ADDED", box("v1", "a", "A", "5"), ""},
		{"BOOKMARK", boxEnd("v1", "10"), "a=A@v1"},
		{"ADDED", box("v1", "b", "B", "11"), "a=A@v1 b=B@v1 whole"},
		{"MODIFIED", box("v1", "b", "B2", "12"), "a=A@v1 b=B2@v1 whole"}, // rebuilt, as one update
		{"DELETED", box("v1", "b", "B", "13"), "a=A@v1 b=B2@v1 whole"},   // late
		{"DELETED", box("v1", "b", "B2", "14"), "a=A@v1"},
		{"DELETED", doc{"apiVersion": "v1", "kind": "Box", "metadata": doc{"namespace": "ns", "name": "a", "uid": "A", "resourceVersion": "15"}}, "a=A@v1"}, // of another group: all is listed anew
		{"BOOKMARK", boxEnd("v1", "20"), ""},
	} {
		select {
		case events <- doc{"type": step.kind, "object": step.object}:
		case <-time.After(20 * time.Second):
			t.Fatalf("nobody streams; asked: %q", e.asked("/boxes"))
		}
		eventually(t, step.kind+" "+step.want, func() bool { return names(index) == step.want })
	}
}

// TestMissingCRD: only the API server itself can say that there is no such kind. Then
// nobody waits for it, and until then nobody believes that there are no objects.
func TestMissingCRD(t *testing.T) {
	for _, tc := range []struct {
		rule   string
		change func(*engineServer)
		synced bool
		fault  string
	}{
		{"not installed", func(e *engineServer) { e.served = nil }, true, missingBoxes},
		{"in an old version", func(e *engineServer) { e.served = []string{"v1"} }, true, ""},
		{"forbidden", func(e *engineServer) { e.status = 403 }, false, "list: Forbidden"},
		{"forbidden, and not installed", func(e *engineServer) { e.status, e.served = 403, nil }, false, "list: Forbidden"},
		{"broken", func(e *engineServer) { e.status = 500 }, false, ": Internal"},
		{"somebody else's 404", func(e *engineServer) { e.broken = true }, false, "list: the server could not find the requested resource; and which kinds there are: "},
		{"a 404, and the directory is forbidden", func(e *engineServer) { e.served, e.closed = nil, true }, false, "which kinds there are: Forbidden"},
		{"in a version that nobody reads", func(e *engineServer) { e.served = []string{"v9"} }, false, "boxes.sandbox.example.com v2, v1: the server could not find the requested resource, while the API server says that it serves v9"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			e := newEngineServer("v2", "v1")
			tc.change(e)
			index := startBoxes(t, e, nil)
			eventually(t, "a word", func() bool {
				s := index.Feeds()[0]
				return s.Fault != "" || s.Freshness == identity.Fresh
			})
			s := index.Feeds()[0]
			if !strings.HasPrefix(s.Fault, tc.fault) && !strings.HasSuffix(s.Fault, tc.fault) || (tc.fault == "") != (s.Fault == "") {
				t.Errorf("fault = %q, want %q", s.Fault, tc.fault)
			}
			if (s.Freshness == identity.Fresh) != tc.synced || tc.synced && s.Lists == 0 {
				t.Errorf("%v after %d lists, want synced = %v", s.Freshness, s.Lists, tc.synced)
			}
		})
	}
}

// TestCRDComesAndGoes while samepod runs: installed, served in another version, removed.
// The word that there is none stays fresh, and is news once.
func TestCRDComesAndGoes(t *testing.T) {
	var log strings.Builder
	var mu sync.Mutex
	e := newEngineServer()
	e.boxes = []string{"a"}
	index := startBoxes(t, e, func(s *Source) {
		s.watches[1].pauses = wait.Backoff{Duration: 50 * time.Millisecond}
		s.watches[1].log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
	})
	said := func() int {
		mu.Lock()
		defer mu.Unlock()
		return strings.Count(log.String(), "nothing to watch")
	}
	eventually(t, "the third word", func() bool { return index.Feeds()[0].Lists >= 3 })
	if s := index.Feeds()[0]; s.Freshness != identity.Fresh || s.Age > 5*time.Second || s.Fault != missingBoxes || said() != 1 {
		t.Errorf("without a CRD: %+v, said %d times", s, said())
	}
	e.change(func() { e.served = []string{"v1"} })
	eventually(t, "installed", func() bool { return names(index) == "a=A@v1" && index.Feeds()[0].Fault == "" })
	e.change(func() { e.served = []string{"v2"} })
	eventually(t, "served as v2", func() bool { return names(index) == "a=A@v2" })
	e.change(func() { e.served = nil })
	eventually(t, "removed", func() bool { s := index.Feeds()[0]; return names(index) == "" && s.Fault == missingBoxes })
	if s := index.Feeds()[0]; s.Freshness != identity.Fresh || said() != 2 {
		t.Errorf("removed: %+v, said %d times", s, said())
	}
	for _, request := range e.asked("/boxes") {
		if strings.Contains(request, "resourceVersion=0") {
			t.Errorf("%s: answered from a cache of any age", request)
		}
	}
}

// TestListsOfSomethingElse: whatever decodes as a list has a version, and no objects.
func TestListsOfSomethingElse(t *testing.T) {
	for _, body := range []string{
		`{}`, `{"kind":"Status","apiVersion":"v1","status":"Success"}`,
		`{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[]}`,
		`{"kind":"BoxList","apiVersion":"sandbox.example.com/v2","metadata":{},"items":[]}`,
		`{"kind":"BoxList","apiVersion":"sandbox.example.com/v2","metadata":{"resourceVersion":"10"},"items":[{"metadata":{"name":"a"}}]}`,
		`{"kind":"BoxList","apiVersion":"sandbox.example.com/v2","metadata":{"resourceVersion":"10"},"items":[{"kind":"Lid","apiVersion":"sandbox.example.com/v2","metadata":{"name":"a","namespace":"ns","uid":"A"}}]}`,
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			e := newEngineServer("v2")
			index := startBoxes(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/v2/boxes") && r.URL.Query().Get("watch") == "" {
					w.Header().Set("content-type", "application/json")
					_, _ = w.Write([]byte(body))
					return
				}
				e.ServeHTTP(w, r)
			}), nil)
			eventually(t, "a word", func() bool { s := index.Feeds()[0]; return s.Fault != "" || s.Lists > 0 })
			if got := index.Feeds()[0].Freshness; got != identity.NotSynced {
				t.Errorf("believed: %v", got)
			}
		})
	}
}

// TestWatchEachNamespace: the feeds of a kind are named for it, and for the namespace.
func TestWatchEachNamespace(t *testing.T) {
	pods := identity.NewIndex(identity.HistoryConfig{})
	s, err := New(Options{Kubeconfig: kubeconfig(t, "http://127.0.0.1:1"), Namespaces: []string{"a", "b"}, Bound: time.Minute, Log: slog.New(slog.DiscardHandler)}, pods)
	if err != nil {
		t.Fatal(err)
	}
	index := sandbox.NewIndex(sandbox.Engine{}, pods)
	if err := Watch(s, boxes, decodeBox, index.NewFeed); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"boxes in a", "boxes in b"} {
		if got := index.Feeds()[i]; got.Name != want || got.Proof != proof || got.Bound != time.Minute {
			t.Errorf("feed %d: %+v, want %s", i, got, want)
		}
	}
}
