package lab

import (
	"os"
	"path/filepath"
)

// WriteSecret writes files as the kubelet mounts a Secret: each is a link into
// ..data, which is a link that is switched from one directory to the next in one
// step.
func WriteSecret(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	version, err := os.MkdirTemp(dir, "..version-")
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(version, name), text, 0o600); err != nil {
			return err
		}
	}
	data := filepath.Join(dir, "..data")
	if err := os.Symlink(filepath.Base(version), data+"_tmp"); err != nil {
		return err
	}
	old, _ := os.Readlink(data) // none, the first time
	if err := os.Rename(data+"_tmp", data); err != nil {
		return err
	}
	for name := range files {
		if link := filepath.Join(dir, name); !exists(link) {
			if err := os.Symlink(filepath.Join("..data", name), link); err != nil {
				return err
			}
		}
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(dir, old))
}
