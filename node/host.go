package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Host is the file system of a node, as its processes see it.
type Host struct {
	root string // "/", or where the node's root is mounted or was copied to
	// copied says that these are files that were taken off a node. What is not among
	// them may be there on the node, and a copy may have directories for links.
	copied bool
}

// ofProcess is the root directory of a process in a container: a magic link, whose
// text is not where it leads.
var ofProcess = regexp.MustCompile(`^/proc/\d+/root$`)

// NewHost returns the node whose root directory is root.
func NewHost(root string) (Host, error) {
	abs, err := filepath.Abs(root)
	if err == nil && !ofProcess.MatchString(abs) {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return Host{}, fmt.Errorf("%q: %w; allowed: a directory", root, errors.Unwrap(err))
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return Host{}, fmt.Errorf("%q: not a directory; allowed: a directory", root)
	}
	h := Host{root: abs}
	h.copied = !h.Live() && !h.runs()
	return h, nil
}

// runs reports whether a kernel runs this disk: its /proc is the kernel's. One that
// was copied, or made up in an archive that somebody sent, is a directory like others,
// and whoever took that for a node would run the binaries beside it.
func (h Host) runs() bool {
	walk, err := h.Walk("/proc")
	if err != nil {
		return false
	}
	var proc unix.Statfs_t
	if err := unix.Statfs(h.onDisk(walk.Canonical), &proc); err != nil || proc.Type != unix.PROC_SUPER_MAGIC {
		return false
	}
	there, err := h.exists("/proc/1/comm")
	return there && err == nil
}

// Live reports whether this process is on the node itself.
func (h Host) Live() bool { return h.root == "/" }

// MayRun reports whether binaries of the node may be run to be asked: it is the
// machine that this process is on, and not a copy of files or the disk of a container.
func (h Host) MayRun() bool { return !h.copied && !ofProcess.MatchString(h.root) }

// Root is the root directory, as this process sees it.
func (h Host) Root() string { return h.root }

// onDisk is the path of a canonical path of the node for this process.
func (h Host) onDisk(canonical string) string { return filepath.Join(h.root, canonical) }

// open opens a regular file of the node. Links are followed as the node would follow
// them. A pipe or a device is refused: reading it might never end.
func (h Host) open(path string) (*os.File, fs.FileInfo, error) {
	walk, err := h.Walk(path)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(h.onDisk(walk.Canonical), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, info, nil
}

// mostText bounds what is read of a file of configuration.
const mostText = 4 << 20

// text reads a file of configuration, whole.
func (h Host) text(path string) ([]byte, error) {
	f, _, err := h.open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostText+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(text) > mostText:
		return nil, fmt.Errorf("%s: longer than %d MiB, which is the most that is read", path, mostText>>20)
	}
	return text, nil
}

// stat follows links as the node would.
func (h Host) stat(path string) (fs.FileInfo, error) {
	walk, err := h.Walk(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(h.onDisk(walk.Canonical))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	return info, nil
}

// exists reports whether there is something at a path, and whether that is known.
func (h Host) exists(path string) (there bool, err error) {
	_, err = h.stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// list reads the names in a directory, sorted.
func (h Host) list(path string) ([]fs.DirEntry, error) {
	walk, err := h.Walk(path)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(h.onDisk(walk.Canonical))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	return entries, nil
}

// notCopied is said of what is not among the files.
const notCopied = "it may be on the node, and is not in this copy"

// glob is filepath.Glob for patterns whose directory has no meta characters.
func (h Host) glob(pattern string) ([]string, error) {
	dir, base := filepath.Split(pattern)
	if strings.ContainsAny(dir, "*?[") {
		return nil, fmt.Errorf("%s: a pattern in the name of a directory is not followed", pattern)
	}
	entries, err := h.list(dir)
	if errors.Is(err, fs.ErrNotExist) && !h.copied {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		switch ok, err := filepath.Match(base, e.Name()); {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", pattern, err)
		case ok:
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found, nil
}
