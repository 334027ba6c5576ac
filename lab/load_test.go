package lab_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// load is a caller that sends the same request at a steady rate, from several
// connections, until it is stopped.
type load struct {
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	answers map[string]int // by status and reason
}

// startLoad sends rate requests a second, for at most 30 s.
func startLoad(t *testing.T, url string, rate int, header ...string) *load {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	l := &load{stop: cancel, done: make(chan struct{}), answers: map[string]int{}}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	go func() {
		defer close(l.done)
		var running sync.WaitGroup
		defer running.Wait()
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				running.Go(func() { l.send(client, url, header) })
			}
		}
	}()
	t.Cleanup(func() { l.end(); client.CloseIdleConnections() })
	return l
}

func (l *load) send(client *http.Client, url string, header []string) {
	answer := ""
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err == nil {
		for i := 0; i < len(header); i += 2 {
			req.Header.Add(header[i], header[i+1])
		}
		var resp *http.Response
		if resp, err = client.Do(req); err == nil {
			answer = fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("x-samepod-reason"))
			resp.Body.Close()
		}
	}
	if err != nil {
		answer = err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[answer]++
}

// good is what a request that reached its Pod is counted as.
const good = "200 "

// sent is how many requests have been answered.
func (l *load) sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, m := range l.answers {
		n += m
	}
	return n
}

// end stops the load and returns how many requests were answered, and those that did
// not reach the Pod.
func (l *load) end() (sent int, bad map[string]int) {
	l.stop()
	<-l.done
	bad = map[string]int{}
	for answer, n := range l.answers {
		sent += n
		if answer != good {
			bad[answer] = n
		}
	}
	return sent, bad
}
