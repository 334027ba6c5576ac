package main

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "samepod",
		Short:         "Lets a request through Envoy only if the address is still the same Pod",
		Version:       version(),
		SilenceErrors: true, // run prints them, once
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          help,
	}
	root.AddCommand(newServe(), newEnvoy())
	return root
}

// help is what a command does that has only subcommands. Without it cobra takes an
// unknown subcommand for a request for help, and exits 0.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// version is the module's version, or the commit that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "commit " + s.Value
		}
	}
	return "development"
}

// oneOf checks a flag whose values are a closed set.
func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("--%s: %q; allowed: %s", flag, value, strings.Join(allowed, ", "))
}
