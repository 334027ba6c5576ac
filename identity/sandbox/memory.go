package sandbox

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/samepod/samepod/identity"
)

// mostPins bounds the pins in memory: twice the sandboxes of the largest platforms, at
// some hundred bytes each. The pin that was not used for longest is forgotten.
const mostPins = 100_000

// memory keeps pins where the engine's objects cannot: a restart forgets them, and
// other replicas do not know them.
type memory struct {
	mu   sync.Mutex // for who reads and then writes
	pins *lru.Cache[identity.UID, kept]
}

// kept is a pin in the place of the one that its object has, which may be none.
type kept struct{ instead, pin Pin }

func newMemory() *memory {
	cache, err := lru.New[identity.UID, kept](mostPins)
	if err != nil {
		panic(err) // the size is positive
	}
	return &memory{pins: cache}
}

// of is the pin of s: the remembered one, unless its object got another one since.
func (m *memory) of(s *Sandbox) Pin {
	if k, ok := m.pins.Get(s.UID); ok && k.instead == s.Pin && s.PinFault == "" {
		return k.pin
	}
	return s.Pin
}

// keep makes p the pin of s if one is wanted still: another check may have been faster,
// with another Pod.
func (m *memory) keep(s *Sandbox, p Pin, wanted func(Pin) bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !wanted(m.of(s)) {
		return false
	}
	m.pins.Add(s.UID, kept{s.Pin, p})
	return true
}
