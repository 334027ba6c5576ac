package lab

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// Addresses gives loopback addresses to Pods as a busy CNI does: the address of a
// Pod that died goes to the next one at once.
type Addresses struct {
	mu     sync.Mutex
	prefix [3]byte
	next   byte
	free   []netip.Addr // the last one released is given first
}

// NewAddresses takes a /24 of 127.0.0.0/8 that nobody listens in on port.
func NewAddresses(port uint16) (*Addresses, error) {
	for range 100 {
		a := &Addresses{prefix: [3]byte{127, byte(16 + rand.IntN(200)), byte(rand.IntN(256))}, next: 1}
		l, err := net.Listen("tcp", netip.AddrPortFrom(a.addr(1), port).String())
		if err == nil {
			return a, l.Close()
		}
	}
	return nil, fmt.Errorf("no free /24 of 127.0.0.0/8 for port %d", port)
}

func (a *Addresses) addr(last byte) netip.Addr {
	return netip.AddrFrom4([4]byte{a.prefix[0], a.prefix[1], a.prefix[2], last})
}

// Prefix is the range that addresses are taken from.
func (a *Addresses) Prefix() netip.Prefix { return netip.PrefixFrom(a.addr(0), 24) }

// Take returns an address: the one that was released last, if there is one.
func (a *Addresses) Take() netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.free); n > 0 {
		addr := a.free[n-1]
		a.free = a.free[:n-1]
		return addr
	}
	if a.next == 255 {
		panic("lab: more than 254 Pods at once")
	}
	a.next++
	return a.addr(a.next - 1)
}

// Release gives an address back.
func (a *Addresses) Release(addr netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = append(a.free, addr)
}
