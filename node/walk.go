package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// Link is a symbolic link on the way to a path. Both are paths as the node sees
// them; Target is what the link says, which may be relative.
type Link struct {
	Component string `json:"component"`
	Target    string `json:"target"`
}

// String is "/var/run -> /run".
func (l Link) String() string { return l.Component + " -> " + l.Target }

// Walk is a path, resolved component by component.
type Walk struct {
	// Path is what was asked for, lexically clean: containerd joins the bundle's path
	// to it, which cleans it.
	Path string `json:"path"`
	// Canonical is where it leads. Behind what does not exist it is the rest of the path.
	Canonical string `json:"canonical"`
	// Links are the links that were followed, in their order.
	Links []Link `json:"links,omitempty"`
	// Missing is the first component that does not exist, or empty.
	Missing string `json:"missing,omitempty"`
}

// Straight reports whether the path is canonical. It is what gVisor's SafeMount
// compares: the string of the path with that of /proc/self/fd.
func (w Walk) Straight() bool { return w.Path == w.Canonical }

// Walk resolves an absolute path inside the node's root, as the node's kernel would:
// an absolute link leads to the node's root, and .. never above it. A loop of links
// is an error, and so is what may not be looked at.
func (h Host) Walk(path string) (Walk, error) {
	if !filepath.IsAbs(path) {
		return Walk{}, fmt.Errorf("%q: not an absolute path", path)
	}
	w := Walk{Path: filepath.Clean(path)}
	seen := recorder{host: h, walk: &w}
	joined, err := securejoin.SecureJoinVFS(h.root, w.Path, seen)
	if err != nil {
		return w, fmt.Errorf("%s: %w%s", path, errors.Unwrap(err), w.loop())
	}
	w.Canonical = h.onNode(joined)
	return w, nil
}

// loop names the last links of a way that does not end.
func (w Walk) loop() string {
	if len(w.Links) < 2 {
		return ""
	}
	last := w.Links[len(w.Links)-2:]
	return fmt.Sprintf(" (%v, %v)", last[0], last[1])
}

// onNode is the path that the node has for a path of this process.
func (h Host) onNode(path string) string {
	return filepath.Join("/", strings.TrimPrefix(filepath.Clean(path), strings.TrimSuffix(h.root, "/")))
}

// recorder is the file system, as securejoin looks at it, and remembers what it saw.
type recorder struct {
	host Host
	walk *Walk
}

// Lstat implements [securejoin.VFS].
func (r recorder) Lstat(name string) (fs.FileInfo, error) {
	info, err := os.Lstat(name)
	if securejoin.IsNotExist(err) && r.walk.Missing == "" {
		r.walk.Missing = r.host.onNode(name)
	}
	return info, err
}

// Readlink implements [securejoin.VFS].
func (r recorder) Readlink(name string) (string, error) {
	target, err := os.Readlink(name)
	if err == nil {
		r.walk.Links = append(r.walk.Links, Link{Component: r.host.onNode(name), Target: target})
	}
	return target, err
}
