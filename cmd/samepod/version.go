package main

import (
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/spf13/cobra"
)

// A release stamps these with -ldflags "-X main.stampVersion=v1.2.3 -X
// main.stampRevision=<commit>". Without them, what the go command knows is told:
// the module's version, which it takes from the tag, and the commit.
var stampVersion, stampRevision string

// build is what this binary was built from. The command version, the metric
// samepod_build_info, the first log record and the User-Agent all tell it.
type build struct {
	Version  string // v1.2.3, a pseudo-version, or development
	Revision string // the commit, or unknown
	Dirty    bool   // the checkout had changes that were not committed
	Go       string // go1.26.8
}

func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info, stampVersion, stampRevision)
}

// buildOf lets a stamp win over what the go command recorded.
func buildOf(info *debug.BuildInfo, version, revision string) build {
	b := build{Version: "development", Revision: "unknown", Go: runtime.Version()}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
	if version != "" {
		b.Version = version
	}
	if revision != "" {
		b.Revision = revision
	}
	return b
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this binary was built from",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			b := thisBuild()
			cmd.Printf("version:  %s\nrevision: %s\ndirty:    %s\ngo:       %s\n", b.Version, b.Revision, strconv.FormatBool(b.Dirty), b.Go)
		},
	}
}
