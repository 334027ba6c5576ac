package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/samepod/samepod/creation/gate"
)

// progress shows how far the waiting is: on a terminal in one line that changes,
// elsewhere, as in the log of a CI job, in a new line when something has changed.
type progress struct {
	w        io.Writer
	terminal bool
	last     string
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// bar is how much of the plan is done.
func bar(r report, plan gate.Plan) string {
	const width = 20
	done := min(width*r.Pods/plan.Pods, width)
	return fmt.Sprintf("[%-*s] %d of %d Pods, %d failed", width, "####################"[:done], r.Pods, plan.Pods, r.Failures)
}

func (p *progress) show(line string, left time.Duration) {
	switch {
	case p.terminal:
		fmt.Fprintf(p.w, "\r%s, at most %v more \x1b[K", line, left.Round(time.Second))
	case line != p.last:
		fmt.Fprintf(p.w, "%s, at most %v more\n", line, left.Round(time.Second))
	}
	p.last = line
}

// end leaves the line.
func (p *progress) end() {
	if p.terminal && p.last != "" {
		fmt.Fprintln(p.w)
	}
}
