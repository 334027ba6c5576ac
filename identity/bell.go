package identity

import "sync"

// Bell wakes everybody who waits for the next change of something. The zero Bell is
// ready. Who waits asks for the channel first and looks then, so that no change falls
// between.
type Bell struct {
	mu   sync.Mutex
	next chan struct{} // nil while nobody waits
}

// Next is closed with the next [Bell.Ring].
func (b *Bell) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// Ring wakes them.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
