package sandbox

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/samepod/samepod/identity"
)

// Hold says who holds an address that an engine publishes for a sandbox.
type Hold uint8

// The states of a published address, the worst last.
const (
	// HoldOwn says that the sandbox's own Pod holds it, and nobody else.
	HoldOwn Hold = iota
	// HoldDead says that no live Pod holds it: who dials it gets no answer, until it is
	// given to somebody.
	HoldDead
	// HoldUnreadable says that it is no address.
	HoldUnreadable
	// HoldShared says that the sandbox's own Pod and another hold it, or that another
	// sandbox claims its Pod too.
	HoldShared
	// HoldReassigned says that a stranger's Pod holds it: who dials it is answered by
	// somebody else's container.
	HoldReassigned
)

var holdNames = [...]string{"own", "dead", "unreadable", "shared", "reassigned"}

func (h Hold) String() string {
	if int(h) >= len(holdNames) {
		return fmt.Sprintf("Hold(%d)", h)
	}
	return holdNames[h]
}

// Record is one address that an engine publishes for a sandbox, and who holds it.
type Record struct {
	Sandbox identity.NamespacedName
	UID     identity.UID
	Kind    string
	Address netip.Addr // invalid where it is unreadable
	Hold    Hold
	// Holder is a live Pod that holds it, a stranger's before the sandbox's own; zero for none.
	Holder identity.Holder
}

// Audit compares every address that the engine publishes with who holds it now: the
// worst first, then by name. It says nothing of how fresh the Index is.
func (x *Index) Audit() []Record {
	var all []Record
	for _, s := range x.All() {
		for _, addr := range s.Published {
			r := Record{Sandbox: s.NamespacedName, UID: s.UID, Kind: s.Kind, Address: addr}
			r.Hold, r.Holder = x.hold(&s, addr)
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Record) int {
		return cmp.Or(cmp.Compare(b.Hold, a.Hold), cmp.Compare(a.Sandbox.String(), b.Sandbox.String()), a.Address.Compare(b.Address))
	})
	return all
}

func (x *Index) hold(s *Sandbox, addr netip.Addr) (Hold, identity.Holder) {
	if !addr.IsValid() {
		return HoldUnreadable, identity.Holder{}
	}
	var own, stranger identity.Holder
	for _, p := range x.pods.Holders(addr) {
		holder := identity.Holder{NamespacedName: p.NamespacedName, UID: p.UID}
		owns := x.owns(s, &p)
		if owns {
			own = holder
		}
		if !owns || x.claimed(s, &p) {
			stranger = holder
		}
	}
	switch {
	case own.IsZero() && stranger.IsZero():
		return HoldDead, own
	case stranger.IsZero():
		return HoldOwn, own
	case own.IsZero():
		return HoldReassigned, stranger
	}
	return HoldShared, stranger
}

// owns reports whether the Pod is one of the sandbox, of which it may have several.
func (x *Index) owns(s *Sandbox, p *identity.Pod) bool {
	if p.Namespace != s.Namespace {
		return false
	}
	if s.Pool == "" {
		return p.Owner.UID == s.UID && p.Owner.Kind == s.Kind
	}
	return slices.Contains(s.Pods, p.Name) && p.Owner.Kind == x.engine.PoolKind && p.Owner.Name == s.Pool
}

// claimed reports whether another sandbox claims a Pod of a Pool that s has.
func (x *Index) claimed(s *Sandbox, p *identity.Pod) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.ContainsFunc(x.claims[p.NamespacedName], func(other *Sandbox) bool { return other.UID != s.UID })
}
