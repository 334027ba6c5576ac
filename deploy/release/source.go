package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// commit is what is released.
type commit struct {
	dir  string // a clone of it
	hash string
	time time.Time
}

// checkOut clones the HEAD of a checkout into dir. It refuses a checkout with
// changes, which would not be in the release, and a version whose tag is another
// commit.
func checkOut(ctx context.Context, source, dir, version string) (commit, error) {
	git := func(args ...string) (string, error) { return command(ctx, source, nil, "git", args...) }
	changes, err := git("status", "--porcelain")
	if err != nil {
		return commit{}, err
	}
	if changes != "" {
		return commit{}, fmt.Errorf("%s has changes that are not committed; a release is a commit:\n%s", source, changes)
	}
	hash, err := git("rev-parse", "HEAD")
	if err != nil {
		return commit{}, err
	}
	if tagged, err := git("rev-parse", "--quiet", "--verify", "refs/tags/"+version+"^{commit}"); err == nil && tagged != hash {
		return commit{}, fmt.Errorf("the tag %s is commit %s, HEAD is %s", version, tagged, hash)
	}
	seconds, err := git("log", "-1", "--format=%ct")
	if err != nil {
		return commit{}, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return commit{}, err
	}
	top, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return commit{}, err
	}
	// A tag would be part of what the go command records; the version is stamped.
	if _, err := git("clone", "--quiet", "--shared", "--no-tags", "--no-checkout", top, dir); err != nil {
		return commit{}, err
	}
	_, err = command(ctx, dir, nil, "git", "checkout", "--quiet", "--detach", hash)
	return commit{dir, hash, time.Unix(unix, 0).UTC()}, err
}

// command runs a program to its end and returns what it printed.
func command(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return string(bytes.TrimSpace(out)), err
}
