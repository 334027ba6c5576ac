package creation

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Bounds of a [Ledger].
const (
	ledgerSpan  = 24 * time.Hour
	mostCells   = 100_000 // some 10 MB
	mostFailed  = 1000    // Bad outcomes that are remembered one by one
	cellSize    = 10 * time.Second
	mostInPages = 20 // Pods and nodes that a window names
)

// Counts are outcomes of first sandboxes.
type Counts struct {
	Good int `json:"good"`
	Bad  int `json:"bad"`
}

// Total is n of the SLI.
func (c Counts) Total() int { return c.Good + c.Bad }

// Failed is a Bad outcome, for people.
type Failed struct {
	Pod       string    `json:"pod"`
	UID       string    `json:"uid"`
	Node      string    `json:"node"`
	Cause     string    `json:"cause"`
	Evidence  string    `json:"evidence"`
	Attempts  int       `json:"attempts"`
	At        time.Time `json:"at"`
	Recovered bool      `json:"recovered"`

	owner string
}

// Window is what a [Ledger] knows of [From, To), to ten seconds.
type Window struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Covered is for how many seconds of it this replica was the one that counts.
	Covered float64 `json:"coveredSeconds"`
	Counts
	NodeVersions map[string]Counts `json:"nodeVersions"`
	Causes       map[string]int    `json:"causes"`
	Excluded     map[string]int    `json:"excluded"`
	// Owners is how many controllers the Bad ones have: a ReplicaSet that makes its
	// Pod anew again and again is many failures and one fault. Nodes are the worst
	// first, and Failed the last ones, newest first.
	Owners int      `json:"owners"`
	Nodes  []Named  `json:"nodes"`
	Failed []Failed `json:"failed"`
}

// Named is a number with its name.
type Named struct {
	Name string `json:"name"`
	Bad  int    `json:"bad"`
}

// A Ledger remembers outcomes of first sandboxes by time, for a day. It names Pods
// and nodes, which metrics must not.
type Ledger struct {
	mu     sync.Mutex
	cells  []cell // by time
	failed []Failed
	spans  []span // when this replica counted
}

type cell struct {
	at        time.Time
	result    Result
	exclusion Exclusion
	cause     Cause
	version   string
	n         int
}

type span struct{ from, to time.Time } // to is zero for the present one

// Counting says that this replica counts from now on, or does not any more.
func (l *Ledger) Counting(is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	open := len(l.spans) > 0 && l.spans[len(l.spans)-1].to.IsZero()
	switch {
	case is && !open:
		l.spans = append(l.spans, span{from: now})
	case !is && open:
		l.spans[len(l.spans)-1].to = now
	}
}

// Add takes an outcome; one of a later generation is not for the ledger.
func (l *Ledger) Add(o Outcome) {
	if o.Generation != 1 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.Result == Recovered {
		if i := slices.IndexFunc(l.failed, func(f Failed) bool { return f.UID == string(o.UID) }); i >= 0 {
			l.failed[i].Recovered = true
		}
		return
	}
	l.count(cell{o.At.Truncate(cellSize), o.Result, o.Exclusion, o.Cause, o.NodeVersion, 1})
	if o.Result == Bad {
		if len(l.failed) >= mostFailed {
			l.failed = l.failed[1:]
		}
		owner := o.Owner
		if owner == "" {
			owner = string(o.UID)
		}
		l.failed = append(l.failed, Failed{
			Pod: o.String(), UID: string(o.UID), Node: o.Node, Cause: o.Cause.String(), Evidence: o.Evidence.String(),
			Attempts: o.Attempts, At: o.At, owner: owner,
		})
	}
	l.forget(o.At.Add(-ledgerSpan))
}

// count adds to the cell of the same kind, which is among the last ones.
func (l *Ledger) count(c cell) {
	for i := len(l.cells) - 1; i >= 0 && !l.cells[i].at.Before(c.at); i-- {
		same := l.cells[i]
		same.n = 1
		if same == c {
			l.cells[i].n++
			return
		}
	}
	l.cells = append(l.cells, c)
}

func (l *Ledger) forget(before time.Time) {
	old := 0
	for old < len(l.cells) && (l.cells[old].at.Before(before) || len(l.cells)-old > mostCells) {
		old++
	}
	l.cells = l.cells[old:]
	l.failed = slices.DeleteFunc(l.failed, func(f Failed) bool { return f.At.Before(before) })
	l.spans = slices.DeleteFunc(l.spans, func(s span) bool { return !s.to.IsZero() && s.to.Before(before) })
}

// Window sums up. A cell belongs to the window in which it begins.
func (l *Ledger) Window(from, to time.Time) Window {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := Window{From: from, To: to, NodeVersions: map[string]Counts{}, Causes: map[string]int{}, Excluded: map[string]int{}, Nodes: []Named{}, Failed: []Failed{}}
	for _, s := range l.spans {
		end := s.to
		if end.IsZero() {
			end = time.Now()
		}
		w.Covered += max(earliest(end, to).Sub(latest(s.from, from)), 0).Seconds()
	}
	within := func(at time.Time) bool { at = at.Truncate(cellSize); return !at.Before(from) && at.Before(to) }
	for _, c := range l.cells {
		if within(c.at) {
			w.add(c)
		}
	}
	owners, nodes := map[string]bool{}, map[string]int{}
	for _, f := range slices.Backward(l.failed) {
		if !within(f.At) {
			continue
		}
		owners[f.owner] = true
		nodes[f.Node]++
		if len(w.Failed) < mostInPages {
			w.Failed = append(w.Failed, f)
		}
	}
	w.Owners, w.Nodes = len(owners), worst(nodes)
	return w
}

func (w *Window) add(c cell) {
	version := w.NodeVersions[c.version]
	switch c.result {
	case Good:
		w.Good += c.n
		version.Good += c.n
	case Bad:
		w.Bad += c.n
		version.Bad += c.n
		w.Causes[c.cause.String()] += c.n
	case Excluded:
		w.Excluded[c.exclusion.String()] += c.n
		return
	case Recovered:
		return
	}
	w.NodeVersions[c.version] = version
}

// worst are the nodes with the most failures.
func worst(nodes map[string]int) []Named {
	list := []Named{}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		list = append(list, Named{node, nodes[node]})
	}
	slices.SortStableFunc(list, func(a, b Named) int { return b.Bad - a.Bad })
	return list[:min(len(list), mostInPages)]
}

// Owners is how many controllers have had a Bad Pod within the last hour.
func (l *Ledger) Owners() int {
	now := time.Now()
	return l.Window(now.Add(-time.Hour), now.Add(cellSize)).Owners
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
