package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// checkout is the working tree as a repository of its own, so that what is tested
// is what stands here, committed or not.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	top := os.DirFS("../..")
	err := fs.WalkDir(top, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains([]string{".git", ".cache", "bin", "lab/logs"}, path):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil // .git of a worktree
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, path), 0o755)
		}
		text, err := fs.ReadFile(top, path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "--quiet")
	commitAll(t, dir)
	return dir
}

func commitAll(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "add", "--all", "--force")
	git(t, dir, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message", "all")
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), dir, nil, "git", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRefused: what would not be a release.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "init", "--quiet")
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	commitAll(t, dir)
	git(t, dir, "tag", "v0.0.1")
	if err := os.WriteFile(filepath.Join(dir, "b"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if err := run(t.Context(), append([]string{"-source", dir}, args...), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
	refused("allowed: one version such as v1.2.3")
	for _, version := range []string{"1.2.3", "v1.2", "v01.2.3", "v1.2.3 ", "latest"} {
		refused("allowed: one version such as v1.2.3", version)
	}
	refused("not empty", "-out", full, "v0.0.2")
	refused("has changes that are not committed", "-out", t.TempDir(), "v0.0.2")
	commitAll(t, dir)
	refused("the tag v0.0.1 is commit", "-out", t.TempDir(), "v0.0.1")
}

// TestRelease builds everything, twice and at two paths, and looks into it.
func TestRelease(t *testing.T) {
	source := checkout(t)
	build := func(clone string) *release {
		t.Helper()
		r := &release{version: "v9.8.7", out: filepath.Join(t.TempDir(), "out")}
		if err := r.build(t.Context(), source, filepath.Join(t.TempDir(), clone)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.sum(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r, again := build("a"), build("another/path")
	first, second := contents(t, r.out), contents(t, again.out)
	if len(first) != 7 {
		t.Errorf("%d artifacts", len(first))
	}
	for name, text := range first {
		if !bytes.Equal(text, second[name]) {
			t.Errorf("%s differs from one build to the next", name)
		}
		if bytes.Contains(text, []byte(r.commit.dir)) {
			t.Errorf("%s tells where it was built", name)
		}
		if sum := fmt.Sprintf("%x  %s\n", sha256.Sum256(text), name); name != "SHA256SUMS" && !bytes.Contains(first["SHA256SUMS"], []byte(sum)) {
			t.Errorf("SHA256SUMS lacks %s", sum)
		}
	}
	binaries := map[string][]byte{}
	for _, p := range platforms {
		binaries[p.arch] = checkArchive(t, r, p)
		checkSBOM(t, r, p)
	}
	checkImage(t, r, binaries)
	checkChart(t, r)
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if all[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// checkArchive returns the binary, which must say what it is where it can run.
func checkArchive(t *testing.T, r *release, p platform) []byte {
	t.Helper()
	files := untar(t, gunzip(t, r.path("-"+p.String()+".tar.gz")))
	dir := "samepod-v9.8.7-" + p.String() + "/"
	binary := files[dir+"samepod"]
	if len(binary) == 0 || len(files[dir+"README.md"]) == 0 || len(files[dir+"CHANGELOG.md"]) == 0 {
		t.Fatalf("%v: the archive lacks a file", p)
	}
	if p.arch != runtime.GOARCH || p.os != runtime.GOOS {
		return binary
	}
	path := filepath.Join(t.TempDir(), "samepod")
	if err := os.WriteFile(path, binary, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "version").Output()
	if want := fmt.Sprintf("version:  v9.8.7\nrevision: %s\ndirty:    false\ngo:       %s\n", r.commit.hash, runtime.Version()); err != nil || string(out) != want {
		t.Errorf("%v: it says %q, %v, want %q", p, out, err, want)
	}
	return binary
}

// checkSBOM: the SBOM names what the binary was built from.
func checkSBOM(t *testing.T, r *release, p platform) {
	t.Helper()
	text, err := os.ReadFile(r.path("-" + p.String() + ".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	has := map[string]string{}
	for _, c := range bom.Components {
		has[c.Name] = c.Version
	}
	if m := bom.Metadata.Component; bom.BOMFormat != "CycloneDX" || m.Name != "github.com/samepod/samepod" || m.Version != "v9.8.7" {
		t.Errorf("%v: the SBOM is of %+v", p, bom.Metadata)
	}
	for _, module := range []string{"k8s.io/client-go", "google.golang.org/grpc", "std"} {
		if has[module] == "" {
			t.Errorf("%v: the SBOM lacks %s", p, module)
		}
	}
	if has["helm.sh/helm/v4"] != "" {
		t.Errorf("%v: the SBOM has what only the tests of the chart need", p)
	}
}

// checkImage: the layout is valid, and its images are the released binaries.
func checkImage(t *testing.T, r *release, binaries map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(r.path("-image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range untar(t, text) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	named, err := top.IndexManifest()
	if err != nil || len(named.Manifests) != 1 || named.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v9.8.7" {
		t.Fatalf("%+v, %v", named, err)
	}
	index, err := top.ImageIndex(named.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != len(platforms) {
		t.Fatalf("%+v, %v", manifest, err)
	}
	for _, m := range manifest.Manifests {
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkPlatformImage(t, img, m.Platform.Architecture, binaries)
	}
}

func checkPlatformImage(t *testing.T, img v1.Image, arch string, binaries map[string][]byte) {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; config.Architecture != arch || c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/samepod"}) || c.Env != nil || c.Labels["org.opencontainers.image.version"] != "v9.8.7" {
		t.Errorf("%s: %+v", arch, config)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	text, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	if files := untar(t, text); len(files) != 1 || !bytes.Equal(files["samepod"], binaries[arch]) {
		t.Errorf("%s: the image has %d files, or not the released binary", arch, len(files))
	}
}

// checkChart: the chart is helm's, has the release's version, and nothing for CI.
func checkChart(t *testing.T, r *release) {
	t.Helper()
	chart, err := loader.Load(filepath.Join(r.out, "samepod-chart-9.8.7.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if m := chart.Metadata; m.Version != "9.8.7" || m.AppVersion != "v9.8.7" || len(chart.Schema) == 0 || len(chart.Templates) < 10 {
		t.Errorf("%+v, %d templates", m, len(chart.Templates))
	}
	for _, f := range chart.Files {
		t.Errorf("the chart has %s", f.Name)
	}
}

func gunzip(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if text, err = io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	return text
}

func untar(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(text))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Typeflag != tar.TypeReg {
			t.Errorf("%s is of %d:%d %q, type %c", h.Name, h.Uid, h.Gid, h.Uname, h.Typeflag)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
