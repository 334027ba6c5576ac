package sandbox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// slow is an API server that takes a second for every read, or as long as it is waited for.
type slow struct {
	sandbox.Live
	boxes     map[identity.NamespacedName]sandbox.Sandbox
	reads     atomic.Int32
	cancelled atomic.Int32
}

func (a *slow) wait(ctx context.Context) error {
	a.reads.Add(1)
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		a.cancelled.Add(1)
		return ctx.Err()
	}
}

func (a *slow) Get(ctx context.Context, _ string, n identity.NamespacedName) (sandbox.Sandbox, bool, error) {
	err := a.wait(ctx)
	s, ok := a.boxes[n]
	return s, ok, err
}

func (a *slow) Find(ctx context.Context, _ identity.Claim) ([]sandbox.Sandbox, error) {
	return nil, a.wait(ctx)
}

// newSlow has two sandboxes whose Pods can be handed on without a trace.
func newSlow() (*world, *slow) {
	a, b := box("a", pooled("noop", "p-1")), box("b", pooled("noop", "p-2"))
	api := &slow{boxes: map[identity.NamespacedName]sandbox.Sandbox{a.NamespacedName: a, b.NamespacedName: b}}
	e := engine()
	e.Live = api
	return newWorld(e, a, b, pod("p-1", "10.0.0.1", ofPool("noop")), pod("p-2", "10.0.0.2", ofPool("noop"))), api
}

// ask lets n checks at once ask what a sandbox means, and tells the errors and how long
// the fastest and the slowest took.
func ask(ctx context.Context, w *world, n int, names ...string) (failed int, fastest, slowest time.Duration) {
	began := time.Now()
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			c := claim(names[i%len(names)])
			got, err := w.index.Confirm(ctx, c, w.index.Target(c))
			took := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || got.State != identity.Bound {
				failed++
			}
			if fastest == 0 || took < fastest {
				fastest = took
			}
			slowest = max(slowest, took)
		})
	}
	group.Wait()
	return failed, fastest, slowest
}

// TestSharedReads: the callers of one sandbox share reads that began after they came, and
// keep nobody else from asking.
func TestSharedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, api := newSlow()
		var group sync.WaitGroup
		group.Go(func() {
			if failed, _, slowest := ask(t.Context(), w, 1000, "a"); failed > 0 || slowest > 2*time.Second {
				t.Errorf("%d of them fail, the slowest after %v", failed, slowest)
			}
		})
		time.Sleep(500 * time.Millisecond)
		group.Go(func() {
			if failed, fastest, _ := ask(t.Context(), w, 1000, "a"); failed > 0 || fastest < time.Second {
				t.Errorf("who comes later: %d fail, the fastest is answered after %v, by a read of before", failed, fastest)
			}
		})
		if failed, _, slowest := ask(t.Context(), w, 1, "b"); failed > 0 || slowest != time.Second {
			t.Errorf("another sandbox: %d fail, after %v", failed, slowest)
		}
		group.Wait()
		if n := api.reads.Load(); n > 5 {
			t.Errorf("%d reads", n)
		}
	})
}

// TestSharedReadsEnd: what nobody waits for any more ends, and nobody joins it.
func TestSharedReadsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, api := newSlow()
		soon := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			t.Cleanup(cancel)
			return ctx
		}
		var group sync.WaitGroup
		group.Go(func() {
			if failed, _, _ := ask(t.Context(), w, 1, "a"); failed > 0 {
				t.Error("who came first is not answered")
			}
		})
		synctest.Wait()
		if failed, _, slowest := ask(soon(), w, 100, "a"); failed != 100 || slowest != 300*time.Millisecond {
			t.Errorf("%d of 100 give up, the last after %v", failed, slowest)
		}
		if failed, _, slowest := ask(t.Context(), w, 10, "a"); failed > 0 || slowest != 1700*time.Millisecond {
			t.Errorf("who comes then: %d fail, the slowest after %v", failed, slowest)
		}
		group.Wait()
		ask(soon(), w, 1, "b")
		synctest.Wait()
		if n := api.cancelled.Load(); n != 1 {
			t.Errorf("%d reads are given up", n)
		}
	})
}

// broken is an API server whose answers nobody has thought of.
type broken struct{ sandbox.Live }

func (broken) Get(context.Context, string, identity.NamespacedName) (sandbox.Sandbox, bool, error) {
	panic("an object like no other")
}

// TestReadPanics: it is one check that fails.
func TestReadPanics(t *testing.T) {
	e := engine()
	e.Live = broken{}
	w := newWorld(e, box("a", pooled("noop", "p-1")), pod("p-1", "10.0.0.1", ofPool("noop")))
	for range 2 {
		if got, err := confirm(w); err == nil || !strings.Contains(err.Error(), "an object like no other") || got.State == identity.Bound {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// TestMadeUpNames: who makes names up leaves the API server to others.
func TestMadeUpNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newSlow()
		var group sync.WaitGroup
		group.Go(func() {
			ask(t.Context(), w, 90, "x", "y", "z")
		})
		synctest.Wait()
		_, err := w.index.Confirm(t.Context(), claim("a"), w.index.Target(claim("a")))
		if errors.Is(err, sandbox.ErrBusy) || err != nil {
			t.Errorf("a sandbox that is known: %v", err)
		}
		group.Wait()
	})
}
