package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// root is the module's directory, found from the working directory: tests run in
// the directory of their package.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "lab", "tools", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the lab works inside a checkout of samepod")
		}
	}
}

// cached returns the path of an entry of the cache, which is .cache in the
// checkout. If it does not exist, fill makes it in a directory of its own, which
// is then renamed: an entry is whole or absent, and is made once, whichever
// process comes first.
func cached(name string, fill func(dir string) error) (string, error) {
	top, err := root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(top, ".cache", name)
	if exists(path) {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(path) {
		return path, nil // somebody made it while we waited
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(path), "unfinished-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(unfinished)
	if err := fill(unfinished); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return path, os.Rename(unfinished, path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// lock waits for the file's advisory lock, which ends with the process at the
// latest.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
