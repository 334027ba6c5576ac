package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/samepod/samepod/lab"
)

// engineWorld is a real API server with the objects of an engine. Its controllers are
// the lab's, which write what the engine's own do.
type engineWorld struct {
	*cluster
	engine  engine
	node    *lab.Node
	podName func(sandbox string) string
	names   func(sandbox string) [][2]string
	reason  string // of a sandbox whose container has exited
	// published are the addresses that the engine tells others.
	published func(*unstructured.Unstructured) ([]string, error)
}

// engine is what [lab.OpenSandbox] and [lab.AgentSandbox] have in common.
type engine interface {
	Start(ctx context.Context, sandbox string, addr netip.Addr) (*lab.Pod, error)
	Reconcile(ctx context.Context, sandbox string) error
	Sandbox(ctx context.Context, name string) (*unstructured.Unstructured, error)
}

func newEngineWorld(ctx context.Context, l *lab.Lab, dialect string) (*engineWorld, error) {
	if dialect != "opensandbox" && dialect != "agent-sandbox" {
		return nil, fmt.Errorf("-dialect: %q; allowed: claim, opensandbox, agent-sandbox", dialect)
	}
	c, err := newCluster(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := c.kube.InstallCRDs(ctx, lab.CRDBatchSandboxes, lab.CRDPools, lab.CRDSandboxes); err != nil {
		return nil, err
	}
	if err := c.kube.GrantEngines(ctx, lab.UserSamepod, "get", "list", "watch", "patch"); err != nil {
		return nil, err
	}
	if dialect == "opensandbox" {
		return newOpenSandbox(c)
	}
	return newAgentSandbox(c)
}

func newOpenSandbox(c *cluster) (*engineWorld, error) {
	o, err := c.lab.NewOpenSandbox(c.kube, namespace)
	if err != nil {
		return nil, err
	}
	return &engineWorld{
		cluster: c, engine: o, node: o.Node, reason: "pod-terminal",
		podName: func(sandbox string) string { return sandbox + "-0" },
		names: func(sandbox string) [][2]string {
			return [][2]string{{"OpenSandbox-Ingress-To", fmt.Sprintf("%s-%d", sandbox, o.Port)}}
		},
		published: func(bs *unstructured.Unstructured) (all []string, err error) {
			return all, json.Unmarshal([]byte(bs.GetAnnotations()["sandbox.opensandbox.io/endpoints"]), &all)
		},
	}, nil
}

func newAgentSandbox(c *cluster) (*engineWorld, error) {
	a, err := c.lab.NewAgentSandbox(c.kube, namespace, "v1beta1")
	if err != nil {
		return nil, err
	}
	return &engineWorld{
		cluster: c, engine: a, node: a.Node, reason: "sandbox-gone", // its controller says Finished
		podName: func(sandbox string) string { return sandbox },
		names: func(sandbox string) [][2]string {
			return [][2]string{{"X-Sandbox-ID", sandbox}, {"X-Sandbox-Namespace", namespace}}
		},
		published: func(s *unstructured.Unstructured) ([]string, error) {
			all, _, err := unstructured.NestedStringSlice(s.Object, "status", "podIPs")
			return all, err
		},
	}, nil
}

func (w *engineWorld) port() uint16 { return w.node.Port }

func (w *engineWorld) ended() string { return w.reason }

func (w *engineWorld) start(ctx context.Context, name string, addr netip.Addr) (*lab.Pod, error) {
	return w.engine.Start(ctx, name, addr)
}

// exit lets the controller see that the Pod has failed.
func (w *engineWorld) exit(ctx context.Context, p sandbox) error {
	if err := w.node.Exit(ctx, w.podName(p.name), corev1.PodFailed); err != nil {
		return err
	}
	return w.engine.Reconcile(ctx, p.name)
}

// recorded asks the engine anew for each request, as its servers and routers do.
func (w *engineWorld) recorded(ctx context.Context, p sandbox) (string, error) {
	object, err := w.engine.Sandbox(ctx, p.name)
	if err != nil {
		return "", err
	}
	all, err := w.published(object)
	if err != nil || len(all) == 0 {
		return "", fmt.Errorf("sandbox %s publishes no address: %w", p.name, err)
	}
	return fmt.Sprintf("%s:%d", all[0], w.port()), nil
}

func (w *engineWorld) headers(p sandbox) [][2]string { return w.names(p.name) }
