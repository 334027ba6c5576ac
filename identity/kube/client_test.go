package kube

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samepod/samepod/identity"
)

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
	source, err := New(Options{Kubeconfig: kubeconfig(t, "http://127.0.0.1:1"), Bound: time.Minute, Log: slog.New(slog.DiscardHandler)}, identity.NewIndex(identity.HistoryConfig{}))
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
	source, err := New(Options{Kubeconfig: kubeconfig(t, server.URL), Namespaces: []string{"ns", "forbidden"}, Bound: time.Minute, Log: slog.New(slog.DiscardHandler)}, index)
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
