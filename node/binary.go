package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

// release is the version of a runsc, and how it is known.
type release struct {
	RunscVersion
	how string
}

// runscReleases are those of every runsc which this containerd starts, each once: one
// that takes links says nothing about another.
func (x *examination) runscReleases(c Containerd) []release {
	if text := x.options.RunscVersion; text != "" {
		v := ParseRunscVersion(text)
		return []release{{v, fmt.Sprintf("runsc %v: %q was given", v, text)}}
	}
	var names []string
	for _, h := range c.runsc() {
		if name := x.runscBinary(h); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var all []release
	for _, name := range names {
		path, err := x.look(c, name)
		if err != nil {
			all = append(all, release{how: "runsc unknown: " + err.Error()})
			continue
		}
		v, how := x.versionOf(path)
		all = append(all, release{v, how})
	}
	return all
}

// worstBehindLink is the release of which the least good is known: one that is not
// known may refuse links as well.
func worstBehindLink(all []release) release {
	for _, r := range all {
		if _, pod := r.BehindLink(); pod != OK {
			return r
		}
	}
	return all[0]
}

// versionOf asks a binary of gVisor. Looking into it is no way: runsc has others in
// itself, which are stamped with releases of their own.
func (x *examination) versionOf(path string) (v RunscVersion, how string) {
	line, err := x.ask(path)
	if err != nil {
		return RunscVersion{}, path + " unknown: " + err.Error()
	}
	v = ParseRunscVersion(line)
	return v, fmt.Sprintf("%s %v: it prints %q", path, v, line)
}

// ask returns the first line that a binary prints with --version.
func (x *examination) ask(path string) (string, error) {
	if x.options.Ask == nil {
		return "", errors.New("it was not run")
	}
	walk, err := x.host.Walk(path)
	if err == nil {
		err = x.host.owned(walk.Canonical)
	}
	if err != nil {
		return "", err
	}
	text, err := x.options.Ask(x.ctx, x.host.onDisk(walk.Canonical))
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return printable([]byte(line)), err
}

// owned refuses to run what somebody else than the owner of the node may have put
// there: a process may call itself containerd, and have any PATH.
func (h Host) owned(canonical string) error {
	owner, _, err := h.ownerOf("/")
	for path := canonical; err == nil && path != "/"; path = filepath.Dir(path) {
		uid, mode, statErr := h.ownerOf(path)
		switch {
		case statErr != nil:
			err = statErr
		case uid != owner || mode.Perm()&0o022 != 0:
			err = fmt.Errorf("it was not run: others may write %s", path)
		}
	}
	return err
}

func (h Host) ownerOf(canonical string) (uid uint32, mode fs.FileMode, err error) {
	info, err := os.Lstat(h.onDisk(canonical))
	if err != nil {
		return 0, 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, fmt.Errorf("%s: has no owner", canonical)
	}
	return stat.Uid, info.Mode(), nil
}
