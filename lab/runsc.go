package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// RunscBinary returns the path of gVisor's runsc, built from the module that
// lab/runsc pins. It is of 2026-09-05, behind the fix of google/gvisor#13238, and
// calls its version VERSION_MISSING. The first time takes minutes.
func RunscBinary(ctx context.Context) (string, error) {
	dir, err := runscDir()
	if err != nil {
		return "", err
	}
	entry, err := runscEntry(dir)
	if err != nil {
		return "", err
	}
	built, err := cached(entry, func(to string) error {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", to+"/", "gvisor.dev/gvisor/runsc")
		build.Dir = dir
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
		return nil
	})
	return filepath.Join(built, "runsc"), err
}

// RunscInstalled reports whether [RunscBinary] has been built.
func RunscInstalled() bool {
	dir, err := runscDir()
	if err != nil {
		return false
	}
	entry, err := runscEntry(dir)
	return err == nil && exists(filepath.Join(filepath.Dir(filepath.Dir(dir)), ".cache", entry))
}

func runscDir() (string, error) {
	top, err := root()
	return filepath.Join(top, "lab", "runsc"), err
}

func runscEntry(dir string) (string, error) {
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	return "runsc-" + hex.EncodeToString(sum.Sum(nil))[:16], nil
}
