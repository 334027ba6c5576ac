package sandbox

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// shared gives all who ask the same at the same time one answer, out of a read that began
// after each of them asked. Who comes while one is under way waits for the next one. So
// the callers of one sandbox, however many, have one read under way: they neither make
// the API server busy nor keep others from asking it.
type shared[K comparable, V any] struct {
	mu      sync.Mutex
	open    map[K]*answer[V] // have not begun, and may be joined
	running map[K]*answer[V]
}

type answer[V any] struct {
	cancel  context.CancelFunc
	waiting int // for it; guarded by shared.mu
	done    chan struct{}
	value   V // as is err: set before done is closed
	err     error
}

func newShared[K comparable, V any]() *shared[K, V] {
	return &shared[K, V]{open: map[K]*answer[V]{}, running: map[K]*answer[V]{}}
}

// ask answers by read, which ends when nobody waits for it any more.
func (s *shared[K, V]) ask(ctx context.Context, key K, read func(context.Context) (V, error)) (V, error) {
	s.mu.Lock()
	a := s.open[key]
	if a == nil {
		a = &answer[V]{done: make(chan struct{})}
		var reading context.Context
		reading, a.cancel = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // run calls it
		s.open[key] = a
		go s.run(reading, key, a, s.running[key], read)
	}
	a.waiting++
	s.mu.Unlock()
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		s.leave(key, a)
		var none V
		return none, ctx.Err()
	}
}

// run reads after the one before.
func (s *shared[K, V]) run(ctx context.Context, key K, a, before *answer[V], read func(context.Context) (V, error)) {
	defer close(a.done)
	defer a.cancel()
	if before != nil {
		<-before.done
	}
	s.mu.Lock()
	if a.waiting == 0 { // and so not open either
		s.mu.Unlock()
		a.err = context.Canceled // nobody reads it
		return
	}
	delete(s.open, key)
	s.running[key] = a
	s.mu.Unlock()
	defer func() {
		if p := recover(); p != nil { // as in a check: it is denied, and others go on
			a.err = fmt.Errorf("live read panicked: %v\n%s", p, debug.Stack())
		}
		s.mu.Lock()
		delete(s.running, key)
		s.mu.Unlock()
	}()
	a.value, a.err = read(ctx)
}

func (s *shared[K, V]) leave(key K, a *answer[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.waiting--; a.waiting > 0 {
		return
	}
	a.cancel()
	if s.open[key] == a {
		delete(s.open, key) // who comes now must not join what is cancelled
	}
}
