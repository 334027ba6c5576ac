package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// Reconcile is one pass of the BatchSandbox controller: it looks, creates missing Pods,
// and publishes endpoints and then status of what it saw. While a sandbox is Pausing it
// does nothing; while it is Paused it creates no Pod; and nothing calls it when a Pod of
// a pool dies, since a pool's Pods are not the BatchSandbox's own.
func (o *OpenSandbox) Reconcile(ctx context.Context, id string) error {
	seen, err := o.Look(ctx, id)
	if err != nil {
		return err
	}
	if seen.phase() == "Pausing" {
		return nil
	}
	if poolOf(seen.sandbox) == "" && seen.phase() != "Paused" {
		if err := o.scale(ctx, seen); err != nil {
			return err
		}
	}
	if err := o.PublishEndpoints(ctx, seen); err != nil {
		return err
	}
	return o.publishStatus(ctx, seen)
}

// Seen is what the controller has seen of a sandbox, and what it publishes, however
// late it comes to it.
type Seen struct {
	sandbox *unstructured.Unstructured
	pods    []*corev1.Pod
}

func (s Seen) phase() string {
	phase, _, _ := unstructured.NestedString(s.sandbox.Object, "status", "phase")
	return phase
}

// Look reads a BatchSandbox and the Pods that its controller takes for its own: by
// the controller's uid, or, pooled, by the names in the annotations.
func (o *OpenSandbox) Look(ctx context.Context, id string) (Seen, error) {
	bs, err := o.Sandbox(ctx, id)
	if err != nil {
		return Seen{}, err
	}
	if poolOf(bs) != "" {
		pods, err := o.allocated(ctx, bs)
		return Seen{bs, pods}, err
	}
	pods, err := o.owned(ctx, bs.GetUID())
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return podIndex(a) - podIndex(b) })
	return Seen{bs, pods}, err
}

// PublishEndpoints is the first of the two writes of [OpenSandbox.Reconcile]; the status
// is as it was. It writes the address of every Pod that was seen and has a node, whatever
// state it is in; a Pod without an address is "". It is a patch by name, guarded by no
// uid and no resourceVersion: it also hits a sandbox of that name that was created since.
// An empty list is not written where there was none.
func (o *OpenSandbox) PublishEndpoints(ctx context.Context, seen Seen) error {
	ips := make([]string, len(seen.pods))
	for i, pod := range seen.pods {
		ips[i] = pod.Status.PodIP
	}
	text, err := json.Marshal(ips)
	if err != nil {
		return err
	}
	was, had := seen.sandbox.GetAnnotations()[annotationEndpoints]
	if was == string(text) || !had && len(ips) == 0 {
		return nil
	}
	return o.Annotate(ctx, seen.sandbox.GetName(), annotationEndpoints, string(text))
}

func podIndex(pod *corev1.Pod) int {
	index, _ := strconv.Atoi(pod.Labels[labelPodIndex]) // the controller writes it
	return index
}

func (o *OpenSandbox) scale(ctx context.Context, seen Seen) error {
	bs := seen.sandbox
	replicas, _, _ := unstructured.NestedInt64(bs.Object, "spec", "replicas")
	for index := range int(replicas) {
		if slices.ContainsFunc(seen.pods, func(p *corev1.Pod) bool { return podIndex(p) == index }) {
			continue
		}
		name := fmt.Sprintf("%s-%d", bs.GetName(), index)
		labels := map[string]string{labelSandboxName: bs.GetName(), labelPodIndex: strconv.Itoa(index)}
		if _, err := o.createFromTemplate(ctx, bs, metav1.ObjectMeta{Name: name}, labels); err != nil {
			return err
		}
	}
	return nil
}

// createFromTemplate creates a Pod of owner's spec.template.
func (o *OpenSandbox) createFromTemplate(ctx context.Context, owner *unstructured.Unstructured, meta metav1.ObjectMeta, labels map[string]string) (*corev1.Pod, error) {
	template, _, _ := unstructured.NestedMap(owner.Object, "spec", "template")
	text, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(text, pod); err != nil {
		return nil, err
	}
	pod.Name, pod.GenerateName = meta.Name, meta.GenerateName
	return o.createOwned(ctx, owner, pod, labels)
}

// Annotate writes one annotation of a BatchSandbox.
func (o *OpenSandbox) Annotate(ctx context.Context, id, key, value string) error {
	return o.Edit(ctx, id, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

// publishStatus counts Pods. pauseObservedGeneration follows every generation, so also
// one in which nothing but, say, spec.expireTime changed.
func (o *OpenSandbox) publishStatus(ctx context.Context, seen Seen) error {
	bs, pods, phase, ready := seen.sandbox, seen.pods, seen.phase(), 0
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && isReady(pod) {
			ready++
		}
	}
	if phase == "" && len(pods) == 0 {
		return nil // the first status is of a sandbox that has something
	}
	status := map[string]any{"observedGeneration": bs.GetGeneration(), "replicas": len(pods), "allocated": len(pods), "ready": ready}
	if phase != "Resuming" {
		status["pauseObservedGeneration"] = bs.GetGeneration()
	}
	switch {
	case phase == "Paused" || phase == "Failed":
	case ready > 0:
		status["phase"] = "Succeed" // which is: runs
	case phase != "Resuming":
		status["phase"] = "Pending"
	}
	return o.writeSandboxStatus(ctx, bs.GetName(), status)
}

func (o *OpenSandbox) writeSandboxStatus(ctx context.Context, id string, status map[string]any) error {
	return mergePatch(ctx, o.sandboxes, id, map[string]any{"status": status}, "status")
}
