package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// stuck is a writer that waits until it is released, as a full pipe does.
type stuck struct {
	release chan struct{}
	b       bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.release
	return s.b.Write(p)
}

// TestSpool: nobody waits for whoever reads the log; what is lost is counted, and
// what is not stays in order.
func TestSpool(t *testing.T) {
	out := &stuck{release: make(chan struct{})}
	s := newSpool(out)
	const records = spooled + 100
	started := time.Now()
	for i := range records {
		fmt.Fprintf(s, "record %d\n", i)
	}
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("writing to a stuck log took %v", took)
	}
	lost := s.dropped.Load()
	if lost < 90 || lost > 100 {
		t.Errorf("%d of %d records are lost, with room for %d", lost, records, spooled)
	}
	close(out.release)
	s.Close()
	lines := strings.Split(strings.TrimSpace(out.b.String()), "\n")
	if len(lines) != records-int(lost) || lines[0] != "record 0" || lines[len(lines)-1] != fmt.Sprintf("record %d", len(lines)-1) {
		t.Errorf("%d lines, from %q to %q", len(lines), lines[0], lines[len(lines)-1])
	}
}
