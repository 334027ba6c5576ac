package node

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Hit is a line of a log that a signature knows.
type Hit struct {
	Match

	File string
	Line int
	// Text is the line, at most 1000 bytes of it, printable.
	Text string
	// Sandbox is the ID that the line or the file's path has, or empty.
	Sandbox string
	// Time is what the line begins with, as it stands there, or empty.
	Time string
}

// Place is file:line.
func (h Hit) Place() string { return fmt.Sprintf("%s:%d", h.File, h.Line) }

// Scan is what was read of a log.
type Scan struct {
	// Hits are the first of each class and sandbox.
	Hits []Hit
	// Lines is how many there were.
	Lines int
	// Notes say what was not read: the beginning of a huge file, binary lines.
	Notes []string

	seen map[string]bool // class and sandbox
	full bool
}

const (
	mostLog   = 64 << 20  // what is read of one log: its end
	mostLine  = 256 << 10 // what is looked at of one line: its beginning
	mostHits  = 10_000    // of one log
	textShown = 1000
)

// ScanLog classifies the lines of a log. A file of JSON objects without newlines
// between them, as runsc writes for its shim, counts as one line an object.
func ScanLog(file string, r io.Reader) (Scan, error) {
	var s Scan
	in := bufio.NewReaderSize(r, mostLine)
	binary := 0
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			s.notef("%s:%d: a line of more than %d KiB; its beginning was looked at", file, s.Lines+1, mostLine>>10)
			line = bytes.Clone(line)
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
		}
		if len(line) > 0 {
			s.Lines++
			if bytes.IndexByte(line, 0) >= 0 {
				binary++
			}
			s.add(file, line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return s, fmt.Errorf("%s, after line %d: %w", file, s.Lines, err)
		}
	}
	if binary > 0 {
		s.notef("%s: %d lines are not text", file, binary)
	}
	return s, nil
}

func (s *Scan) notef(format string, args ...any) {
	if len(s.Notes) < 20 {
		s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
	}
}

// add classifies one line, or the JSON objects that it is made of.
func (s *Scan) add(file string, line []byte) {
	if bytes.HasPrefix(line, []byte(`{"`)) {
		for d := json.NewDecoder(bytes.NewReader(line)); ; {
			start := d.InputOffset()
			var record json.RawMessage
			if d.Decode(&record) != nil {
				line = line[start:] // the rest is cut off, or is no JSON
				break
			}
			s.match(file, record)
		}
	}
	s.match(file, line)
}

func (s *Scan) match(file string, line []byte) {
	m := Classify(line)
	if !m.Known() {
		return
	}
	sandbox := sandboxOf(file, line)
	key := m.Class + " " + sandbox
	switch {
	case s.seen[key]:
		return // a line that comes again and again takes no other's place
	case len(s.Hits) == mostHits:
		if !s.full {
			s.full = true
			s.notef("%s:%d: from here on not classified: %d sandboxes and classes", file, s.Lines, mostHits)
		}
		return
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[key] = true
	s.Hits = append(s.Hits, Hit{
		Match: m, File: file, Line: s.Lines, Text: printable(line),
		Sandbox: sandbox, Time: timeOf(line),
	})
}

// secrets are what lines of registries, plugins and containers have that must not be
// shown to whoever reads a report: they end in tickets.
var secrets = regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|(://[^/\s:@]*:)[^/\s@]+@|((?:password|passwd|pwd|token|secret|api_?key)\\*"?\s*[=:]\s*\\*"?)[^\s"',;&\\]+`)

// printable is a line that cannot change a terminal, without secrets.
func printable(line []byte) string {
	line = bytes.TrimSpace(line)
	if len(line) > 4*textShown {
		line = line[:4*textShown]
	}
	line = secrets.ReplaceAll(line, []byte("${1}${2}${3}<hidden>"))
	if len(line) > textShown {
		line = append(bytes.Clone(line[:textShown]), "..."...)
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(line), "?"))
}

var sandboxID = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// sandboxOf finds the ID in the path of the log, which is the join to an event, or
// else in the line.
func sandboxOf(file string, line []byte) string {
	if id := sandboxID.FindString(file); id != "" {
		return id
	}
	return string(sandboxID.Find(line))
}

var timestamps = regexp.MustCompile(`^[IWEDF](\d{4} \d\d:\d\d:\d\d\.\d+)|(?:^|time="|"time":")(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))`)

func timeOf(line []byte) string {
	m := timestamps.FindSubmatch(line)
	if m == nil {
		return ""
	}
	return string(m[1]) + string(m[2])
}

// rank orders hits of one sandbox: causes first, and of those what runsc's gofer
// says, then what created it, then the sandbox itself.
func (h Hit) rank() int {
	kind := map[Kind]int{Cause: 0, Generic: 1, Later: 2, Symptom: 3}[h.Kind]
	process := 3
	for i, name := range []string{"gofer", "create", "boot"} {
		if strings.Contains(h.File[strings.LastIndexByte(h.File, '/')+1:], name) {
			process = i
		}
	}
	return kind*10 + process
}
