package lab

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// ExecdPort is the port of OpenSandbox's execd, on which every Pod of the lab
// listens.
const ExecdPort = 44772

// Pod is the process in a Pod: an HTTP server on an address of its own that
// behaves like OpenSandbox's execd and agent-sandbox's runtime where it matters, knows
// whose Pod it is, and appends every command that it executes to a record. It executes
// nothing.
type Pod struct {
	Name string
	UID  string
	Addr netip.AddrPort
	// Network is the Pod's own network namespace, if it was started on a bridge.
	Network *PodNetwork

	server   *http.Server
	listener net.Listener
	mu       sync.Mutex
	executed []Execution
	conns    int   // accepted
	received int64 // bytes of the upload that is under way
	files    map[string][]byte
}

// Execution is one request that reached a Pod.
type Execution struct {
	Pod     string // name of the Pod that executed it
	UID     string // its uid
	Command string
	From    string // address and port of the peer: which connection it came on
	Header  http.Header
}

// StartPod starts a Pod's process. It ends with [Pod.Stop] or the lab.
func (l *Lab) StartPod(name, uid string, addr netip.Addr) (*Pod, error) {
	return l.StartPodOn(name, uid, netip.AddrPortFrom(addr, ExecdPort))
}

// StartPodOn starts a Pod's process on another port.
func (l *Lab) StartPodOn(name, uid string, addr netip.AddrPort) (*Pod, error) {
	return l.start(name, uid, addr, nil)
}

// StartTLSPod starts a Pod's process that speaks TLS.
func (l *Lab) StartTLSPod(name, uid string, addr netip.Addr, config *tls.Config) (*Pod, error) {
	return l.start(name, uid, netip.AddrPortFrom(addr, ExecdPort), config)
}

func (l *Lab) start(name, uid string, addr netip.AddrPort, config *tls.Config) (*Pod, error) {
	listener, err := net.Listen("tcp", addr.String())
	if err != nil {
		return nil, err
	}
	p := &Pod{Name: name, UID: uid, Addr: addr}
	l.serve(p, listener, config)
	return p, nil
}

func (l *Lab) serve(p *Pod, listener net.Listener, config *tls.Config) {
	p.listener = listener
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, r *http.Request) { p.execute(r, "ping"); p.say(w, "pong") })
	mux.HandleFunc("POST /command", p.command)
	p.serveFiles(mux)
	p.serveRuntime(mux)
	mux.HandleFunc("GET /ws", p.echo)
	mux.HandleFunc("GET /pty", p.pty)
	mux.HandleFunc("POST /reset", p.reset)
	p.hostile(mux)
	mux.Handle("POST /grpc.testing.TestService/", grpcHandler(p))
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	p.server = &http.Server{Handler: mux, Protocols: &protocols, TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			p.mu.Lock()
			p.conns++
			p.mu.Unlock()
		}
	}}
	if config == nil {
		go p.server.Serve(p.listener)
	} else {
		go p.server.ServeTLS(p.listener, "", "")
	}
	l.onClose(p.Stop)
}

// Stop ends the process: its connections are reset and its address is free.
func (p *Pod) Stop() { _ = p.server.Close() }

// Executed returns the record.
func (p *Pod) Executed() []Execution {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Execution(nil), p.executed...)
}

// Connections is how many connections were accepted.
func (p *Pod) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns
}

// Received is how many bytes have arrived of the upload that is under way.
func (p *Pod) Received() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received
}

func (p *Pod) execute(r *http.Request, command string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.executed = append(p.executed, Execution{Pod: p.Name, UID: p.UID, Command: command, From: r.RemoteAddr, Header: r.Header.Clone()})
}

func (p *Pod) say(w io.Writer, what string) { fmt.Fprintf(w, "%s by %s %s\n", what, p.Name, p.UID) }

// command streams events as execd does. The query parameters ticks and every make
// it last.
func (p *Pod) command(w http.ResponseWriter, r *http.Request) {
	var body struct{ Command string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.execute(r, body.Command)
	w.Header().Set("content-type", "text/event-stream")
	event := func(kind, text string) {
		line, _ := json.Marshal(map[string]any{"type": kind, "text": text, "timestamp": time.Now().UnixMilli()}) // an SDK drops an event without its time
		fmt.Fprintf(w, "data: %s\n\n", line)
		w.(http.Flusher).Flush()
	}
	event("init", p.UID)
	ticks, _ := strconv.Atoi(r.URL.Query().Get("ticks"))
	every, _ := time.ParseDuration(r.URL.Query().Get("every"))
	for i := range ticks {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(every):
			event("stdout", strconv.Itoa(i))
		}
	}
	event("stdout", p.output(body.Command))
	event("execution_complete", "")
}

// echo is a WebSocket that repeats messages and says who repeats them.
func (p *Pod) echo(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "ws")
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	defer c.CloseNow()
	for {
		kind, message, err := c.Read(context.WithoutCancel(r.Context()))
		if err != nil {
			return
		}
		if err := c.Write(r.Context(), kind, fmt.Appendf(nil, "%s from %s", message, p.UID)); err != nil {
			return
		}
	}
}

// pty answers a 409 of its own, as execd does when a second terminal attaches.
func (p *Pod) pty(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "pty")
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(http.StatusConflict)
	fmt.Fprint(w, `{"code":"PTY_ALREADY_ATTACHED"}`)
}

// reset executes, and then breaks the connection without an answer.
func (p *Pod) reset(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "reset")
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // RST instead of FIN
	conn.Close()
}
