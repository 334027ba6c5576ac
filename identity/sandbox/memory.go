package sandbox

import (
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/samepod/samepod/identity"
)

// mostPins bounds the pins in memory: twice the sandboxes of the largest platforms, at
// some hundred bytes each. The pin that was not used for longest is forgotten.
const mostPins = 100_000

// memory keeps pins where the engine's objects cannot: a restart forgets them, and
// other replicas do not know them.
type memory struct{ pins *lru.Cache[identity.UID, Pin] }

func newMemory() *memory {
	cache, err := lru.New[identity.UID, Pin](mostPins)
	if err != nil {
		panic(err) // the size is positive
	}
	return &memory{cache}
}

// of is the pin of s: that of its object, or else the remembered one.
func (m *memory) of(s *Sandbox) Pin {
	if s.Pin != (Pin{}) || s.PinFault != "" {
		return s.Pin
	}
	p, _ := m.pins.Get(s.UID)
	return p
}

func (m *memory) keep(p Pin) { m.pins.Add(p.Sandbox, p) }
