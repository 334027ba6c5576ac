package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is nobody's number; the chart asks for it too.
const user = "65532:65532"

// image writes an OCI layout with one image for each platform, as a tarball that
// docker, podman, skopeo and crane read.
func (r *release) image(binaries map[platform]string) error {
	index := mutate.IndexMediaType(v1.ImageIndex(empty.Index), types.OCIImageIndex)
	for _, p := range platforms {
		img, err := r.platformImage(p, binaries[p])
		if err != nil {
			return fmt.Errorf("image of %v: %w", p, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
	}
	dir := filepath.Join(r.commit.dir, "bin", "image")
	named := mutate.AppendManifests(mutate.IndexMediaType(v1.ImageIndex(empty.Index), types.OCIImageIndex), mutate.IndexAddendum{
		Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version}},
	})
	if _, err := layout.Write(dir, named); err != nil {
		return err
	}
	var files []file
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error { // in the order of names
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		files = append(files, file{path, 0o644, text})
		return err
	})
	if err != nil {
		return err
	}
	text, err := tarOf(files, r.commit.time)
	if err != nil {
		return err
	}
	return os.WriteFile(r.path("-image.tar"), text, 0o644)
}

// platformImage is the binary and nothing else: no shell, no libraries, no users.
// The CA of the API server comes with the service account.
func (r *release) platformImage(p platform, binary string) (v1.Image, error) {
	text, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	content, err := tarOf([]file{{"samepod", 0o555, text}}, r.commit.time)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	at := v1.Time{Time: r.commit.time}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(base, &v1.ConfigFile{OS: p.os, Architecture: p.arch, Created: at, RootFS: v1.RootFS{Type: "layers"}, Config: v1.Config{
		User: user, Entrypoint: []string{"/samepod"},
		Labels: map[string]string{"org.opencontainers.image.title": "samepod", "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit.hash},
	}})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: at, CreatedBy: "samepod release"}})
}
