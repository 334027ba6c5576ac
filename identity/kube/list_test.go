package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samepod/samepod/identity"
)

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
	source, err := New(Options{Kubeconfig: kubeconfig(t, server.URL), Bound: time.Minute,
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
		const most = 3
		var streams atomic.Int64
		tooMany := make(chan struct{})
		streaming := &apiServer{watch: func(_ int, r *http.Request, send func(string, any)) *metav1.Status {
			if streams.Add(1) == most+1 {
				close(tooMany)
			}
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
		case <-tooMany:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: not synced; %s", rule, fault(index))
		}
		if n := streams.Load(); n > most {
			t.Fatalf("%s: %d streaming lists", rule, n)
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
