package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	root.AddCommand(newServe(), newEnvoy(), newAudit(), newPin(), newSLO(), newDoctor(), newExplainStart(), newVersion())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	return root
}

// flagError says what is allowed, where pflag quotes the error of a parser.
func flagError(err error) error {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	allowed, ok := map[string]string{
		"bool": "true or false", "duration": "a duration such as 90s or 5m", "int": "a whole number", "uint32": "a whole number from 0 to 4294967295",
	}[wrong.GetFlag().Value.Type()]
	if !ok {
		return err
	}
	return fmt.Errorf("--%s: %q; allowed: %s", wrong.GetFlag().Name, wrong.GetValue(), allowed)
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
