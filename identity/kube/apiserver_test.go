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
		Kubeconfig: kubeconfig(t, server.URL), Bound: time.Minute,
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
