// Command install fills the lab's cache and says how long each step takes:
//
//	go run ./lab/install [envoy-<version>]... [envoy-newest] [envoys] [kube] [engines] [redis] [runsc]
package main

import (
	"context"
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

// part is something to install.
type part struct {
	name, about string
	install     func(context.Context) error
}

// parts are all but the Envoys.
func parts() []part {
	return []part{
		{"kube", "etcd and kube-apiserver, from their modules (minutes, the first time)", func(ctx context.Context) error { _, err := lab.KubeBinaries(ctx); return err }},
		{"engines", "OpenSandbox's server and the engines' clients, from PyPI and npm", installEngines},
		{"redis", "redis", func(ctx context.Context) error { _, err := lab.RedisBinary(ctx); return err }},
		{"runsc", "runsc, from its module (minutes, the first time)", func(ctx context.Context) error { _, err := lab.RunscBinary(ctx); return err }},
	}
}

func installEngines(ctx context.Context) error {
	_, err := lab.EnginesPython(ctx)
	if err == nil {
		_, err = lab.EnginesNode(ctx)
	}
	return err
}

// find is what a name means.
func find(name string) ([]part, error) {
	envoy := func(version string) part {
		return part{"envoy-" + version, "envoy-" + version, func(ctx context.Context) error { _, err := lab.EnvoyBinary(ctx, version); return err }}
	}
	names := []string{"envoy-<version>", "envoy-newest", "envoys"}
	for _, p := range parts() {
		if p.name == name {
			return []part{p}, nil
		}
		names = append(names, p.name)
	}
	switch version, isEnvoy := strings.CutPrefix(name, "envoy-"); {
	case name == "envoy-newest":
		return []part{envoy(lab.NewestEnvoy())}, nil
	case isEnvoy:
		return []part{envoy(version)}, nil
	case name == "envoys":
		var envoys []part
		for _, v := range lab.EnvoyVersions() {
			envoys = append(envoys, envoy(v))
		}
		return envoys, nil
	}
	return nil, fmt.Errorf("%q; allowed: %s", name, strings.Join(names, ", "))
}

func run(ctx context.Context, names []string) error {
	if len(names) == 0 {
		names = []string{""} // is told what there is
	}
	for _, name := range names {
		found, err := find(name)
		if err != nil {
			return err
		}
		for _, p := range found {
			if err := step(p.about, func() error { return p.install(ctx) }); err != nil {
				return err
			}
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
