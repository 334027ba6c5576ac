package main

import (
	"context"
	"os"
	"path/filepath"
)

// binary builds one. Nothing of the machine gets into it: no path, no build id, no
// C, no setting of the user's environment.
func (r *release) binary(ctx context.Context, p platform, dir string) (string, error) {
	path := filepath.Join(dir, "samepod")
	env := append(os.Environ(),
		"CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off")
	if r.cache != "" {
		env = append(env, "GOCACHE="+r.cache)
	}
	_, err := command(ctx, r.commit.dir, env, "go", "build", "-trimpath", "-buildvcs=true",
		"-ldflags=-s -w -buildid= -X main.stampVersion="+r.version+" -X main.stampRevision="+r.commit.hash,
		"-o", path, "./cmd/samepod")
	return path, err
}
