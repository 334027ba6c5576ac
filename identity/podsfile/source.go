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
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/samepod/samepod/identity"
)

// Source reads one file into one feed.
type Source struct {
	Path string
	Keep identity.Keep
	Feed *identity.Feed
	// Poll is the time between two looks at the file.
	Poll time.Duration
	Log  *slog.Logger

	last fingerprint       // of the last good read; zero to read again
	sum  [sha256.Size]byte // of the content that the feed has
}

// fingerprint is what the file system says of a file, behind all links: a mounted
// ConfigMap changes by a link that is switched to another directory. The change
// time cannot be set by who writes the file, unlike the modification time.
type fingerprint struct {
	device, inode     uint64
	size              int64
	modified, changed int64 // in nanoseconds since 1970
}

// mostBytes is the largest file that is read: tens of thousands of Pods as kubectl
// prints them. Reading takes about 25 times as much memory.
const mostBytes = 64 << 20

// look takes the fingerprint of a file. What is no regular file, such as a pipe,
// would be waited for.
func look(path string) (fingerprint, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return fingerprint{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	switch {
	case s.Mode&unix.S_IFMT != unix.S_IFREG:
		return fingerprint{}, fmt.Errorf("%s: is no regular file", path)
	case s.Size > mostBytes:
		return fingerprint{}, fmt.Errorf("%s: has %d bytes; allowed: at most %d", path, s.Size, mostBytes)
	}
	return fingerprint{s.Dev, s.Ino, s.Size, s.Mtim.Nano(), s.Ctim.Nano()}, nil
}

// unsettled is how long after a change of the file its time stamps cannot be
// trusted to tell the next change: file systems stamp with the kernel's tick.
const unsettled = 100 * time.Millisecond

// settle is how long after an event the file is left alone: a program that
// writes it in place has not finished at the first one.
const settle = 20 * time.Millisecond

// Load looks at the file once. The feed is renewed if the file is as it was, and
// replaced if it has other content that could be read; otherwise the feed is left
// alone and the error returned.
func (s *Source) Load() error {
	asOf := time.Now()
	now, err := look(s.Path)
	if err != nil {
		return err
	}
	if now == s.last {
		s.Feed.Renew(asOf)
		return nil
	}
	s.last = fingerprint{}
	data, err := s.read(now)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(data); sum == s.sum {
		s.Feed.Renew(asOf)
	} else {
		pods, err := Parse(data, s.Keep)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Path, err)
		}
		s.Feed.Replace(pods, asOf)
		s.sum = sum
		s.Log.Info("read the Pods", "file", s.Path, "pods", len(pods))
	}
	if asOf.Sub(time.Unix(0, now.changed)).Abs() > unsettled {
		s.last = now
	}
	return nil
}

// read reads a file that has this fingerprint before and after: a file that is
// being written shows a prefix of itself, which may be a valid list of fewer Pods.
func (s *Source) read(before fingerprint) ([]byte, error) {
	data, err := os.ReadFile(s.Path)
	if err != nil {
		return nil, err
	}
	after, err := look(s.Path)
	if err != nil {
		return nil, err
	}
	if before != after {
		return nil, fmt.Errorf("%s changes while it is read", s.Path)
	}
	return data, nil
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
		if err := s.Load(); err != nil && s.Feed.Fail(err) {
			s.Log.Error("cannot read the Pods", "file", s.Path, "meanwhile", s.meanwhile(), "err", err)
		}
	}
}

// meanwhile says what checks are answered while the file cannot be read.
func (s *Source) meanwhile() string {
	if s.Feed.Status().Freshness == identity.Fresh {
		return "the last good state serves until its grace ends"
	}
	return "every check is denied"
}
