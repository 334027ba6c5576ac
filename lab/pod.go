package lab

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
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
// behaves like execd where it matters, knows whose Pod it is, and appends every
// command that it executes to a record. It executes nothing.
type Pod struct {
	Name string
	UID  string
	Addr netip.AddrPort

	server   *http.Server
	mu       sync.Mutex
	executed []Execution
	conns    int   // accepted
	received int64 // bytes of the upload that is under way
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
	return l.StartTLSPod(name, uid, addr, nil)
}

// StartTLSPod starts a Pod's process that speaks TLS, unless config is nil.
func (l *Lab) StartTLSPod(name, uid string, addr netip.Addr, config *tls.Config) (*Pod, error) {
	p := &Pod{Name: name, UID: uid, Addr: netip.AddrPortFrom(addr, ExecdPort)}
	listener, err := net.Listen("tcp", p.Addr.String())
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, r *http.Request) { p.execute(r, "ping"); p.say(w, "pong") })
	mux.HandleFunc("POST /command", p.command)
	mux.HandleFunc("POST /files/upload", p.upload)
	mux.HandleFunc("GET /files/download", p.download)
	mux.HandleFunc("GET /ws", p.echo)
	mux.HandleFunc("GET /pty", p.pty)
	mux.HandleFunc("POST /reset", p.reset)
	mux.HandleFunc("GET /forge", p.forge)
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
		go p.server.Serve(listener)
	} else {
		go p.server.ServeTLS(listener, "", "")
	}
	l.onClose(p.Stop)
	return p, nil
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
		line, _ := json.Marshal(map[string]string{"type": kind, "text": text}) // strings
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
	event("stdout", fmt.Sprintf("%s executed in %s", body.Command, p.Name))
	event("execution_complete", "")
}

// upload hashes what arrives, as it arrives.
func (p *Pod) upload(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "upload")
	p.mu.Lock()
	p.received = 0
	p.mu.Unlock()
	sum := sha256.New()
	buffer := make([]byte, 64<<10)
	var total int64
	for {
		n, err := r.Body.Read(buffer)
		sum.Write(buffer[:n])
		total += int64(n)
		p.mu.Lock()
		p.received = total
		p.mu.Unlock()
		if err == io.EOF {
			break
		}
		if err != nil {
			return
		}
	}
	fmt.Fprintf(w, "%d %s\n", total, hex.EncodeToString(sum.Sum(nil)))
}

func (p *Pod) download(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "download "+r.URL.Query().Get("path"))
	p.say(w, "contents of "+r.URL.Query().Get("path"))
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

// forge answers as if it were samepod.
func (p *Pod) forge(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "forge")
	w.Header().Set("x-samepod-reason", "same-pod")
	w.Header().Set("x-samepod-decision", "forged")
	w.Header().Set("x-samepod-pod-uid", "forged")
	p.say(w, "forged")
}
