// Command samepod lets a request through Envoy only if the address that Envoy is
// about to dial is still the same Pod.
//
// This package is the only place that knows everything: it reads configuration,
// makes the parts, and joins them. serve.go is the service, envoy.go prints
// Envoy's side of it, check.go judges the Envoy of somebody else.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// The second signal ends the process at once: stop restores the default.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

// Unwrap returns the error without its code.
func (e *exitError) Unwrap() error { return e.error }

// run executes one command line and returns its exit code: 0, or with the error on
// stderr 1, or what an exitError says.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "samepod: %v\n", err)
		if coded, ok := errors.AsType[*exitError](err); ok {
			return coded.code
		}
		return 1
	}
	return 0
}
