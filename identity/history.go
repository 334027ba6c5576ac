package identity

import (
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
)

// HistoryConfig bounds the memory of who held an address. It explains denials to
// people; no verdict depends on it, so what it forgets costs no safety.
type HistoryConfig struct {
	// Addresses is the number of addresses remembered; the least recently changed
	// is forgotten first.
	Addresses int
	// Tenures is the number of holders remembered of one address.
	Tenures int
	// TTL is how long an address is remembered after its last change; 0 is for
	// ever.
	TTL time.Duration
}

// A Tenure is the time in which one Pod held one address, as this process saw it.
type Tenure struct {
	Holder
	// From is zero where the beginning is no longer, or never was, known.
	From time.Time
	// To is zero while the Pod holds the address.
	To time.Time
}

// history keeps the tenures of each address, oldest first. The slices in the LRU
// are never written again, so a reader may keep one. Writers hold Index.mu.
type history struct {
	byAddr  *expirable.LRU[netip.Addr, []Tenure]
	tenures int
}

func newHistory(c HistoryConfig) *history {
	return &history{
		byAddr:  expirable.NewLRU[netip.Addr, []Tenure](max(c.Addresses, 1), nil, c.TTL),
		tenures: max(c.Tenures, 1),
	}
}

func (h *history) begin(addr netip.Addr, who Holder, at time.Time) {
	h.add(addr, Tenure{Holder: who, From: at})
}

func (h *history) end(addr netip.Addr, who Holder, at time.Time) {
	past, _ := h.byAddr.Peek(addr)
	for i := len(past) - 1; i >= 0; i-- {
		if past[i].Holder == who && past[i].To.IsZero() {
			next := slices.Clone(past)
			next[i].To = at
			h.byAddr.Add(addr, next)
			return
		}
	}
	h.add(addr, Tenure{Holder: who, To: at}) // its beginning was forgotten
}

func (h *history) add(addr netip.Addr, t Tenure) {
	past, _ := h.byAddr.Peek(addr)
	past = past[max(0, len(past)+1-h.tenures):]
	h.byAddr.Add(addr, append(slices.Clone(past), t))
}

// History returns who held addr, oldest first, within the bounds of the
// configuration. The caller must not write to the slice.
func (x *Index) History(addr netip.Addr) []Tenure {
	past, _ := x.history.byAddr.Peek(addr)
	return past
}
