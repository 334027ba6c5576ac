package main

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// mostUnproven is how many connections of a listener may be on their way through the
// handshake; a flood of a thousand a second leaves each a second for it.
const mostUnproven = 1024

// boundListener bounds what clients hold of a listener, and lets none of them wait for
// another. A new connection is unproven until the handshake is done: with TLS a
// client without a certificate gets no further. Beyond their bound the oldest of
// them is closed, which has had the most time; so silent connections, however many,
// keep out nobody who speaks at once. Proven ones have a bound of their own, beyond
// which the newest is closed: others work.
type boundListener struct {
	net.Listener
	mostUnproven int
	mostProven   int // 0 where no connection is ever proven

	mu       sync.Mutex
	unproven list.List // of *boundConn, the oldest first
	proven   int
}

// boundConn is a connection of a boundListener.
type boundConn struct {
	net.Conn
	of       *boundListener
	unproven *list.Element // nil when it is proven or closed
	proven   bool
}

// Accept implements net.Listener.
func (l *boundListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &boundConn{Conn: conn, of: l}
	if oldest := l.enter(c); oldest != nil {
		_ = oldest.Close() // whose handshake then fails, which is told there
	}
	return c, nil
}

// enter takes a new connection in and returns the one that has to go, or nil.
func (l *boundListener) enter(c *boundConn) *boundConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.unproven = l.unproven.PushBack(c)
	if l.unproven.Len() <= l.mostUnproven {
		return nil
	}
	oldest, _ := l.unproven.Front().Value.(*boundConn)
	l.leave(oldest)
	return oldest
}

// prove reports whether there is a place for a connection that is proven now.
func (l *boundListener) prove(c *boundConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.unproven == nil {
		return true // already, or it is closed
	}
	l.leave(c)
	c.proven = l.proven < l.mostProven
	if c.proven {
		l.proven++
	}
	return c.proven
}

// leave gives up the place of a connection, whichever it has.
func (l *boundListener) leave(c *boundConn) {
	if c.unproven != nil {
		l.unproven.Remove(c.unproven)
		c.unproven = nil
	}
	if c.proven {
		l.proven--
		c.proven = false
	}
}

// SetDeadline implements net.Conn. grpc-go sets a deadline for the handshake of TLS
// and of HTTP/2 together (grpc.ConnectionTimeout), and takes it away when both are
// done: that is when a connection is proven.
func (c *boundConn) SetDeadline(t time.Time) error {
	if err := c.Conn.SetDeadline(t); err != nil {
		return err
	}
	if t.IsZero() && c.of.mostProven > 0 && !c.of.prove(c) {
		return c.Close()
	}
	return nil
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	c.of.mu.Lock()
	c.of.leave(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
