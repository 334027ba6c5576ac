package main

import (
	"context"
	"net/netip"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// world is where Pods are known: a file, or an API server.
type world interface {
	// source are the flags that make samepod read this world.
	source() []string
	// create makes a Pod without an address and returns its uid.
	create(ctx context.Context, name string) (uid string, err error)
	// status writes its phase and address.
	status(ctx context.Context, name, phase string, addr netip.Addr) error
}

func newStage(ctx context.Context, l *lab.Lab, kube bool) (*stage, error) {
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
	if s.addrs, err = lab.NewAddresses(lab.ExecdPort); err != nil {
		return nil, err
	}
	if kube {
		s.world, err = newKubeWorld(ctx, l)
	} else {
		s.world, err = newFileWorld(l)
	}
	if err != nil {
		return nil, err
	}
	config := filepath.Join(l.Dir, "samepod.yaml")
	if err := lab.WriteConfig(config, namespace, s.addrs.Prefix()); err != nil {
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

// fileWorld is a file of Pods.
type fileWorld struct {
	path string
	pods []lab.PodRecord
}

func newFileWorld(l *lab.Lab) (*fileWorld, error) {
	w := &fileWorld{path: filepath.Join(l.Dir, "pods.yaml")}
	return w, lab.WritePods(w.path, nil)
}

func (w *fileWorld) source() []string { return []string{"--source", "file", "--pods-file", w.path} }

func (w *fileWorld) create(_ context.Context, name string) (string, error) {
	uid := "uid-of-" + name
	w.pods = append(w.pods, lab.PodRecord{Namespace: namespace, Name: name, UID: uid, Phase: "Pending"})
	return uid, lab.WritePods(w.path, w.pods)
}

func (w *fileWorld) status(_ context.Context, name, phase string, addr netip.Addr) error {
	for i := range w.pods {
		if w.pods[i].Name == name {
			w.pods[i].Phase, w.pods[i].Addr = phase, addr
		}
	}
	return lab.WritePods(w.path, w.pods)
}

// kubeWorld is a namespace of a real API server.
type kubeWorld struct {
	kube       *lab.Kube
	kubeconfig string
}

func newKubeWorld(ctx context.Context, l *lab.Lab) (*kubeWorld, error) {
	kube, err := l.StartKube(ctx)
	if err != nil {
		return nil, err
	}
	if err := kube.CreateNamespace(ctx, namespace); err != nil {
		return nil, err
	}
	kubeconfig, err := kube.Kubeconfig(lab.UserSamepod, kube.URL)
	return &kubeWorld{kube, kubeconfig}, err
}

func (w *kubeWorld) source() []string {
	return []string{"--source", "kube", "--kubeconfig", w.kubeconfig}
}

func (w *kubeWorld) create(ctx context.Context, name string) (string, error) {
	p, err := w.kube.CreatePod(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	return string(p.UID), nil
}

func (w *kubeWorld) status(ctx context.Context, name, phase string, addr netip.Addr) error {
	return w.kube.SetStatus(ctx, namespace, name, corev1.PodPhase(phase), addr)
}
