package main

import (
	"context"
	"net/netip"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/samepod/samepod/lab"
)

// claims is how the dialect claim names Pods: the caller has recorded all of it.
type claims struct{}

func (claims) port() uint16 { return lab.ExecdPort }

func (claims) ended() string { return "pod-terminal" }

//nolint:unparam // an engine can fail to say it
func (claims) recorded(_ context.Context, p sandbox) (string, error) {
	return netip.AddrPortFrom(p.addr, lab.ExecdPort).String(), nil
}

func (claims) headers(p sandbox) [][2]string {
	return [][2]string{{"x-samepod-target", namespace + "/" + p.name}, {"x-samepod-expect-pod-uid", p.process.UID}}
}

// fileWorld is a file of Pods.
type fileWorld struct {
	claims
	lab  *lab.Lab
	path string
	pods []lab.PodRecord
}

func newFileWorld(l *lab.Lab) (*fileWorld, error) {
	w := &fileWorld{lab: l, path: filepath.Join(l.Dir, "pods.yaml")}
	return w, lab.WritePods(w.path, nil)
}

func (w *fileWorld) source() []string { return []string{"--source", "file", "--pods-file", w.path} }

func (w *fileWorld) start(_ context.Context, name string, addr netip.Addr) (*lab.Pod, error) {
	process, err := w.lab.StartPod(name, "uid-of-"+name, addr)
	if err != nil {
		return nil, err
	}
	w.pods = append(w.pods, lab.PodRecord{Namespace: namespace, Name: name, UID: process.UID, Phase: "Running", Addr: addr})
	return process, lab.WritePods(w.path, w.pods)
}

func (w *fileWorld) exit(_ context.Context, p sandbox) error {
	p.process.Stop()
	for i := range w.pods {
		if w.pods[i].Name == p.name {
			w.pods[i].Phase = "Failed"
		}
	}
	return lab.WritePods(w.path, w.pods)
}

// kubeWorld is a namespace of a real API server.
type kubeWorld struct {
	claims
	*cluster
}

func newKubeWorld(ctx context.Context, l *lab.Lab) (*kubeWorld, error) {
	c, err := newCluster(ctx, l)
	return &kubeWorld{cluster: c}, err
}

func (w *kubeWorld) start(ctx context.Context, name string, addr netip.Addr) (*lab.Pod, error) {
	p, err := w.kube.CreatePod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	process, err := w.lab.StartPod(name, string(p.UID), addr)
	if err != nil {
		return nil, err
	}
	return process, w.kube.SetStatus(ctx, namespace, name, corev1.PodRunning, addr)
}

func (w *kubeWorld) exit(ctx context.Context, p sandbox) error {
	p.process.Stop()
	return w.kube.SetStatus(ctx, namespace, p.name, corev1.PodFailed, p.addr)
}

// cluster is a real API server that has the namespace.
type cluster struct {
	lab        *lab.Lab
	kube       *lab.Kube
	kubeconfig string
}

func newCluster(ctx context.Context, l *lab.Lab) (*cluster, error) {
	kube, err := l.StartKube(ctx)
	if err != nil {
		return nil, err
	}
	if err := kube.CreateNamespace(ctx, namespace); err != nil {
		return nil, err
	}
	kubeconfig, err := kube.Kubeconfig(lab.UserSamepod, kube.URL)
	return &cluster{l, kube, kubeconfig}, err
}

func (c *cluster) source() []string {
	return []string{"--source", "kube", "--kubeconfig", c.kubeconfig}
}
