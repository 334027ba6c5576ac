package kube

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samepod/samepod/identity"
)

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
		if lists, _ := a.count(); lists != 2 {
			t.Errorf("%s: believed, after %d lists", tc.rule, lists)
		}
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
	// Asked for is not applied yet. Nothing else gives a word: the watch hangs.
	eventually(t, "a new word", func() bool { return index.Feeds()[0].Age < 700*time.Millisecond })
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
	s := &store{feed: decoded[identity.Pod]{feed, podDecoder(identity.Keep{}, slog.New(slog.DiscardHandler))}, fail: func(error) {}}
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
