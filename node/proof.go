package node

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Proof is gVisor's own test of a path, done by the running kernel: SafeMount opens
// what it has mounted on with O_PATH, reads where /proc/self/fd says that is, and
// refuses if the two strings differ. (gvisor, runsc/specutils, SafeMount.)
type Proof struct {
	// Asked is the path that was opened, or its deepest part that exists.
	Asked string `json:"asked"`
	// Opened is where the kernel says that is.
	Opened string `json:"opened"`
}

// Holds reports whether the two are the same string.
func (p Proof) Holds() bool { return p.Asked != "" && p.Asked == p.Opened }

// Prove asks the kernel. Where the node's root is not this process's, links are
// resolved inside it by openat2 (Linux 5.6). It is an error if /proc is not there:
// then nothing is proven.
func (h Host) Prove(path string) (Proof, error) {
	if !filepath.IsAbs(path) {
		return Proof{}, fmt.Errorf("%q: not an absolute path", path)
	}
	for asked := filepath.Clean(path); ; asked = filepath.Dir(asked) {
		fd, err := h.openPath(asked)
		if (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)) && asked != "/" {
			continue
		}
		if err != nil {
			return Proof{Asked: asked}, fmt.Errorf("open %s with O_PATH: %w", asked, err)
		}
		opened, err := fdPath(fd)
		_ = unix.Close(fd)
		if err != nil {
			return Proof{Asked: asked}, err
		}
		return Proof{Asked: asked, Opened: h.onNode(opened)}, nil
	}
}

func (h Host) openPath(path string) (int, error) {
	if h.Live() {
		return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	root, err := unix.Open(h.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(root) }()
	return unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
}

// fdPath reads what /proc says of a file descriptor.
func fdPath(fd int) (string, error) {
	name := "/proc/self/fd/" + strconv.Itoa(fd)
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink(name, buf)
	if err != nil {
		return "", fmt.Errorf("readlink %s: %w", name, err)
	}
	return string(buf[:n]), nil
}
