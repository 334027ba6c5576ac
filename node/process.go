package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
		found = append(found, Process{PID: pid, Args: args[1:], Path: h.pathOf(dir), Elsewhere: h.elsewhere(e.Name())})
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
	case here != there:
		return fmt.Sprintf("process %s has mounts of its own; for it, on its node, --rootfs /proc/%s/root", pid, pid)
	}
	return ""
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
