package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	mostLogs  = 512     // files, the newest ones
	mostRead  = 1 << 30 // bytes of them all
	mostDepth = 4       // directories below the one that is given
	skew      = time.Minute
)

// logFile is a log of the node.
type logFile struct {
	path string
	info fs.FileInfo
}

// logs finds the files below paths, newest first. What was given and cannot be read
// is an error; what was only guessed is not.
func (h Host) logs(given, guessed []string) (files []logFile, unread []error) {
	seen := map[string]bool{}
	for i, path := range append(slices.Clone(given), guessed...) {
		links := 0
		err := h.collect(path, 0, seen, &files, &links)
		if links > 0 {
			unread = append(unread, fmt.Errorf("%s: %d symbolic links in it were not followed, for a Pod may have made them; name the directory that they lead to", path, links))
		}
		if err != nil && (i < len(given) || !errors.Is(err, fs.ErrNotExist)) {
			unread = append(unread, err)
		}
	}
	slices.SortStableFunc(files, func(a, b logFile) int {
		return cmp.Or(b.info.ModTime().Compare(a.info.ModTime()), cmp.Compare(a.path, b.path))
	})
	files, left := newest(files)
	if left != nil {
		unread = append(unread, left)
	}
	return files, unread
}

// newest are the logs that are read, of those in their order.
func newest(files []logFile) ([]logFile, error) {
	size := int64(0)
	for i, f := range files {
		size += min(f.info.Size(), mostLog)
		if i == mostLogs || size > mostRead {
			return files[:i], fmt.Errorf("of %d logs the newest %d were read", len(files), i)
		}
	}
	return files, nil
}

// collect finds the files below a path, and counts the links that it does not follow.
func (h Host) collect(path string, depth int, seen map[string]bool, files *[]logFile, links *int) error {
	walk, err := h.Walk(path)
	if err != nil {
		return err
	}
	if seen[walk.Canonical] {
		return nil
	}
	seen[walk.Canonical] = true
	info, err := h.stat(path)
	switch {
	case err != nil:
		return err
	case info.Mode().IsRegular():
		*files = append(*files, logFile{path, info})
		return nil
	case !info.IsDir():
		return fmt.Errorf("%s: not a regular file, and not a directory", path)
	case depth > mostDepth:
		return fmt.Errorf("%s: more than %d directories deep", path, mostDepth)
	}
	entries, err := h.list(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.Type()&fs.ModeSymlink != 0: // a Pod may have made it, to have us read another file
			*links++
		case e.Type().IsRegular() || e.IsDir():
			err = errors.Join(err, h.collect(filepath.Join(path, e.Name()), depth+1, seen, files, links))
		}
	}
	return err
}

// scan reads the end of a log.
func (h Host) scan(path string) (Scan, error) {
	f, info, err := h.open(path)
	if err != nil {
		return Scan{}, err
	}
	defer f.Close()
	var notes []string
	if skipped := info.Size() - mostLog; skipped > 0 {
		if _, err := f.Seek(skipped, io.SeekStart); err != nil {
			return Scan{}, fmt.Errorf("%s: %w", path, err)
		}
		notes = append(notes, fmt.Sprintf("%s: its first %d MiB were not read", path, skipped>>20))
	}
	s, err := ScanLog(path, io.LimitReader(f, mostLog))
	s.Notes = append(notes, s.Notes...)
	return s, err
}

// Logs classifies the logs of the node at these paths, files or directories.
func (h Host) Logs(paths []string) (hits []Hit, notes []string) {
	files, unread := h.logs(paths, nil)
	for _, err := range unread {
		notes = append(notes, err.Error())
	}
	for _, f := range files {
		s, err := h.scan(f.path)
		if err != nil {
			notes = append(notes, err.Error())
		}
		hits, notes = append(hits, s.Hits...), append(notes, s.Notes...)
	}
	return hits, notes
}

func checkLogs(x *examination) []Finding {
	guessed := []string{"/var/log/runsc"}
	for _, c := range x.containerds {
		bundles, _ := x.host.list(c.bundles()) // if there are none there are no logs
		for _, b := range bundles {
			guessed = append(guessed, filepath.Join(c.bundles(), b.Name(), "log.json"))
		}
		for _, h := range c.runsc() {
			if dir := x.shimConfig(h).debugLog(); dir != "" {
				guessed = append(guessed, dir)
			}
		}
	}
	files, unread := x.host.logs(x.options.Logs, guessed)
	var hits []Hit
	var notes []string
	for _, err := range unread {
		notes = append(notes, err.Error())
	}
	var all []Finding
	for _, f := range files {
		if f.info.ModTime().After(x.options.Now.Add(skew)) {
			all = append(all, Finding{Severity: Warning, Found: "a log is from the future: the clocks differ", Evidence: []string{fmt.Sprintf("%s: %s, and it is %s", f.path, f.info.ModTime().UTC().Format(time.RFC3339), x.options.Now.UTC().Format(time.RFC3339))}, Consequence: "What came first cannot be told by time.", Remedy: "Set the clock of the node."})
		}
		s, err := x.host.scan(f.path)
		if err != nil {
			notes = append(notes, err.Error())
		}
		hits, notes = append(hits, s.Hits...), append(notes, s.Notes...)
	}
	for _, r := range Reasons(hits) {
		all = append(all, r.finding())
	}
	switch {
	case len(notes) > 0:
		all = append(all, Finding{Severity: Unknown, Found: "not all of the logs were read", Evidence: notes})
	case len(files) == 0:
		all = append(all, Finding{Severity: Skipped, Found: "there are no logs of runsc; name others by --logs"})
	case len(all) == 0:
		all = append(all, Finding{Severity: OK, Found: fmt.Sprintf("%d logs, and no signature matches a line", len(files))})
	}
	return all
}

// Reason is why sandboxes failed, by their logs.
type Reason struct {
	// Hit is the line that says it, of the first sandbox.
	Hit
	// Sandboxes is how many it is said of; a log without IDs counts as one.
	Sandboxes int
	// Hidden are the classes of lines that follow from it.
	Hidden []string
}

// Reasons takes of each sandbox the line that is nearest to the cause, and counts.
// Hits are in the order of their files, newest first.
func Reasons(hits []Hit) []Reason {
	best := map[string]*Reason{}
	var order []string
	for _, h := range hits {
		key := cmp.Or(h.Sandbox, filepath.Dir(h.File))
		r := best[key]
		switch {
		case r == nil:
			best[key] = &Reason{Hit: h, Sandboxes: 1}
			order = append(order, key)
		case h.rank() < r.rank():
			r.hide(r.Class)
			r.Hit = h
		default:
			r.hide(h.Class)
		}
	}
	var all []Reason
	for _, key := range order {
		r := best[key]
		i := slices.IndexFunc(all, func(other Reason) bool { return other.Class == r.Class })
		if i < 0 {
			all = append(all, *r)
			continue
		}
		all[i].Sandboxes++
		for _, class := range r.Hidden {
			all[i].hide(class)
		}
	}
	for i := range all {
		all[i].Hidden = slices.DeleteFunc(all[i].Hidden, func(class string) bool { return class == all[i].Class })
	}
	slices.SortStableFunc(all, func(a, b Reason) int { return a.rank() - b.rank() })
	return all
}

func (r *Reason) hide(class string) {
	if !slices.Contains(r.Hidden, class) {
		r.Hidden = append(r.Hidden, class)
	}
}

func (r *Reason) finding() Finding {
	f := Finding{Severity: Failure, Found: fmt.Sprintf("%s: %s (%d sandboxes)", r.Class, r.Meaning, r.Sandboxes), Evidence: []string{r.Place() + ": " + r.Text}, Consequence: "These sandboxes did not start.", Remedy: r.Remedy}
	switch r.Kind {
	case Cause:
	case Generic, Symptom:
		f.Severity, f.Consequence = Unknown, "The cause is not in these logs."
	case Later:
		f.Severity, f.Consequence = Info, "Their sandboxes are not the problem."
	}
	if link, ok := r.LinkOf(); ok {
		f.Evidence = append(f.Evidence, link.String())
	}
	if len(r.Hidden) > 0 {
		f.Evidence = append(f.Evidence, "what follows from it: "+strings.Join(r.Hidden, ", "))
	}
	return f
}

// LinkOf is the link that a message of runsc-symlink shows: the two paths without
// their longest common end.
func (m Match) LinkOf() (Link, bool) {
	if m.Class != "runsc-symlink" || len(m.Parts) != 2 {
		return Link{}, false
	}
	asked, found := strings.Split(m.Parts[0], "/"), strings.Split(m.Parts[1], "/")
	for len(asked) > 2 && len(found) > 2 && asked[len(asked)-1] == found[len(found)-1] {
		asked, found = asked[:len(asked)-1], found[:len(found)-1]
	}
	return Link{Component: strings.Join(asked, "/"), Target: strings.Join(found, "/")}, true
}
