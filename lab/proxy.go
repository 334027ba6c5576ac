package lab

import (
	"context"
	"io"
	"net"
	"sync"
)

// Proxy forwards TCP connections to one address, until it is told to stop reading:
// then connections stay open, new ones are accepted, and nothing moves, as behind
// a firewall that lost its state.
type Proxy struct {
	Addr net.Addr

	to     string
	mu     sync.Mutex
	valves []*valve // the last one is of new connections
}

// valve is what connections have in common that stop together.
type valve struct{ moving chan struct{} } // closed while bytes may move

func openValve() *valve {
	v := &valve{make(chan struct{})}
	close(v.moving)
	return v
}

func (v *valve) open() bool {
	select {
	case <-v.moving:
		return true
	default:
		return false
	}
}

// StartProxy starts a proxy to an address.
func (l *Lab) StartProxy(to string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: listener.Addr(), to: to, valves: []*valve{openValve()}}
	ctx, cancel := context.WithCancel(context.Background())
	l.onClose(func() { cancel(); listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.forward(ctx, conn)
		}
	}()
	return p, nil
}

// Pause stops all reading.
func (p *Proxy) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
}

// Hold stops what is open now, such as watches; connections that are made from now on
// move.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	p.valves = append(p.valves, openValve())
}

func (p *Proxy) stop() {
	for _, v := range p.valves {
		if v.open() {
			v.moving = make(chan struct{})
		}
	}
}

// Resume lets bytes move again, those that wait first.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.valves {
		if !v.open() {
			close(v.moving)
		}
	}
}

func (p *Proxy) gate(v *valve) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return v.moving
}

func (p *Proxy) forward(ctx context.Context, in net.Conn) {
	defer in.Close()
	p.mu.Lock()
	v := p.valves[len(p.valves)-1]
	p.mu.Unlock()
	out, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer out.Close()
	stop := context.AfterFunc(ctx, func() { in.Close(); out.Close() })
	defer stop()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			p.copy(ctx, v, way[1], way[0])
			done <- struct{}{}
		}()
	}
	<-done // one side has ended: so does the other
}

// copy moves bytes while the gate is open.
func (p *Proxy) copy(ctx context.Context, v *valve, to io.Writer, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		select {
		case <-p.gate(v):
		case <-ctx.Done():
			return
		}
		n, err := from.Read(buffer)
		if n > 0 {
			select { // it may have been paused while we read
			case <-p.gate(v):
			case <-ctx.Done():
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
