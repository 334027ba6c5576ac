package lab

import (
	"context"
	"maps"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// OpenSandbox stands for OpenSandbox's server and controllers in one namespace. A
// method is one of their steps: it writes to the API what they write, in their order,
// and nothing happens between two. An outage of a controller is its steps not taken.
// Sandboxes are named by their id, which is the name of the BatchSandbox.
//
// Usual: [OpenSandbox.Start]; then [Node.Exit], [Node.Delete] and [Node.Run] for what
// happens to the Pod "<id>-0", and [OpenSandbox.Reconcile] when the controller notices.
type OpenSandbox struct {
	*Node
	sandboxes dynamic.ResourceInterface
	pools     dynamic.ResourceInterface
}

// Keys of OpenSandbox's objects.
const (
	annotationEndpoints     = "sandbox.opensandbox.io/endpoints"
	annotationAllocStatus   = "sandbox.opensandbox.io/alloc-status"
	annotationAllocRelease  = "sandbox.opensandbox.io/alloc-release"
	annotationAllocReleased = "sandbox.opensandbox.io/alloc-released"
	annotationRestartRecord = "sandbox.opensandbox.io/restart-record"
	labelSandboxID          = "opensandbox.io/id"
	labelSandboxName        = "batch-sandbox.sandbox.opensandbox.io/name"
	labelPodIndex           = "batch-sandbox.sandbox.opensandbox.io/pod-index"
	labelPoolName           = "sandbox.opensandbox.io/pool-name"
	labelPoolRevision       = "sandbox.opensandbox.io/pool-revision"
	finalizerPool           = "pool.sandbox.opensandbox.io/pool-allocation"
)

var opensandboxVersion = schema.GroupVersion{Group: "sandbox.opensandbox.io", Version: "v1alpha1"}

// NewOpenSandbox stands for OpenSandbox in a namespace whose API server has
// [CRDBatchSandboxes] and [CRDPools].
func (l *Lab) NewOpenSandbox(kube *Kube, namespace string) (*OpenSandbox, error) {
	client, err := kube.Dynamic()
	if err != nil {
		return nil, err
	}
	return &OpenSandbox{
		Node:      l.NewNode(kube, namespace, ExecdPort),
		sandboxes: client.Resource(opensandboxVersion.WithResource("batchsandboxes")).Namespace(namespace),
		pools:     client.Resource(opensandboxVersion.WithResource("pools")).Namespace(namespace),
	}, nil
}

// Create writes a BatchSandbox as the server does, with these fields beside spec.replicas
// and spec.template. A spec with a poolRef has no template.
func (o *OpenSandbox) Create(ctx context.Context, id string, spec map[string]any) (*unstructured.Unstructured, error) {
	all := map[string]any{"replicas": int64(1)}
	if spec["poolRef"] == nil {
		all["template"] = sandboxTemplate(id)
	}
	maps.Copy(all, spec)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": all}}
	object.SetGroupVersionKind(opensandboxVersion.WithKind("BatchSandbox"))
	object.SetName(id)
	object.SetLabels(map[string]string{labelSandboxID: id})
	return o.sandboxes.Create(ctx, object, metav1.CreateOptions{})
}

func sandboxTemplate(id string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{labelSandboxID: id}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "sandbox", "image": "sandbox:v1"}}},
	}
}

// Start takes a sandbox to where it serves: created, its Pod running on the address,
// endpoints and status published.
func (o *OpenSandbox) Start(ctx context.Context, id string, addr netip.Addr) (*Pod, error) {
	if _, err := o.Create(ctx, id, nil); err != nil {
		return nil, err
	}
	return o.BringUp(ctx, id, addr)
}

// Created waits until the server has created a sandbox in the namespace that no
// controller has seen yet, and returns its id.
func (o *OpenSandbox) Created(ctx context.Context) (id string, err error) {
	waitErr := wait(ctx, nil, "the server has created a sandbox", 30*time.Second, func() bool {
		all, listErr := o.sandboxes.List(ctx, metav1.ListOptions{})
		if err = listErr; err != nil {
			return true
		}
		for _, bs := range all.Items {
			if bs.Object["status"] == nil {
				id = bs.GetName()
			}
		}
		return id != ""
	})
	if err != nil {
		return "", err
	}
	return id, waitErr
}

// BringUp takes a sandbox that exists, and has no Pod, to where it serves: one that the
// real server has created or resumed, or that was rebuilt.
func (o *OpenSandbox) BringUp(ctx context.Context, id string, addr netip.Addr) (*Pod, error) {
	if err := o.Reconcile(ctx, id); err != nil {
		return nil, err
	}
	process, err := o.Run(ctx, id+"-0", addr)
	if err != nil {
		return nil, err
	}
	return process, o.Reconcile(ctx, id)
}

// Sandbox reads a BatchSandbox.
func (o *OpenSandbox) Sandbox(ctx context.Context, id string) (*unstructured.Unstructured, error) {
	return o.sandboxes.Get(ctx, id, metav1.GetOptions{})
}

// Edit applies a JSON merge patch to a BatchSandbox, such as the server's
// {"spec": {"pause": true}}, {"spec": {"expireTime": …}}, or an annotation that
// nobody but an attacker writes.
func (o *OpenSandbox) Edit(ctx context.Context, id string, patch map[string]any) error {
	return mergePatch(ctx, o.sandboxes, id, patch)
}

// Remove deletes a BatchSandbox. One with finalizers stays, with a deletionTimestamp;
// Pods stay until [OpenSandbox.Collect].
func (o *OpenSandbox) Remove(ctx context.Context, id string) error {
	return o.sandboxes.Delete(ctx, id, metav1.DeleteOptions{})
}

// Rebuild deletes a BatchSandbox and creates one of the same name: another uid.
// The Pods of the first stay until [OpenSandbox.Collect], as the garbage collector is
// not at once.
func (o *OpenSandbox) Rebuild(ctx context.Context, id string) (*unstructured.Unstructured, error) {
	if err := o.Remove(ctx, id); err != nil {
		return nil, err
	}
	return o.Create(ctx, id, nil)
}

// Collect is the garbage collector: it deletes every Pod of a BatchSandbox that is gone.
func (o *OpenSandbox) Collect(ctx context.Context) error {
	return o.collect(ctx, o.sandboxes, "BatchSandbox")
}

// Expire is the controller's look at spec.expireTime: it deletes what is past it.
func (o *OpenSandbox) Expire(ctx context.Context, id string) error {
	bs, err := o.Sandbox(ctx, id)
	if err != nil {
		return err
	}
	text, _, _ := unstructured.NestedString(bs.Object, "spec", "expireTime")
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || time.Now().Before(at) {
		return err
	}
	return o.Remove(ctx, id)
}

// Annotate writes one annotation of a BatchSandbox.
func (o *OpenSandbox) Annotate(ctx context.Context, id, key, value string) error {
	return o.Edit(ctx, id, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}
