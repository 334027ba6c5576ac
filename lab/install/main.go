// Command install fills the lab's cache and says how long each step takes:
//
//	go run ./lab/install [envoy-<version>]... [envoy-newest] [envoys] [kube] [engines] [redis] [runsc]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/samepod/samepod/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return errors.New("what? allowed: envoy-<version>, envoy-newest, envoys, kube, engines, redis, runsc")
	}
	for _, name := range names {
		switch version, isEnvoy := strings.CutPrefix(name, "envoy-"); {
		case name == "envoy-newest":
			if err := run(ctx, []string{"envoy-" + lab.NewestEnvoy()}); err != nil {
				return err
			}
		case isEnvoy:
			if err := step(name, func() error { _, err := lab.EnvoyBinary(ctx, version); return err }); err != nil {
				return err
			}
		case name == "envoys":
			for _, v := range lab.EnvoyVersions() {
				if err := run(ctx, []string{"envoy-" + v}); err != nil {
					return err
				}
			}
		case name == "kube":
			if err := step("etcd and kube-apiserver, from their modules (minutes, the first time)", func() error { _, err := lab.KubeBinaries(ctx); return err }); err != nil {
				return err
			}
		case name == "engines":
			if err := step("OpenSandbox's server and the engines' clients, from PyPI and npm", func() error {
				_, err := lab.EnginesPython(ctx)
				if err == nil {
					_, err = lab.EnginesNode(ctx)
				}
				return err
			}); err != nil {
				return err
			}
		case name == "redis":
			if err := step(name, func() error { _, err := lab.RedisBinary(ctx); return err }); err != nil {
				return err
			}
		case name == "runsc":
			if err := step("runsc, from its module (minutes, the first time)", func() error { _, err := lab.RunscBinary(ctx); return err }); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%q; allowed: envoy-<version>, envoy-newest, envoys, kube, engines, redis, runsc", name)
		}
	}
	return nil
}

// step runs f and shows that time passes.
func step(what string, f func() error) error {
	started := time.Now()
	done := make(chan error, 1)
	go func() { done <- f() }()
	tick := time.NewTicker(30 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err == nil && time.Since(started) > time.Second {
				fmt.Printf("%s: %v\n", what, time.Since(started).Round(time.Second))
			}
			return err
		case <-tick.C:
			fmt.Printf("%s: %v so far\n", what, time.Since(started).Round(time.Second))
		}
	}
}
