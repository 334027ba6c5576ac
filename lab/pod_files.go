package lab

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"time"
)

// Files of a Pod: what came in a form, as an SDK sends it, is kept and can be read.

// serveFiles is execd's part.
func (p *Pod) serveFiles(mux *http.ServeMux) {
	mux.HandleFunc("POST /files/upload", p.upload)
	mux.HandleFunc("GET /files/download", p.download)
	mux.HandleFunc("GET /files/info", p.info)
}

// serveRuntime is the HTTP API of agent-sandbox's runtime.
func (p *Pod) serveRuntime(mux *http.ServeMux) {
	mux.HandleFunc("POST /execute", p.executeJSON)
	mux.HandleFunc("POST /upload", p.upload)
	mux.HandleFunc("GET /download/{path...}", func(w http.ResponseWriter, r *http.Request) { p.read(w, r, r.PathValue("path")) })
	mux.HandleFunc("GET /exists/{path...}", p.exists)
	mux.HandleFunc("GET /list/{path...}", p.list)
}

// executeJSON answers at the end, where execd streams.
func (p *Pod) executeJSON(w http.ResponseWriter, r *http.Request) {
	var body struct{ Command string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.execute(r, body.Command)
	answerJSON(w, map[string]any{"stdout": p.output(body.Command), "stderr": "", "exit_code": 0})
}

// output is what a command prints.
func (p *Pod) output(command string) string { return command + " executed in " + p.Name }

// upload hashes what arrives, as it arrives.
func (p *Pod) upload(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "upload")
	p.mu.Lock()
	p.received = 0
	p.mu.Unlock()
	sum := sha256.New()
	var form bytes.Buffer
	kind, params, _ := mime.ParseMediaType(r.Header.Get("content-type")) // none is no form
	buffer := make([]byte, 64<<10)
	var total int64
	for {
		n, err := r.Body.Read(buffer)
		sum.Write(buffer[:n])
		if kind == "multipart/form-data" {
			form.Write(buffer[:n])
		}
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
	if kind == "multipart/form-data" {
		if err := p.keep(multipart.NewReader(&form, params["boundary"])); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	fmt.Fprintf(w, "%d %s\n", total, hex.EncodeToString(sum.Sum(nil)))
}

// keep takes the files of a form. execd has a path in the part before the file,
// agent-sandbox's runtime in the file's name.
func (p *Pod) keep(form *multipart.Reader) error {
	var metadata struct{ Path string }
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return err
		}
		if part.FormName() == "metadata" {
			if err := json.Unmarshal(text, &metadata); err != nil {
				return err
			}
			continue
		}
		name := metadata.Path
		if name == "" {
			_, params, err := mime.ParseMediaType(part.Header.Get("content-disposition"))
			if err != nil {
				return err
			}
			name = params["filename"] // FileName would take its directory away
		}
		p.mu.Lock()
		if p.files == nil {
			p.files = map[string][]byte{}
		}
		p.files[path.Clean("/"+name)] = text
		p.mu.Unlock()
	}
}

// file is what was uploaded to a path.
func (p *Pod) file(name string) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, ok := p.files[path.Clean("/"+name)]
	return text, ok
}

func (p *Pod) download(w http.ResponseWriter, r *http.Request) {
	p.read(w, r, r.URL.Query().Get("path"))
}

// read answers what was uploaded, and else something that says who answers.
func (p *Pod) read(w http.ResponseWriter, r *http.Request, name string) {
	p.execute(r, "download "+name)
	if text, ok := p.file(name); ok {
		w.Header().Set("content-length", strconv.Itoa(len(text)))
		_, _ = w.Write(text)
		return
	}
	p.say(w, "contents of "+name)
}

func (p *Pod) info(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "info")
	all := map[string]any{}
	for _, name := range r.URL.Query()["path"] {
		text, ok := p.file(name)
		if !ok {
			http.Error(w, "no such file", http.StatusNotFound)
			return
		}
		all[name] = map[string]any{"path": name, "type": "file", "size": len(text), "mode": 644, "owner": p.Name, "group": p.UID, "modified_at": time.Time{}, "created_at": time.Time{}}
	}
	answerJSON(w, all)
}

func (p *Pod) exists(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "exists")
	_, ok := p.file(r.PathValue("path"))
	answerJSON(w, map[string]any{"path": r.PathValue("path"), "exists": ok})
}

func (p *Pod) list(w http.ResponseWriter, r *http.Request) {
	p.execute(r, "list")
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []any{}
	for name, text := range p.files {
		if path.Dir(name) == path.Clean("/"+r.PathValue("path")) {
			all = append(all, map[string]any{"name": path.Base(name), "type": "file", "size": len(text), "mod_time": 0})
		}
	}
	answerJSON(w, all)
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("content-type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the caller may be gone
}
