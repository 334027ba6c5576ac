package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "samepod",
		Short:         "Lets a request through Envoy only if the address is still the same Pod",
		Version:       thisBuild().Version,
		SilenceErrors: true, // run prints them, once
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          help,
	}
	root.AddCommand(newServe(), newEnvoy(), newVersion())
	return root
}

// help is what a command does that has only subcommands. Without it cobra takes an
// unknown subcommand for a request for help, and exits 0.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// oneOf checks a flag whose values are a closed set.
func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("--%s: %q; allowed: %s", flag, value, strings.Join(allowed, ", "))
}
