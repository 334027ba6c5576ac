package podsfile_test

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/podsfile"
)

const grace = time.Minute

// newSource reads path into a fresh index; the log goes to the buffer.
func newSource(path string, log *bytes.Buffer) (*podsfile.Source, *identity.Index) {
	index := identity.NewIndex(identity.HistoryConfig{})
	return &podsfile.Source{
		Path: path, Keep: all, Poll: time.Hour, Log: slog.New(slog.NewTextHandler(log, nil)),
		Feed: index.NewFeed(path, "file", grace),
	}, index
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func look(index *identity.Index, name string) identity.View {
	return index.Look(identity.NamespacedName{Namespace: "ns", Name: name}, netip.Addr{})
}

// TestBrokenEdit: the last good state serves until its grace ends, and no longer.
func TestBrokenEdit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods.yaml")
	for _, tc := range []struct {
		rule   string
		damage func()
		fault  string
	}{
		{"a broken edit", func() { write(t, path, "kind: [") }, "line 1: did not find expected node content"},
		{"a wrong value", func() { write(t, path, strings.Replace(podA, "10.0.0.1", "10.0.0.999", 1)) }, `line 3: pod ns/a: status.podIPs[0].ip: "10.0.0.999"`},
		{"truncated to nothing", func() { write(t, path, "") }, "line 1: empty"},
		{"removed", func() { os.Remove(path) }, "no such file"},
	} {
		write(t, path, podA)
		long := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) // before the bubble's clock begins
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			source, index := newSource(path, &log)
			expect := func(when string, want identity.Freshness, fault string) {
				t.Helper()
				if got := look(index, "a"); got.Freshness != want || !got.Found {
					t.Errorf("%s, %s: %v, found %v", tc.rule, when, got.Freshness, got.Found)
				}
				if got := index.Feeds()[0].Fault; !strings.Contains(got, fault) || (fault == "") != (got == "") {
					t.Errorf("%s, %s: fault %q, want %q", tc.rule, when, got, fault)
				}
			}
			poll := func() error {
				err := source.Load()
				if err != nil {
					_ = source.Feed.Fail(err) // as Run does
				}
				return err
			}
			if err := poll(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(grace)
			if err := poll(); err != nil { // unchanged: as good as read
				t.Fatal(err)
			}
			expect("before", identity.Fresh, "")
			tc.damage()
			for range 60 {
				if err := poll(); err == nil {
					t.Errorf("%s: no error", tc.rule)
				}
				expect("within the grace", identity.Fresh, tc.fault)
				time.Sleep(grace / 60)
			}
			time.Sleep(time.Nanosecond)
			_ = poll()
			expect("beyond the grace", identity.Stale, tc.fault)
			write(t, path, podA)
			if err := poll(); err != nil {
				t.Error(err)
			}
			expect("mended", identity.Fresh, "")
		})
	}
}

// TestFaultIsLoggedOnce: a file that stays broken is one record, not one a poll.
func TestFaultIsLoggedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods.yaml")
	write(t, path, podA)
	var mu sync.Mutex
	var log bytes.Buffer
	source, index := newSource(path, &log)
	source.Log, source.Poll = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil)), time.Millisecond
	if err := source.Load(); err != nil {
		t.Fatal(err)
	}
	run(t, source)
	write(t, path, "kind: [")
	eventually(t, "the fault", func() bool { return index.Feeds()[0].Fault != "" })
	<-time.After(200 * time.Millisecond) // 200 polls
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Count(log.String(), "did not find expected node content"); got != 1 {
		t.Errorf("logged %d times:\n%s", got, log.String())
	}
	if !strings.Contains(log.String(), "the last good state serves until its grace ends") {
		t.Errorf("the log does not tell the grace:\n%s", log.String())
	}
}

// TestFaultWithoutGrace: nobody is told of a grace that has ended.
func TestFaultWithoutGrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods.yaml")
	write(t, path, podA)
	var mu sync.Mutex
	var log bytes.Buffer
	source, _ := newSource(path, &log)
	index := identity.NewIndex(identity.HistoryConfig{})
	source.Feed = index.NewFeed(path, "file", time.Nanosecond)
	source.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
	if err := source.Load(); err != nil {
		t.Fatal(err)
	}
	write(t, path, "kind: [")
	run(t, source)
	eventually(t, "the fault", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(log.String(), "cannot read the Pods")
	})
	mu.Lock()
	defer mu.Unlock()
	if text := log.String(); strings.Contains(text, "grace") || !strings.Contains(text, `meanwhile="every check is denied"`) {
		t.Errorf("logged:\n%s", text)
	}
}

// TestUnchangedContent: a file that is written again with what it had is no news.
func TestUnchangedContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods.yaml")
	var log bytes.Buffer
	source, index := newSource(path, &log)
	for _, at := range []time.Duration{0, -time.Hour, time.Hour} {
		write(t, path, podA)
		stamp := time.Now().Add(at)
		if err := os.Chtimes(path, stamp, stamp); err != nil {
			t.Fatal(err)
		}
		if err := source.Load(); err != nil {
			t.Fatal(err)
		}
	}
	if got := index.Feeds()[0].Lists; got != 1 || strings.Count(log.String(), "read the Pods") != 1 {
		t.Errorf("%d lists for one content:\n%s", got, log.String())
	}
}

// TestFirstReadFails: what was never read is not believed.
func TestFirstReadFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods.yaml")
	source, index := newSource(path, new(bytes.Buffer))
	if err := source.Load(); err == nil || look(index, "a").Freshness != identity.NotSynced {
		t.Errorf("load = %v, index %v", err, look(index, "a").Freshness)
	}
	write(t, path, podA)
	if err := source.Load(); err != nil || look(index, "a").Freshness != identity.Fresh {
		t.Errorf("load = %v, index %v", err, look(index, "a").Freshness)
	}
}

// TestHiddenEdits: edits of the same size whose modification time says nothing, as
// after cp -p, or within one tick of the file system's clock.
func TestHiddenEdits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods.yaml")
	long := time.Unix(0, 0)
	for _, tc := range []struct {
		rule  string
		stamp time.Time
		wait  time.Duration
	}{
		{"within a tick", time.Now(), 0},
		{"stamped as before", long, 2 * time.Second / 10},
	} {
		source, index := newSource(path, new(bytes.Buffer))
		for _, step := range []struct{ text, has, lacks string }{{podA, "a", "b"}, {podB, "b", "a"}, {podA, "a", "b"}} {
			write(t, path, step.text)
			if err := os.Chtimes(path, tc.stamp, tc.stamp); err != nil {
				t.Fatal(err)
			}
			<-time.After(tc.wait)
			for range 2 { // the first look may be within a tick of the edit
				if err := source.Load(); err != nil {
					t.Fatal(err)
				}
				if !look(index, step.has).Found || look(index, step.lacks).Found {
					t.Errorf("%s: the edit to %s was not seen", tc.rule, step.has)
				}
			}
		}
	}
}

// TestNoRegularFile: what cannot be read to an end is not begun.
func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir, "/dev/zero"} {
		source, _ := newSource(path, new(bytes.Buffer))
		if err := source.Load(); err == nil || !strings.HasSuffix(err.Error(), "is no regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	large := filepath.Join(dir, "large.yaml")
	write(t, large, podA)
	if err := os.Truncate(large, 64<<20+1); err != nil {
		t.Fatal(err)
	}
	source, _ := newSource(large, new(bytes.Buffer))
	if err := source.Load(); err == nil || !strings.HasSuffix(err.Error(), "has 67108865 bytes; allowed: at most 67108864") {
		t.Errorf("a large file: %v", err)
	}
}

// eventually waits for a state that a running source must reach within a second,
// long before its next poll.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within 10 s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func run(t *testing.T, source *podsfile.Source) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- source.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// TestConfigMap follows the links of a mounted ConfigMap: the kubelet writes a new
// directory and switches the link ..data to it, so neither the file nor its
// directory entry ever changes.
func TestConfigMap(t *testing.T) {
	for _, tc := range []struct {
		rule string
		poll time.Duration
	}{
		{"by notification", time.Hour},
		{"by polling", 20 * time.Millisecond},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "pods.yaml")
		version := 0
		mount := func(text string) {
			t.Helper()
			version++
			data := filepath.Join(dir, "..2026_"+string(rune('0'+version)))
			if err := os.Mkdir(data, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(data, "pods.yaml"), text)
			if err := os.Symlink(filepath.Base(data), filepath.Join(dir, "..data_tmp")); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
				t.Fatal(err)
			}
		}
		mount(podA)
		if err := os.Symlink("..data/pods.yaml", path); err != nil {
			t.Fatal(err)
		}
		source, index := newSource(path, new(bytes.Buffer))
		source.Poll = tc.poll
		if err := source.Load(); err != nil {
			t.Fatal(err)
		}
		run(t, source)
		for _, step := range []struct{ text, has, lacks string }{{podB, "b", "a"}, {podA, "a", "b"}} {
			mount(step.text)
			eventually(t, tc.rule, func() bool { return look(index, step.has).Found && !look(index, step.lacks).Found })
		}
	}
}

// TestWriters: however the file is written, a reader settles on what was written
// last.
func TestWriters(t *testing.T) {
	for _, tc := range []struct {
		rule  string
		write func(path, text string)
	}{
		{"in place", func(path, text string) { write(t, path, text) }},
		{"by renaming", func(path, text string) {
			write(t, path+".new", text)
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}},
		{"slowly, in pieces", func(path, text string) {
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, piece := range strings.SplitAfter(text, " ") {
				if _, err := f.WriteString(piece); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Duration(rand.IntN(3)) * time.Millisecond)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		path := filepath.Join(t.TempDir(), "pods.yaml")
		write(t, path, podA)
		var mu sync.Mutex
		var log bytes.Buffer
		source, index := newSource(path, &log)
		source.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
		if err := source.Load(); err != nil {
			t.Fatal(err)
		}
		run(t, source)
		for _, text := range []string{podB, podA, podA + "---\n" + podB} {
			tc.write(path, text)
			eventually(t, tc.rule, func() bool {
				return look(index, "a").Found == strings.Contains(text, "name: a") && look(index, "b").Found == strings.Contains(text, "name: b")
			})
		}
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
