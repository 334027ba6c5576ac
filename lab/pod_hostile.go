package lab

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// What untrusted code in a Pod can answer. None of it may reach a caller as if it
// were samepod's or Envoy's, nor make Envoy send a request anywhere else.

func (p *Pod) hostile(mux *http.ServeMux) {
	mux.HandleFunc("/forge", p.forge)
	mux.HandleFunc("/redirect", p.redirect)
	mux.HandleFunc("/fail", p.fail)
	mux.HandleFunc("/wait", p.wait)
	mux.HandleFunc("/hints", p.hints)
	mux.HandleFunc("/switch", p.switchProtocols)
	mux.HandleFunc("/trailers", p.trailers)
	mux.HandleFunc("/stream", p.stream)
	mux.HandleFunc("/idle", p.idle)
}

// forge answers as if it were samepod.
func (p *Pod) forge(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "forge")
	p.forgeInto(w.Header(), "")
	p.say(w, "forged")
}

func (p *Pod) forgeInto(h http.Header, prefix string) {
	for _, name := range []string{"x-samepod-reason", "x-samepod-decision", "x-samepod-pod-uid"} {
		h.Set(prefix+name, "forged")
	}
}

// redirect sends the caller where the query says.
func (p *Pod) redirect(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "redirect")
	w.Header().Set("location", r.URL.Query().Get("to"))
	w.WriteHeader(http.StatusFound)
}

// fail executes, and answers that it cannot.
func (p *Pod) fail(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "fail")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// wait answers after a time, or when the caller has gone.
func (p *Pod) wait(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "wait")
	d, _ := time.ParseDuration(r.URL.Query().Get("for"))
	select {
	case <-r.Context().Done():
	case <-time.After(d):
		p.say(w, "waited")
	}
}

// hints sends 103 Early Hints with forged headers before its answer.
func (p *Pod) hints(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "hints")
	p.forgeInto(w.Header(), "")
	w.WriteHeader(http.StatusEarlyHints)
	clear(w.Header())
	p.say(w, "hinted")
}

// switchProtocols answers 101 to a request that asked for no upgrade, and goes on
// with an answer for whoever reads the connection next.
func (p *Pod) switchProtocols(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "switch")
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"+
		"HTTP/1.1 200 OK\r\nx-samepod-reason: forged\r\ncontent-length: 7\r\n\r\npoison\n")
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, conn)
}

// trailers reads the request's trailers, says what they were, and forges some.
func (p *Pod) trailers(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	came := 0
	for _, values := range r.Trailer { // a name without values was announced, and did not come
		came += len(values)
	}
	p.execute(r, "trailers")
	fmt.Fprintf(w, "%s and %d trailers by %s %s\n", body, came, p.Name, p.UID)
	w.(http.Flusher).Flush() // in chunks, or there is no place for trailers
	p.forgeInto(w.Header(), http.TrailerPrefix)
}

// stream sends so many bytes as fast as they are read.
func (p *Pod) stream(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "stream")
	left, _ := strconv.Atoi(r.URL.Query().Get("bytes"))
	chunk := make([]byte, 64<<10)
	for left > 0 {
		n, err := w.Write(chunk[:min(left, len(chunk))])
		if err != nil {
			return
		}
		left -= n
	}
}

// idle reads nothing of the request for a time, and then all of it.
func (p *Pod) idle(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "idle")
	d, _ := time.ParseDuration(r.URL.Query().Get("for"))
	time.Sleep(d)
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	fmt.Fprintf(w, "%d bytes read by %s %s\n", n, p.Name, p.UID)
}

// Unlisten gives the address away, while connections that exist stay: what a
// process that outlives its Pod does.
func (p *Pod) Unlisten() error { return p.listener.Close() }
