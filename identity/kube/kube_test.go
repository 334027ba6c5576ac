package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/samepod/samepod/identity"
)

// The API servers of this file misbehave on purpose; the real one is in package
// lab.

// apiServer answers lists and watches of Pods with what a test says, and counts.
type apiServer struct {
	list  func(n int, r *http.Request) (version string, pods []corev1.Pod, status *metav1.Status)
	watch func(n int, r *http.Request, send func(kind string, object any)) *metav1.Status

	mu      sync.Mutex
	lists   []*http.Request
	watches []*http.Request
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("content-type", "application/json")
	fail := func(s *metav1.Status) {
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.WriteHeader(int(s.Code))
		_ = json.NewEncoder(w).Encode(s)
	}
	if r.URL.Query().Get("watch") != "" {
		a.mu.Lock()
		a.watches = append(a.watches, r)
		n := len(a.watches)
		a.mu.Unlock()
		send := func(kind string, object any) {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object})
			w.(http.Flusher).Flush()
		}
		if r.URL.Query().Get("sendInitialEvents") == "true" && a.list != nil {
			fail(&metav1.Status{Status: "Failure", Code: 422, Reason: metav1.StatusReasonInvalid, Message: "sendInitialEvents is forbidden"})
			return
		}
		if s := a.watch(n, r, send); s != nil {
			fail(s)
		}
		return
	}
	a.mu.Lock()
	a.lists = append(a.lists, r)
	n := len(a.lists)
	a.mu.Unlock()
	version, pods, status := a.list(n, r)
	if status != nil {
		fail(status)
		return
	}
	_ = json.NewEncoder(w).Encode(&corev1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: pods,
	})
}

func (a *apiServer) count() (lists, watches int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.lists), len(a.watches)
}

func pod(name, uid, ip, version string) corev1.Pod {
	return corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: version},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}},
	}
}

func bookmark(version string, end bool) corev1.Pod {
	p := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
	if end {
		p.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return p
}

var gone = &metav1.Status{Status: "Failure", Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old resource version"}

// start runs a source against the server and returns its index.
func start(t *testing.T, a *apiServer, change func(*Source)) *identity.Index {
	t.Helper()
	return startHandler(t, a, change)
}

func startHandler(t *testing.T, handler http.Handler, change func(*Source)) *identity.Index {
	t.Helper()
	server := httptest.NewServer(handler)
	index := identity.NewIndex(identity.HistoryConfig{Addresses: 16, Tenures: 4})
	source, err := New(Options{
		Kubeconfig: kubeconfig(t, server.URL), Bound: time.Minute, Selected: func(map[string]string) bool { return true },
		Log: slog.New(slog.NewTextHandler(testWriter{t}, nil)),
	}, index)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(source)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- source.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	return index
}

func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {server: %q}\ncontexts:\n- name: x\n  context: {cluster: c}\ncurrent-context: x\n", url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within 20 s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func look(index *identity.Index, name string) identity.View {
	return index.Look(identity.NamespacedName{Namespace: "ns", Name: name}, netip.Addr{})
}

func has(index *identity.Index, name, uid string) func() bool {
	return func() bool { return string(look(index, name).Pod.UID) == uid }
}

func fault(index *identity.Index) string { return index.Feeds()[0].Fault }

// hang keeps a watch open until the client or the test ends it.
func hang(r *http.Request) *metav1.Status { <-r.Context().Done(); return nil }

// TestStreamingList is the ordinary life of a watch: the list as a stream, then
// events, then bookmarks.
func TestStreamingList(t *testing.T) {
	next := make(chan func(send func(string, any)))
	a := &apiServer{watch: func(_ int, r *http.Request, send func(string, any)) *metav1.Status {
		send("ADDED", pod("a", "A", "10.0.0.1", "5"))
		send("BOOKMARK", bookmark("10", true))
		for {
			select {
			case f := <-next:
				f(send)
			case <-r.Context().Done():
				return nil
			}
		}
	}}
	index := start(t, a, nil)
	<-index.Synced()
	if v := look(index, "a"); !v.Found || v.Freshness != identity.Fresh || v.Addr.String() != "10.0.0.1" {
		t.Fatalf("after the list: %+v", v)
	}
	r := a.watches[0]
	if got := r.URL.Query().Get("resourceVersion"); got != "" {
		t.Errorf("the first list is asked for at resourceVersion %q, so it is no consistent read", got)
	}
	if got := r.Header.Get("accept"); !strings.HasPrefix(got, "application/vnd.kubernetes.protobuf") {
		t.Errorf("accept: %q", got)
	}
	next <- func(send func(string, any)) { send("MODIFIED", pod("a", "A2", "10.0.0.2", "11")) } // rebuilt, as one update
	eventually(t, "rebuilt", has(index, "a", "A2"))
	next <- func(send func(string, any)) { send("DELETED", pod("a", "A2", "10.0.0.2", "12")) }
	eventually(t, "deleted", has(index, "a", ""))
	if got := index.Size(); got != (identity.Size{}) {
		t.Errorf("size = %+v", got)
	}
}

// TestOrdinaryList: where the server has no streaming list, the first list is
// still a consistent read, and not "any version" (kubernetes#59848).
func TestOrdinaryList(t *testing.T) {
	a := &apiServer{
		list: func(int, *http.Request) (string, []corev1.Pod, *metav1.Status) {
			return "10", []corev1.Pod{pod("a", "A", "10.0.0.1", "5")}, nil
		},
		watch: func(_ int, r *http.Request, _ func(string, any)) *metav1.Status { return hang(r) },
	}
	index := start(t, a, nil)
	<-index.Synced()
	if q := a.lists[0].URL.Query(); q.Get("resourceVersion") != "" {
		t.Errorf("the first list is asked for at resourceVersion %q", q.Get("resourceVersion"))
	}
	if !look(index, "a").Found {
		t.Error("the Pod of the list is not found")
	}
}

// TestNoTimeTravel: an API server that is behind answers a list with a Pod that is
// gone (client-go#614). Nothing of it is served.
func TestNoTimeTravel(t *testing.T) {
	behind := make(chan struct{})
	a := &apiServer{
		list: func(n int, _ *http.Request) (string, []corev1.Pod, *metav1.Status) {
			switch {
			case n == 1:
				return "100", []corev1.Pod{pod("a", "A", "10.0.0.1", "50")}, nil
			case n < 4:
				return "120", []corev1.Pod{pod("a", "A", "10.0.0.1", "50")}, nil
			}
			<-behind
			return "160", []corev1.Pod{pod("b", "B", "10.0.0.1", "155")}, nil
		},
		watch: func(n int, r *http.Request, send func(string, any)) *metav1.Status {
			if n == 2 { // 1 was the attempt at a streaming list
				send("DELETED", pod("a", "A", "10.0.0.1", "150"))
				send("ERROR", gone)
				return nil
			}
			return hang(r)
		},
	}
	index := start(t, a, nil)
	<-index.Synced()
	eventually(t, "the delete", has(index, "a", ""))
	eventually(t, "two old lists", func() bool { n, _ := a.count(); return n >= 4 })
	if look(index, "a").Found {
		t.Error("a list of version 120 brought back what was deleted at 150")
	}
	eventually(t, "the reason", func() bool { return strings.Contains(fault(index), "resourceVersion 120, older than 150") })
	close(behind)
	eventually(t, "a new list", has(index, "b", "B"))
	if got := fault(index); got != "" {
		t.Errorf("fault = %q after a good list", got)
	}
}

// TestNonsenseEvents: an event that is no Pod may have been a deletion
// (kubernetes#76624). The Pods are listed anew.
func TestNonsenseEvents(t *testing.T) {
	for _, tc := range []struct {
		rule   string
		kind   string
		object any
	}{
		{"null", "DELETED", nil},
		{"a Status", "DELETED", gone},
		{"another kind", "DELETED", map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "a", "namespace": "ns", "uid": "A"}}},
		{"a kind that nobody knows", "DELETED", map[string]any{"apiVersion": "example.com/v1", "kind": "Pod", "metadata": map[string]any{"name": "a"}}},
		{"a Pod without a uid", "DELETED", map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a", "namespace": "ns"}}},
		{"an unknown event", "VANISHED", pod("a", "A", "10.0.0.1", "11")},
	} {
		a := &apiServer{
			list: func(n int, _ *http.Request) (string, []corev1.Pod, *metav1.Status) {
				if n == 1 {
					return "10", []corev1.Pod{pod("a", "A", "10.0.0.1", "5")}, nil
				}
				return "20", nil, nil
			},
			watch: func(n int, r *http.Request, send func(string, any)) *metav1.Status {
				if n == 2 {
					send(tc.kind, tc.object)
				}
				return hang(r)
			},
		}
		index := start(t, a, nil)
		<-index.Synced()
		eventually(t, tc.rule, has(index, "a", ""))
	}
}

// TestMissedDeletion: a Pod that is not in the next list is gone, although no
// event said so, and its address is free.
func TestMissedDeletion(t *testing.T) {
	a := &apiServer{
		list: func(n int, _ *http.Request) (string, []corev1.Pod, *metav1.Status) {
			if n == 1 {
				return "10", []corev1.Pod{pod("a", "A", "10.0.0.1", "5")}, nil
			}
			return "20", []corev1.Pod{pod("b", "B", "10.0.0.1", "15")}, nil
		},
		watch: func(n int, r *http.Request, send func(string, any)) *metav1.Status {
			if n == 2 {
				return gone
			}
			return hang(r)
		},
	}
	index := start(t, a, nil)
	eventually(t, "the new list", func() bool {
		v := look(index, "b")
		return v.Found && v.Others == 0 && !look(index, "a").Found
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := a.lists[1].URL.Query().Get("resourceVersion"); got != "" {
		t.Errorf("the second list is asked for at resourceVersion %q, so it is no consistent read", got)
	}
}

// TestExpiredForLong: a server that answers "too old" again and again is asked at
// a bounded rate (skywalking#8565), nothing is served meanwhile, and one good list
// ends it.
func TestExpiredForLong(t *testing.T) {
	ok := make(chan struct{})
	a := &apiServer{
		list: func(int, *http.Request) (string, []corev1.Pod, *metav1.Status) {
			select {
			case <-ok:
				return "10", []corev1.Pod{pod("a", "A", "10.0.0.1", "5")}, nil
			default:
				return "", nil, gone
			}
		},
		watch: func(_ int, r *http.Request, _ func(string, any)) *metav1.Status {
			select {
			case <-ok:
				return hang(r)
			default:
				return gone
			}
		},
	}
	index := start(t, a, nil)
	time.Sleep(3 * time.Second)
	lists, watches := a.count()
	if lists+watches > 60 {
		t.Errorf("%d lists and %d watches within 3 s", lists, watches)
	}
	if got := look(index, "a").Freshness; got != identity.NotSynced {
		t.Errorf("the index is %v", got)
	}
	if got := fault(index); !strings.Contains(got, "too old resource version") {
		t.Errorf("fault = %q", got)
	}
	close(ok)
	eventually(t, "recovery", has(index, "a", "A"))
}

// TestEndlessStreamingList: a server that never sends the end of a streaming list
// (k9s#4186) is asked for an ordinary one, and we say why.
func TestEndlessStreamingList(t *testing.T) {
	var log strings.Builder
	var mu sync.Mutex
	a := &apiServer{watch: func(n int, r *http.Request, send func(string, any)) *metav1.Status {
		if n == 1 {
			send("ADDED", pod("a", "A", "10.0.0.1", "5"))
		}
		return hang(r)
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			a.mu.Lock()
			a.lists = append(a.lists, r)
			a.mu.Unlock()
			w.Header().Set("content-type", "application/json")
			_ = json.NewEncoder(w).Encode(&corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: []corev1.Pod{pod("a", "A", "10.0.0.1", "5")}})
			return
		}
		a.ServeHTTP(w, r)
	}))
	defer server.Close()
	index := identity.NewIndex(identity.HistoryConfig{})
	source, err := New(Options{Kubeconfig: kubeconfig(t, server.URL), Bound: time.Minute, Selected: func(map[string]string) bool { return true },
		Log: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))}, index)
	if err != nil {
		t.Fatal(err)
	}
	source.watches[0].initialSilence = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- source.Run(ctx) }()
	<-index.Synced()
	eventually(t, "the Pod", has(index, "a", "A"))
	cancel()
	<-done
	server.CloseClientConnections()
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(log.String(), "watch: silent for") {
		t.Errorf("nothing was said:\n%s", log.String())
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *strings.Builder
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// TestSilentWatch: a watch that hangs while its connection lives
// (OpenSandbox#1533), before or after its answer has begun, is ended and the Pods
// are listed anew, on a new connection.
func TestSilentWatch(t *testing.T) {
	for _, rule := range []string{"no answer", "no event"} {
		testSilentWatch(t, rule)
	}
}

func testSilentWatch(t *testing.T, rule string) {
	a := &apiServer{
		list: func(n int, _ *http.Request) (string, []corev1.Pod, *metav1.Status) {
			if n == 1 {
				return "10", []corev1.Pod{pod("a", "A", "10.0.0.1", "5")}, nil
			}
			return "20", []corev1.Pod{pod("b", "B", "10.0.0.1", "15")}, nil
		},
		watch: func(_ int, r *http.Request, send func(string, any)) *metav1.Status {
			if rule == "no event" {
				send("BOOKMARK", bookmark("11", false))
			}
			return hang(r)
		},
	}
	index := start(t, a, func(s *Source) { s.watches[0].silence = 300 * time.Millisecond })
	<-index.Synced()
	eventually(t, rule, has(index, "b", "B"))
	a.mu.Lock()
	defer a.mu.Unlock()
	if first, second := a.watches[1].RemoteAddr, a.lists[1].RemoteAddr; first == second {
		t.Errorf("%s: the list was asked for on the connection that hung, %s", rule, first)
	}
}

// TestQuietCluster: where nothing happens but bookmarks, nothing is listed again
// and nothing gets stale (adx-mon#972).
func TestQuietCluster(t *testing.T) {
	a := &apiServer{
		list: func(int, *http.Request) (string, []corev1.Pod, *metav1.Status) { return "10", nil, nil },
		watch: func(_ int, r *http.Request, send func(string, any)) *metav1.Status {
			for i := 11; ; i++ {
				select {
				case <-r.Context().Done():
					return nil
				case <-time.After(50 * time.Millisecond):
					send("BOOKMARK", bookmark(fmt.Sprint(i), false))
				}
			}
		},
	}
	index := start(t, a, func(s *Source) { s.watches[0].silence = time.Second })
	<-index.Synced()
	time.Sleep(3 * time.Second)
	if lists, _ := a.count(); lists != 1 {
		t.Errorf("%d lists on a quiet cluster", lists)
	}
	if age := index.Feeds()[0].Age; age > time.Second {
		t.Errorf("age = %v under a bookmark every 50 ms", age)
	}
}

// TestOldWordIsListedAnew: after an outage the watch could go on where it was, but
// would say nothing for up to a minute; a list gives a new word at once.
func TestOldWordIsListedAnew(t *testing.T) {
	a := &apiServer{
		list: func(int, *http.Request) (string, []corev1.Pod, *metav1.Status) { return "10", nil, nil },
		watch: func(n int, r *http.Request, _ func(string, any)) *metav1.Status {
			if n == 2 { // an outage: the watch ends by itself, late
				time.Sleep(700 * time.Millisecond)
				return nil
			}
			return hang(r)
		},
	}
	index := start(t, a, func(s *Source) { s.watches[0].silence = time.Second })
	<-index.Synced()
	eventually(t, "a second list", func() bool { n, _ := a.count(); return n == 2 })
	if age := index.Feeds()[0].Age; age > 900*time.Millisecond {
		t.Errorf("age = %v after the list", age)
	}
}

// TestSlowList: what a list said is watched on from, however long it took. A large
// cluster would else be listed again and again, and never watched.
func TestSlowList(t *testing.T) {
	a := &apiServer{
		list: func(int, *http.Request) (string, []corev1.Pod, *metav1.Status) {
			time.Sleep(900 * time.Millisecond)
			return "10", nil, nil
		},
		watch: func(_ int, r *http.Request, send func(string, any)) *metav1.Status {
			send("ADDED", pod("a", "A", "10.0.0.1", "11"))
			return hang(r)
		},
	}
	index := start(t, a, func(s *Source) { s.watches[0].silence = time.Second })
	eventually(t, "the watch", has(index, "a", "A"))
	if lists, _ := a.count(); lists != 1 {
		t.Errorf("%d lists", lists)
	}
}

// TestStreamingListThatBreaksOff, or goes on without an end: an ordinary list is
// asked for, at a bounded rate.
func TestStreamingListThatBreaksOff(t *testing.T) {
	for _, rule := range []string{"breaks off", "goes on"} {
		ordinary := &apiServer{
			list:  func(int, *http.Request) (string, []corev1.Pod, *metav1.Status) { return "10", nil, nil },
			watch: func(_ int, r *http.Request, _ func(string, any)) *metav1.Status { return hang(r) },
		}
		var streams atomic.Int64
		streaming := &apiServer{watch: func(_ int, r *http.Request, send func(string, any)) *metav1.Status {
			streams.Add(1)
			for i := 5; r.Context().Err() == nil; i++ {
				send("ADDED", pod("a", "A", "10.0.0.1", fmt.Sprint(i)))
				if rule == "breaks off" {
					return nil
				}
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		}}
		index := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("sendInitialEvents") == "true" {
				streaming.ServeHTTP(w, r)
			} else {
				ordinary.ServeHTTP(w, r)
			}
		}), func(s *Source) { s.watches[0].silence = time.Second })
		select {
		case <-index.Synced():
		case <-time.After(10 * time.Second):
			t.Errorf("%s: not synced; %s", rule, fault(index))
		}
		if n := streams.Load(); n > 3 {
			t.Errorf("%s: %d streaming lists", rule, n)
		}
	}
}

// TestListsThatAreNone: an answer that decodes is not yet a list of Pods.
func TestListsThatAreNone(t *testing.T) {
	for _, body := range []string{
		`{}`, `{"kind":"Status","apiVersion":"v1","status":"Success"}`,
		`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`,
		`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"new"},"items":[]}`,
		`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[null]}`,
		`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[{"metadata":{"name":"a"}}]}`,
	} {
		var asked atomic.Int64
		index := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("content-type", "application/json")
			if r.URL.Query().Get("watch") != "" {
				w.WriteHeader(http.StatusUnprocessableEntity)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
				return
			}
			asked.Add(1)
			fmt.Fprint(w, body)
		}), nil)
		eventually(t, body, func() bool { return asked.Load() >= 2 })
		if got := look(index, "a").Freshness; got != identity.NotSynced {
			t.Errorf("%s is believed: %v", body, got)
		}
	}
}

// TestBookmarks: one that goes back, or is no Pod, proves nothing, and the Pods are
// listed anew.
func TestBookmarks(t *testing.T) {
	for rule, object := range map[string]any{
		"behind":       bookmark("5", false),
		"no version":   bookmark("", false),
		"not a number": bookmark("x", false),
		"no Pod":       map[string]any{"apiVersion": "v1", "kind": "Status", "metadata": map[string]any{"resourceVersion": "20"}},
	} {
		a := &apiServer{
			list: func(int, *http.Request) (string, []corev1.Pod, *metav1.Status) { return "10", nil, nil },
			watch: func(_ int, r *http.Request, send func(string, any)) *metav1.Status {
				send("BOOKMARK", object)
				return hang(r)
			},
		}
		start(t, a, nil)
		eventually(t, rule, func() bool { n, _ := a.count(); return n >= 2 })
	}
}

// TestStandstill: what is heard after this process stood still is of unknown age.
func TestStandstill(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		rule  string
		awake time.Time
		want  string
	}{
		{"it ran just now", now, ""},
		{"it was starved for a moment", now.Add(-standstill + 2*time.Second), ""},
		{"it stood still", now.Add(-standstill - time.Second), "this process stood still for 6"},
		{"the machine slept: only the wall clock moved", now.Add(-time.Hour).Round(0), "stood still for 1h"},
	} {
		g := newGuard(&watch{silence: 2 * time.Hour, closeConnections: func() {}}, false)
		g.awake, g.spoken = tc.awake, now
		why := g.overdue()
		if got := fmt.Sprint(why); (why == nil) != (tc.want == "") || why != nil && !strings.Contains(got, tc.want) {
			t.Errorf("%s: %v, want %q", tc.rule, why, tc.want)
		}
		if why := g.overdue(); why != nil {
			t.Errorf("%s: and again: %v", tc.rule, why)
		}
	}
}

// TestHeard: an event proves what was true when it came out of the socket, not when
// this process got round to it.
func TestHeard(t *testing.T) {
	index := identity.NewIndex(identity.HistoryConfig{})
	feed := index.NewFeed("pods", proof, time.Minute)
	s := &store{feed: feed, selected: func(map[string]string) bool { return true }, log: slog.New(slog.DiscardHandler), fail: func(error) {}}
	heard := time.Now().Add(-30 * time.Second)
	s.asked = heard.Add(-10 * time.Second)
	s.heard.Store(&heard)
	if err := s.Replace(nil, "10"); err != nil {
		t.Fatal(err)
	}
	p := pod("a", "A", "10.0.0.1", "11")
	for what, apply := range map[string]func() error{
		"add": func() error { return s.Add(&p) }, "delete": func() error { return s.Delete(&p) }, "bookmark": func() error { return s.Bookmark("12") },
	} {
		if err := apply(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if age := feed.Status().Age; age < 29*time.Second {
			t.Errorf("after %s the word is %v old, want the 30 s since it was heard", what, age)
		}
	}
}

// TestRefusedStreamEnds: the Reflector forgets to stop a watch whose list the store
// refused; it must not live on and disturb the next.
func TestRefusedStreamEnds(t *testing.T) {
	var open, streams atomic.Int64
	a := &apiServer{watch: func(n int, r *http.Request, send func(string, any)) *metav1.Status {
		open.Add(1)
		streams.Add(1)
		defer open.Add(-1)
		version := "100"
		if n > 1 {
			version = "50" // restored from a backup
		}
		send("BOOKMARK", bookmark(version, true))
		if n == 1 {
			send("ERROR", gone)
			return nil
		}
		return hang(r)
	}}
	behind := &apiServer{list: func(int, *http.Request) (string, []corev1.Pod, *metav1.Status) { return "50", nil, nil }}
	startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			a.ServeHTTP(w, r)
		} else {
			behind.ServeHTTP(w, r)
		}
	}), nil)
	eventually(t, "some streams", func() bool { return streams.Load() >= 4 })
	eventually(t, "all but the last to end", func() bool { return open.Load() <= 1 })
}

// TestStopsSoon: also between two attempts at an API server that is not there.
func TestStopsSoon(t *testing.T) {
	source, err := New(Options{Kubeconfig: kubeconfig(t, "http://127.0.0.1:1"), Bound: time.Minute, Selected: func(map[string]string) bool { return true }, Log: slog.New(slog.DiscardHandler)}, identity.NewIndex(identity.HistoryConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- source.Run(ctx) }()
	time.Sleep(3 * time.Second)
	cancel()
	started := time.Now()
	if err := <-done; err != nil || time.Since(started) > 2*time.Second {
		t.Errorf("stopped after %v, %v", time.Since(started), err)
	}
}

func TestNamespaces(t *testing.T) {
	a := &apiServer{
		list: func(_ int, r *http.Request) (string, []corev1.Pod, *metav1.Status) {
			if strings.Contains(r.URL.Path, "/namespaces/forbidden/") {
				return "", nil, &metav1.Status{Status: "Failure", Code: 403, Reason: metav1.StatusReasonForbidden, Message: "pods is forbidden"}
			}
			return "10", []corev1.Pod{pod("a", "A", "10.0.0.1", "5")}, nil
		},
		watch: func(_ int, r *http.Request, _ func(string, any)) *metav1.Status { return hang(r) },
	}
	server := httptest.NewServer(a)
	defer server.Close()
	defer server.CloseClientConnections()
	index := identity.NewIndex(identity.HistoryConfig{})
	source, err := New(Options{Kubeconfig: kubeconfig(t, server.URL), Namespaces: []string{"ns", "forbidden"}, Bound: time.Minute, Selected: func(map[string]string) bool { return true }, Log: slog.New(slog.DiscardHandler)}, index)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- source.Run(ctx) }()
	defer func() { cancel(); <-done }()
	eventually(t, "one of two", has(index, "a", "A"))
	eventually(t, "the other's fault", func() bool { return strings.Contains(index.Feeds()[1].Fault, "pods is forbidden") })
	if got := look(index, "a").Freshness; got != identity.NotSynced {
		t.Errorf("with one namespace forbidden the index is %v", got)
	}
}

func TestOptions(t *testing.T) {
	config := kubeconfig(t, "https://127.0.0.1:1")
	t.Setenv("KUBECONFIG", config) // nobody looks at it
	for _, tc := range []struct {
		rule, want string
		change     func(*Options)
	}{
		{"no such file", "no such file", func(o *Options) { o.Kubeconfig = "/does/not/exist" }},
		{"no kubeconfig, and no Pod", "this is no Pod with a service account", func(o *Options) { o.Kubeconfig = "" }},
		{"a context of nothing", `context "z": needs a kubeconfig`, func(o *Options) { o.Kubeconfig, o.Context = "", "z" }},
		{"no such context", `context "z" does not exist`, func(o *Options) { o.Context = "z" }},
		{"an empty namespace", `namespace "": the namespace must be a DNS label`, func(o *Options) { o.Namespaces = []string{"a", ""} }},
		{"no namespace", `namespace "GHOST/x": the namespace must be a DNS label`, func(o *Options) { o.Namespaces = []string{"GHOST/x"} }},
		{"a namespace twice", `namespace "a": listed twice`, func(o *Options) { o.Namespaces = []string{"a", "a"} }},
	} {
		o := Options{Kubeconfig: config, Log: slog.New(slog.DiscardHandler)}
		tc.change(&o)
		if _, err := New(o, identity.NewIndex(identity.HistoryConfig{})); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.rule, err, tc.want)
		}
	}
}

func TestObject(t *testing.T) {
	now := metav1.Now()
	full := pod("a", "A", "10.0.0.1", "5")
	full.Labels = map[string]string{"app": "sandbox"}
	full.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"}
	full.DeletionTimestamp = &now
	full.Spec = corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	full.Status.PodIPs = append(full.Status.PodIPs, corev1.PodIP{IP: "fd00::1"})
	full.Status.HostIP, full.Status.HostIPs = "192.0.2.1", []corev1.HostIP{{IP: "192.0.2.1"}, {IP: "fd00::2"}}
	full.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	trimmed, err := trim(&full)
	if err != nil {
		t.Fatal(err)
	}
	want := identity.Object{
		Namespace: "ns", Name: "a", UID: "A", Labels: full.Labels, Annotations: full.Annotations, DeletionTimestamp: true, HostNetwork: true,
		Phase: "Running", PodIP: "10.0.0.1", PodIPs: []string{"10.0.0.1", "fd00::1"}, HostIP: "192.0.2.1", HostIPs: []string{"192.0.2.1", "fd00::2"}, Ready: true,
	}
	for rule, p := range map[string]*corev1.Pod{"whole": &full, "trimmed": trimmed.(*corev1.Pod)} {
		if got := object(p); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %+v\nwant %+v", rule, got, want)
		}
	}
	if got := trimmed.(*corev1.Pod); got.Spec.Containers != nil || got.ResourceVersion != "5" {
		t.Errorf("trimmed to %+v", got)
	}
	if got, err := trim("tombstone"); got != "tombstone" || err != nil {
		t.Errorf("what is no Pod is trimmed to %v, %v", got, err)
	}
}
