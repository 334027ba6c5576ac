package main

import (
	"context"
	"path/filepath"
)

// sbom writes what is in a binary, as CycloneDX, from the binary itself. The tool
// is the one that this module pins.
func (r *release) sbom(ctx context.Context, p platform, binary string) error {
	path, err := filepath.Abs(r.path("-" + p.String() + ".cdx.json"))
	if err != nil {
		return err
	}
	_, err = command(ctx, filepath.Join(r.commit.dir, "deploy"), nil, "go", "tool", "cyclonedx-gomod", "bin",
		"-json", "-std", "-noserial", "-notimestamp", "-version", r.version, "-output", path, binary)
	return err
}
