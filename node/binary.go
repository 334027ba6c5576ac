package node

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
)

// usualPath is where binaries are looked for if the environment of containerd may
// not be read.
var usualPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// look finds a binary as containerd would. The error wraps [fs.ErrNotExist] if it is
// not there, and something else if that is not known.
func (x *examination) look(c Containerd, name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, x.executable(name)
	}
	dirs, known := usualPath, false
	if c.process != nil && len(c.process.Path) > 0 {
		dirs, known = c.process.Path, true
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if !filepath.IsAbs(path) {
			continue
		}
		if err := x.executable(path); !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
	if !known {
		return "", fmt.Errorf("%s is not in %s; which PATH containerd has is not known", name, strings.Join(dirs, ":"))
	}
	return "", fmt.Errorf("%s: %w in containerd's PATH, %s", name, fs.ErrNotExist, strings.Join(dirs, ":"))
}

var errNotExecutable = errors.New("not an executable file")

func (x *examination) executable(path string) error {
	info, err := x.host.stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s: %w", path, errNotExecutable)
	}
	return nil
}

// runscVersion is that of the runsc which this containerd starts, and how it is known.
func (x *examination) runscVersion(c Containerd) (v RunscVersion, how string) {
	if text := x.options.RunscVersion; text != "" {
		v = ParseRunscVersion(text)
		return v, fmt.Sprintf("runsc %v: %q was given", v, text)
	}
	name := "runsc"
	if handlers := c.runsc(); len(handlers) > 0 {
		name = x.runscBinary(handlers[0])
	}
	path, err := x.look(c, name)
	if err != nil {
		return RunscVersion{}, "runsc unknown: " + err.Error()
	}
	return x.versionOf(path)
}

// versionOf asks a binary of gVisor, or where it must not be run looks into it.
func (x *examination) versionOf(path string) (v RunscVersion, how string) {
	if x.options.Ask == nil {
		text, err := x.release(path)
		if err != nil {
			return RunscVersion{}, path + " unknown: " + err.Error()
		}
		v = ParseRunscVersion(text)
		return v, fmt.Sprintf("%s %v: %q is in its bytes", path, v, text)
	}
	text, err := x.options.Ask(x.ctx, path)
	if err != nil {
		return RunscVersion{}, path + " unknown: " + err.Error()
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	v = ParseRunscVersion(line)
	return v, fmt.Sprintf("%s %v: it prints %q", path, v, line)
}

// mostBinary bounds how much of a binary is looked through. runsc has about 90 MB.
const mostBinary = 512 << 20

var stamp = regexp.MustCompile(`release-20\d{6}\.\d+`)

// release finds the release that is stamped into a binary. Several are none.
func (x *examination) release(path string) (string, error) {
	f, _, err := x.host.open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	found := ""
	r := bufio.NewReaderSize(io.LimitReader(f, mostBinary), 1<<20)
	const overlap = 64
	for {
		window, err := r.Peek(1 << 20)
		for _, m := range stamp.FindAll(window, -1) {
			date := string(m[:len("release-20260520")]) + ".0"
			if found != "" && found != date {
				return "", fmt.Errorf("%s: has the stamps of %s and of %s", path, found, date)
			}
			found = date
		}
		if err != nil {
			break // its end, or what cannot be read
		}
		if _, err := r.Discard(len(window) - overlap); err != nil {
			break
		}
	}
	if found == "" {
		return "", fmt.Errorf("%s: has no stamp of a release", path)
	}
	return found, nil
}
