// Package podsfile is the source of Pods that needs no cluster: a file, written
// by hand, by kubectl or by whatever runs the sandboxes, and read again when it
// changes.
//
// The file is polled by what the file system says of it; change notification only
// makes that faster. A broken edit keeps the last good state serving until the
// feed's bound, and says so.
package podsfile

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/samepod/samepod/identity"
)

// Source reads one file into one feed.
type Source struct {
	Path     string
	Selected func(labels map[string]string) bool
	Feed     *identity.Feed
	// Poll is the time between two looks at the file.
	Poll time.Duration
	Log  *slog.Logger

	last fs.FileInfo // of the last good read; nil to read again
	err  string      // of the last read, so that it is logged once
}

// unsettled is how long after a change of the file its time stamp cannot be
// trusted to tell the next change: file systems stamp with the kernel's tick.
const unsettled = 100 * time.Millisecond

// settle is how long after an event the file is left alone: a program that
// writes it in place has not finished at the first one.
const settle = 20 * time.Millisecond

// Load looks at the file once. The feed is renewed if the file is as it was,
// replaced if it could be read, and told of the error otherwise.
func (s *Source) Load() error {
	asOf := time.Now()
	info, err := os.Stat(s.Path)
	if err == nil && s.last != nil && unchanged(s.last, info) {
		s.Feed.Renew(asOf)
		return nil
	}
	var pods []identity.Pod
	if err == nil {
		pods, err = s.read(info)
	}
	if err != nil {
		s.last = nil
		s.Feed.Fail(err)
		if err.Error() != s.err {
			s.Log.Error("cannot read the Pods; the last good state serves until its grace ends", "file", s.Path, "err", err)
		}
		s.err = err.Error()
		return err
	}
	s.Feed.Replace(pods, asOf)
	s.Log.Info("read the Pods", "file", s.Path, "pods", len(pods))
	s.err = ""
	if s.last = info; asOf.Sub(info.ModTime()) < unsettled {
		s.last = nil
	}
	return nil
}

// read reads a file that info describes before and after: a file that is being
// written shows a prefix of itself, which may be a valid list of fewer Pods.
func (s *Source) read(info fs.FileInfo) ([]identity.Pod, error) {
	data, err := os.ReadFile(s.Path)
	if err != nil {
		return nil, err
	}
	after, err := os.Stat(s.Path)
	if err != nil {
		return nil, err
	}
	if !unchanged(info, after) {
		return nil, fmt.Errorf("%s changes while it is read", s.Path)
	}
	pods, err := Parse(data, s.Selected)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Path, err)
	}
	return pods, nil
}

// unchanged compares the file behind all links: a mounted ConfigMap changes by a
// link that is switched to another directory.
func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// Run looks at the file every Poll, and at once when the file system says that
// something happened in its directory, until ctx ends. It then returns nil.
func (s *Source) Run(ctx context.Context) error {
	var events chan fsnotify.Event
	var faults chan error
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		err = watcher.Add(filepath.Dir(s.Path))
		events, faults = watcher.Events, watcher.Errors
	}
	if err != nil {
		s.Log.Warn("no change notification; changes are seen at the next poll", "file", s.Path, "poll", s.Poll, "err", err)
	}
	poll := time.NewTicker(s.Poll)
	defer poll.Stop()
	settled := time.NewTimer(0) // now, for what changed before we were notified; then after the last event
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
			settled.Reset(settle)
			continue
		case err := <-faults:
			s.Log.Warn("change notification failed; looking now", "file", s.Path, "err", err)
		case <-settled.C:
		case <-poll.C:
		}
		_ = s.Load() // told to the feed and logged
	}
}
