package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a running containerd.
type Process struct {
	PID  int
	Args []string // its command line, without its name
	// Path is the PATH of its environment, where it looks for shims; empty if that
	// may not be read.
	Path []string
	// Elsewhere is why its paths are not those of this disk: it is in a container, or
	// in another mount namespace, or that may not be read. Empty if they are.
	Elsewhere string
	// Began is when it was started, zero if that is not known.
	Began time.Time
}

// flag returns the value of a flag of containerd, by any of its names. The last one
// counts, as it does for containerd.
func (p Process) flag(names ...string) (value string, ok bool) {
	for i := 0; i < len(p.Args); i++ {
		dashed, isFlag := strings.CutPrefix(p.Args[i], "-")
		if !isFlag {
			continue
		}
		name, given, joined := strings.Cut(strings.TrimPrefix(dashed, "-"), "=")
		if !slices.Contains(names, name) {
			continue
		}
		switch {
		case joined:
			value, ok = given, true
		case i+1 < len(p.Args):
			i++
			value, ok = p.Args[i], true
		}
	}
	return value, ok
}

// processes finds every process of the node whose name is containerd, by its /proc.
// It is an error if /proc is not there, or is not the node's.
func (h Host) processes() ([]Process, error) {
	entries, err := h.list("/proc")
	if err != nil {
		return nil, err
	}
	owner, _, err := h.ownerOf("/")
	if err != nil {
		return nil, err
	}
	var found []Process
	seen := false
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		seen = true
		dir := filepath.Join("/proc", e.Name())
		name, err := h.text(filepath.Join(dir, "comm"))
		if uid, _, statErr := h.ownerOf(dir); statErr != nil || uid != owner {
			continue // anybody may call a process containerd
		}
		if err != nil || strings.TrimSpace(string(name)) != "containerd" {
			continue // it has ended, or is another's
		}
		line, err := h.text(filepath.Join(dir, "cmdline"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the command line of process %d: %w", pid, err)
		}
		args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		found = append(found, Process{PID: pid, Args: args[1:], Path: h.pathOf(dir), Elsewhere: h.elsewhere(e.Name()), Began: h.began(dir)})
	}
	if !seen {
		return nil, errors.New("/proc: has no processes")
	}
	return found, nil
}

// elsewhere compares the mount namespace of a process with the one in which this disk
// is seen.
func (h Host) elsewhere(pid string) string {
	here, err := os.Readlink(h.namespace())
	var there string
	if err == nil {
		there, err = os.Readlink(h.onDisk("/proc/" + pid + "/ns/mnt"))
	}
	switch {
	case err != nil:
		return fmt.Sprintf("whether process %s has the mounts of this disk is not known: %v", pid, err)
	case h.chrooted(pid):
		return fmt.Sprintf("process %s has another root directory; for it, --rootfs /proc/%s/root", pid, pid)
	case here != there:
		return fmt.Sprintf("process %s has mounts of its own; for it, on its node, --rootfs /proc/%s/root", pid, pid)
	}
	return ""
}

// chrooted reports whether a process has another root directory in its mounts, whose
// paths lead elsewhere.
func (h Host) chrooted(pid string) bool {
	root, err := os.Readlink(h.onDisk("/proc/" + pid + "/root"))
	return err == nil && root != "/"
}

// namespace is the magic link whose text names the mount namespace of this disk: this
// process's own, that of the process whose root directory it is, or that of the
// node's first process.
func (h Host) namespace() string {
	switch {
	case h.Live():
		return "/proc/self/ns/mnt"
	case ofProcess.MatchString(h.root):
		return filepath.Dir(h.root) + "/ns/mnt"
	default:
		return h.onDisk("/proc/1/ns/mnt")
	}
}

// pathOf reads PATH from a process's environment.
func (h Host) pathOf(dir string) []string {
	environ, err := h.text(filepath.Join(dir, "environ"))
	if err != nil {
		return nil
	}
	for pair := range strings.SplitSeq(string(environ), "\x00") {
		if path, ok := strings.CutPrefix(pair, "PATH="); ok {
			return filepath.SplitList(path)
		}
	}
	return nil
}

// began is when a process was started, by its ticks since the kernel was, zero if that
// cannot be read.
func (h Host) began(dir string) time.Time {
	stat, _ := h.text(filepath.Join(dir, "stat"))
	kernel, _ := h.text("/proc/stat")
	_, behind, _ := strings.Cut(string(kernel), "\nbtime ")
	booted, _, _ := strings.Cut(behind, "\n")
	seconds, err := strconv.ParseInt(booted, 10, 64)
	// The second field is a name that may have anything in it; the 22nd is the ticks.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const after, ticksPerSecond = 22 - 3, 100
	if err != nil || len(fields) <= after {
		return time.Time{}
	}
	ticks, err := strconv.ParseInt(fields[after], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds+ticks/ticksPerSecond, 0)
}

// changed says that a file is another than the one that a process has read when it
// began: until it is restarted it has what stood there before. Its inode tells, since
// a file that is moved there keeps its own time.
func (h Host) changed(path string, p *Process) error {
	if p == nil || p.Began.IsZero() {
		return nil
	}
	info, err := h.stat(path)
	if err != nil {
		return err
	}
	const rounding = 2 * time.Second // of the kernel's start and of the process's
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: has no time of change", path)
	}
	if at := time.Unix(stat.Ctim.Unix()); at.After(p.Began.Add(rounding)) {
		return fmt.Errorf("%s: changed at %s, and containerd was started at %s: it may have what stood there before", path, stamped(at), stamped(p.Began))
	}
	return nil
}
