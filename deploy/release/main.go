// Command release builds everything that a release of samepod consists of, with Go
// and git alone:
//
//	go -C deploy run ./release [-out dir] [-verify] v1.2.3
//
// binaries for linux/amd64 and linux/arm64 in archives, an SBOM (CycloneDX) of
// each, an image of both as an OCI layout, the chart, and SHA256SUMS.
//
// A release is a commit: it is built from a clone of HEAD, so that nothing which is
// not committed gets into it. The same commit and Go version give the same bytes on
// every machine; -verify builds a second time, at another path and with an empty
// build cache, and compares.
//
// source.go is the commit, binary.go, archive.go, sbom.go, image.go and chart.go
// one kind of artifact each.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var versionForm = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	source := flags.String("source", "..", "checkout whose HEAD is released")
	dir := flags.String("out", "../bin/release", "directory for the artifacts; it must be empty or absent")
	verify := flags.Bool("verify", false, "build a second time, elsewhere and without a cache, and compare")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || !versionForm.MatchString(flags.Arg(0)) {
		return fmt.Errorf("%q; allowed: one version such as v1.2.3 or v1.2.3-rc.1", flags.Args())
	}
	temp, err := os.MkdirTemp("", "samepod-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeAll(temp)) }()

	r := release{version: flags.Arg(0), out: *dir}
	if err := r.build(ctx, *source, filepath.Join(temp, "first")); err != nil {
		return err
	}
	sums, err := r.sum()
	if err != nil {
		return err
	}
	if *verify {
		again := release{version: r.version, out: filepath.Join(temp, "again"), cache: filepath.Join(temp, "cache")}
		// From the first clone: HEAD of the checkout may have moved on.
		if err := again.build(ctx, r.commit.dir, filepath.Join(temp, "second", "elsewhere")); err != nil {
			return err
		}
		other, err := again.sum()
		if err != nil {
			return err
		}
		if !bytes.Equal(sums, other) {
			return fmt.Errorf("not reproducible; first:\n%sthen:\n%s", sums, other)
		}
		fmt.Fprintln(out, "built twice, equal:")
	}
	_, err = out.Write(sums)
	return err
}

// release is one build of all artifacts.
type release struct {
	version string
	out     string
	cache   string // of the build; empty for the user's own

	commit commit
}

// platforms are what is built for.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// build makes every artifact from a clone that it makes at clone.
func (r *release) build(ctx context.Context, source, clone string) (err error) {
	if err := emptyDir(r.out); err != nil {
		return err
	}
	if r.commit, err = checkOut(ctx, source, clone, r.version); err != nil {
		return err
	}
	binaries := map[platform]string{}
	for _, p := range platforms {
		if binaries[p], err = r.binary(ctx, p, filepath.Join(clone, "bin", p.String())); err != nil {
			return err
		}
		if err := r.archive(p, binaries[p]); err != nil {
			return err
		}
		if err := r.sbom(ctx, p, binaries[p]); err != nil {
			return err
		}
	}
	if err := r.image(binaries); err != nil {
		return err
	}
	return r.chart()
}

// path is that of an artifact.
func (r *release) path(suffix string) string {
	return filepath.Join(r.out, "samepod-"+r.version+suffix)
}

// sum writes SHA256SUMS and returns it.
func (r *release) sum() ([]byte, error) {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return nil, err
	}
	var sums bytes.Buffer
	for _, e := range entries { // in the order of their names
		text, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(text), e.Name())
	}
	return sums.Bytes(), os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("%s: not empty", dir)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}

// removeAll also removes a module cache, which is read-only.
func removeAll(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
