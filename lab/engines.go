package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The engines' own programs: OpenSandbox's server and its SDKs, and agent-sandbox's
// client, from the registries of their languages. What is installed is what
// testdata/engines locks, with hashes.

// EnginesPython returns the path of a Python that has opensandbox-server, opensandbox
// and k8s-agent-sandbox, from the cache or from the Python package index.
func EnginesPython(ctx context.Context) (string, error) {
	lock, err := engineFile("requirements.txt")
	if err != nil {
		return "", err
	}
	version, err := Output(ctx, "python3", "-c", "import sys; print(sys.version, sys.prefix)") // an environment is of its interpreter
	if err != nil {
		return "", err
	}
	key, err := contentKey([]string{lock}, version)
	if err != nil {
		return "", err
	}
	dir, err := cached("engines-python-"+key, func(dir string) error {
		if _, err := Output(ctx, "python3", "-m", "venv", dir); err != nil {
			return err
		}
		_, err := Output(ctx, filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", "--requirement", lock)
		return err
	})
	return filepath.Join(dir, "bin", "python"), err
}

// EnginesNode returns the directory whose node_modules has @alibaba-group/opensandbox,
// from the cache or from the npm registry.
func EnginesNode(ctx context.Context) (string, error) {
	var files []string
	for _, name := range []string{"package.json", "package-lock.json"} {
		file, err := engineFile(name)
		if err != nil {
			return "", err
		}
		files = append(files, file)
	}
	key, err := contentKey(files, nil)
	if err != nil {
		return "", err
	}
	return cached("engines-node-"+key, func(dir string) error {
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600); err != nil {
				return err
			}
		}
		npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		npm.Dir = dir
		if out, err := npm.CombinedOutput(); err != nil {
			return fmt.Errorf("npm ci: %w\n%s", err, out)
		}
		return nil
	})
}

// engineFile is the path of a file of testdata/engines.
func engineFile(name string) (string, error) {
	top, err := root()
	return filepath.Join(top, "lab", "testdata", "engines", name), err
}

// contentKey names an entry of the cache after what it is made of.
func contentKey(files []string, more []byte) (string, error) {
	sum := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	sum.Write(more)
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// engineCommand is a command that reaches what it is told to and nothing else: no proxy,
// settings or home of its surroundings, and not the cluster that a test may run in.
func engineCommand(home, path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		told := strings.HasSuffix(strings.ToLower(name), "_proxy")
		for _, prefix := range []string{"OPENSANDBOX_", "OPEN_SANDBOX_", "SANDBOX_", "KUBE"} {
			told = told || strings.HasPrefix(name, prefix)
		}
		if !told {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+home, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}
