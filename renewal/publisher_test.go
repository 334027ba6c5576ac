package renewal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// list is a Push that remembers ids, fails while err is set, and hangs while hung is.
type list struct {
	mu   sync.Mutex
	ids  []string
	err  error
	hung time.Duration
}

func (l *list) set(err error, hung time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.hung = err, hung
}

func (l *list) push(_ context.Context, messages [][]byte) error {
	l.mu.Lock()
	hung := l.hung
	l.mu.Unlock()
	time.Sleep(hung)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	for _, m := range messages {
		var intent struct {
			ID string `json:"sandbox_id"`
		}
		if err := json.Unmarshal(m, &intent); err != nil {
			return err
		}
		l.ids = append(l.ids, intent.ID)
	}
	return nil
}

func (l *list) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.ids, " ")
}

func use(id string) Intent {
	return Intent{Sandbox: Sandbox{"sandboxes", id}, Port: 44772, ObservedAt: time.Now()}
}

// publishing runs a Publisher in a bubble until the test's function has returned.
func publishing(t *testing.T, interval time.Duration, l *list, test func(p *Publisher, count func(result) int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics(prometheus.NewRegistry())
		p := NewPublisher(l.push, interval, slog.New(slog.DiscardHandler), m)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { p.Run(ctx); close(ended) }()
		test(p, func(r result) int { return int(testutil.ToFloat64(m.intents.WithLabelValues(string(r)))) })
		end()
		<-ended
	})
}

func TestThrottle(t *testing.T) {
	var l list
	publishing(t, time.Minute, &l, func(p *Publisher, count func(result) int) {
		for _, id := range []string{"a", "a", "b"} {
			p.Publish(use(id))
		}
		elsewhere := use("a")
		elsewhere.Namespace = "others"
		p.Publish(elsewhere)
		time.Sleep(59 * time.Second)
		p.Publish(use("a"))
		time.Sleep(time.Second)
		p.Publish(use("a")) // a minute after the first
		synctest.Wait()
		if got, want := l.String(), "a b a a"; got != want || count(throttled) != 2 || count(published) != 4 {
			t.Errorf("%s, want %s; %d throttled, %d published", got, want, count(throttled), count(published))
		}
	})
}

func TestNoThrottle(t *testing.T) {
	var l list
	publishing(t, 0, &l, func(p *Publisher, _ func(result) int) {
		p.Publish(use("a"))
		p.Publish(use("a"))
		synctest.Wait()
		if got, want := l.String(), "a a"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestBlocked: who publishes does not wait for a list that hangs, what does not fit is
// dropped and counted, and a sandbox whose intent was dropped is not throttled.
func TestBlocked(t *testing.T) {
	l := list{hung: time.Hour}
	publishing(t, time.Minute, &l, func(p *Publisher, count func(result) int) {
		started := time.Now()
		p.Publish(use("first"))
		synctest.Wait() // on its way
		for i := range mostWaiting {
			p.Publish(use(fmt.Sprint(i)))
		}
		p.Publish(use("late"))
		p.Publish(use("late"))
		if took := time.Since(started); took != 0 {
			t.Errorf("took %v", took)
		}
		if count(overflow) != 2 || count(throttled) != 0 {
			t.Errorf("%d dropped, %d throttled; want 2, 0", count(overflow), count(throttled))
		}
		l.set(nil, 0)
	})
}

// TestFailing: intents wait for a list that fails, but not until the server would drop
// them.
func TestFailing(t *testing.T) {
	l := list{err: errors.New("no")}
	publishing(t, time.Minute, &l, func(p *Publisher, count func(result) int) {
		p.Publish(use("early"))
		time.Sleep(4 * time.Minute)
		l.set(nil, 0)
		time.Sleep(retryAfter)
		synctest.Wait()
		if got, want := l.String(), "early"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		l.set(errors.New("no"), 0)
		p.Publish(use("old"))
		time.Sleep(usefulFor + 2*retryAfter)
		l.set(nil, 0)
		time.Sleep(retryAfter)
		p.Publish(use("new"))
		synctest.Wait()
		if got, want := l.String(), "early new"; got != want || count(expired) != 1 {
			t.Errorf("%s, want %s; %d expired", got, want, count(expired))
		}
	})
}

// TestEnd: what waits when the service ends is handed on, once.
func TestEnd(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{{nil, "a b c"}, {errors.New("no"), ""}} {
		for range 32 { // which of the two comes first is drawn by lot
			l := list{}
			synctest.Test(t, func(t *testing.T) {
				m := NewMetrics(prometheus.NewRegistry())
				p := NewPublisher(l.push, 0, slog.New(slog.DiscardHandler), m)
				l.set(tc.err, 0)
				for _, id := range []string{"a", "b", "c"} {
					p.Publish(use(id))
				}
				ctx, end := context.WithCancel(t.Context())
				end()
				started := time.Now()
				p.Run(ctx)
				if got := l.String(); got != tc.want || time.Since(started) != 0 {
					t.Errorf("%q after %v, want %q", got, time.Since(started), tc.want)
				}
			})
		}
	}
}
