// Command samepod lets a request through Envoy only if the address that Envoy is
// about to dial is still the same Pod.
//
// This package is the only place that knows everything: it reads configuration,
// makes the parts, and joins them. serve.go is the service, envoy.go prints
// Envoy's side of it, check.go judges the Envoy of somebody else.
package main

import (
	"context"
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

// run executes one command line and returns its exit code: 0, or 1 with the error
// on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "samepod: %v\n", err)
		return 1
	}
	return 0
}
