package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/samepod/samepod/lab"
)

const namespace = "sandboxes"

// stage is everything that takes part: samepod, an Envoy that asks it, an Envoy
// that does not, and a world that says which Pods there are.
type stage struct {
	lab     *lab.Lab
	addrs   *lab.Addresses
	world   world
	samepod *lab.Samepod
	with    *lab.Envoy
	without *lab.Envoy
	version string // of Envoy
	a       sandbox
}

// world is where sandboxes are known: a file of Pods, or an API server, perhaps with the
// objects of an engine.
type world interface {
	// source are the flags that make samepod read this world.
	source() []string
	// port is where its sandboxes listen.
	port() uint16
	// start takes a sandbox to where it serves.
	start(ctx context.Context, name string, addr netip.Addr) (*lab.Pod, error)
	// exit ends its container; the Pod stays, with its address.
	exit(ctx context.Context, p sandbox) error
	// recorded is the address that whoever does not look at the Pod dials.
	recorded(ctx context.Context, p sandbox) (string, error)
	// headers say which sandbox a request means.
	headers(p sandbox) [][2]string
	// ended is how samepod calls a sandbox whose container has exited.
	ended() string
}

func newWorld(ctx context.Context, l *lab.Lab, kube bool, dialect string) (world, error) {
	switch {
	case dialect != "claim":
		return newEngineWorld(ctx, l, dialect)
	case kube:
		return newKubeWorld(ctx, l)
	}
	return newFileWorld(l)
}

func newStage(ctx context.Context, l *lab.Lab, kube bool, dialect string) (*stage, error) {
	s := &stage{lab: l}
	envoy, err := lab.EnvoyBinary(ctx, lab.NewestEnvoy())
	if err != nil {
		return nil, err
	}
	if s.version, err = lab.EnvoyVersionOf(ctx, envoy); err != nil {
		return nil, err
	}
	binary, err := lab.SamepodBinary(ctx, false)
	if err != nil {
		return nil, err
	}
	if s.world, err = newWorld(ctx, l, kube, dialect); err != nil {
		return nil, err
	}
	if s.addrs, err = lab.NewAddresses(s.world.port()); err != nil {
		return nil, err
	}
	config := filepath.Join(l.Dir, "samepod.yaml")
	text := fmt.Sprintf("dialect: %s\nscope: {namespaces: [%s]}\nports: [%d]\naddresses: {cidrs: [%v]}\n", dialect, namespace, s.world.port(), s.addrs.Prefix())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if s.samepod, err = l.StartSamepod(ctx, "samepod", binary, append([]string{"--config", config}, s.world.source()...)...); err != nil {
		return nil, err
	}
	bootstrap, err := lab.Output(ctx, binary, "envoy", "bootstrap", "--envoy-version", s.version, "--config", config,
		"--samepod", s.samepod.Authz.String(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if s.with, err = l.StartEnvoy(ctx, "envoy-with-samepod", envoy, bootstrap); err != nil {
		return nil, err
	}
	if s.without, err = l.StartEnvoy(ctx, "envoy-without-samepod", envoy, []byte(lab.ControlBootstrap)); err != nil {
		return nil, err
	}
	return s, s.samepod.WaitReady(ctx, true, 30*time.Second)
}
