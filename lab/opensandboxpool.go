package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Recycle says what a Pool does with a Pod that comes back.
type Recycle string

// Values of spec.recycleStrategy.type.
const (
	RecycleDelete  Recycle = "Delete"  // the Pod is deleted
	RecycleRestart Recycle = "Restart" // its containers are restarted: the same uid and address
	RecycleNoop    Recycle = "Noop"    // nothing: the same uid, address and containers
)

// CreatePool writes a Pool.
func (o *OpenSandbox) CreatePool(ctx context.Context, name string, recycle Recycle) error {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"template":        map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "sandbox", "image": "sandbox:v1"}}}},
		"capacitySpec":    map[string]any{"bufferMin": int64(0), "bufferMax": int64(1), "poolMin": int64(0), "poolMax": int64(10)},
		"recycleStrategy": map[string]any{"type": string(recycle)},
	}}}
	object.SetGroupVersionKind(opensandboxVersion.WithKind("Pool"))
	object.SetName(name)
	_, err := o.pools.Create(ctx, object, metav1.CreateOptions{})
	return err
}

// WarmPod creates a Pod of a pool, and runs it: it is Ready before it is anybody's.
// Its name is the Pool's and a random end; nothing of it will ever say whose it is.
func (o *OpenSandbox) WarmPod(ctx context.Context, pool string, addr netip.Addr) (*Pod, error) {
	owner, err := o.pools.Get(ctx, pool, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	labels := map[string]string{labelPoolName: pool, labelPoolRevision: "1"}
	pod, err := o.createFromTemplate(ctx, owner, metav1.ObjectMeta{GenerateName: pool + "-"}, labels)
	if err != nil {
		return nil, err
	}
	return o.Run(ctx, pod.Name, addr)
}

// StartPooled takes a pooled sandbox to where it serves from these Pods.
func (o *OpenSandbox) StartPooled(ctx context.Context, id, pool string, pods ...*Pod) error {
	if _, err := o.Create(ctx, id, map[string]any{"poolRef": pool, "replicas": int64(len(pods))}); err != nil {
		return err
	}
	if err := o.Allocate(ctx, id, podNames(pods)...); err != nil {
		return err
	}
	return o.Reconcile(ctx, id)
}

func podNames(pods []*Pod) []string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

// Allocate is the Pool controller's write of alloc-status, with its finalizer: all
// Pods, by name, that were ever given to the sandbox.
func (o *OpenSandbox) Allocate(ctx context.Context, id string, pods ...string) error {
	return o.Edit(ctx, id, map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{annotationAllocStatus: podsJSON(pods)}, "finalizers": []any{finalizerPool},
	}})
}

// AllocateNewer is [OpenSandbox.Allocate] as newer controllers write it, with the pool
// and a generation.
func (o *OpenSandbox) AllocateNewer(ctx context.Context, id, pool string, generation int64, pods ...string) error {
	text, err := json.Marshal(map[string]any{"pods": pods, "poolRef": pool, "generation": generation})
	if err != nil {
		return err
	}
	return o.Annotate(ctx, id, annotationAllocStatus, string(text))
}

// RequestRelease is the BatchSandbox controller's write of alloc-release: these Pods
// are no longer wanted. They stay in alloc-status.
func (o *OpenSandbox) RequestRelease(ctx context.Context, id string, pods ...string) error {
	return o.Annotate(ctx, id, annotationAllocRelease, podsJSON(pods))
}

// RecyclePod is what the Pool controller does with a Pod that a sandbox gives back,
// before it confirms: see [Recycle]. The restart record names the sandbox that the Pod
// was taken from, and stays on the Pod when somebody else has it.
func (o *OpenSandbox) RecyclePod(ctx context.Context, id, pod string) error {
	object, err := o.Get(ctx, pod)
	if err != nil {
		return err
	}
	pool, err := o.pools.Get(ctx, object.Labels[labelPoolName], metav1.GetOptions{})
	if err != nil {
		return err
	}
	switch kind, _, _ := unstructured.NestedString(pool.Object, "spec", "recycleStrategy", "type"); Recycle(kind) {
	case RecycleNoop:
		return nil
	case RecycleRestart:
		if err := o.recordRestart(ctx, id, object); err != nil {
			return err
		}
		return o.RestartContainer(ctx, pod)
	case RecycleDelete:
		return o.Delete(ctx, pod, false)
	default:
		return fmt.Errorf("recycleStrategy %q; allowed: Delete, Restart, Noop", kind)
	}
}

func (o *OpenSandbox) recordRestart(ctx context.Context, id string, pod *corev1.Pod) error {
	containers := map[string]string{}
	for _, c := range pod.Status.ContainerStatuses {
		containers[c.Name] = c.ContainerID
	}
	now := time.Now().UTC().Format(time.RFC3339)
	record, err := json.Marshal(map[string]any{"id": id, "startTime": now, "containers": containers, "lastRetryTime": now, "retryCount": 1})
	if err != nil {
		return err
	}
	return o.patchPod(ctx, pod.Name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationRestartRecord: string(record)}}})
}

// ConfirmRelease is the Pool controller's write of alloc-released: these Pods are
// recycled, and may be given away. On a sandbox that is being deleted it takes the
// finalizer, so that the object goes.
func (o *OpenSandbox) ConfirmRelease(ctx context.Context, id string, pods ...string) error {
	bs, err := o.Sandbox(ctx, id)
	if err != nil {
		return err
	}
	meta := map[string]any{"annotations": map[string]any{annotationAllocReleased: podsJSON(pods)}}
	if bs.GetDeletionTimestamp() != nil {
		meta["finalizers"] = nil
	}
	return o.Edit(ctx, id, map[string]any{"metadata": meta})
}

// allocated are the Pods that the controller takes for a pooled sandbox's: those of
// alloc-status without those of alloc-release, in that order, that exist.
func (o *OpenSandbox) allocated(ctx context.Context, bs *unstructured.Unstructured) ([]*corev1.Pod, error) {
	release := podsOf(bs, annotationAllocRelease)
	var pods []*corev1.Pod
	for _, name := range podsOf(bs, annotationAllocStatus) {
		if slices.Contains(release, name) {
			continue
		}
		pod, err := o.Get(ctx, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

func poolOf(bs *unstructured.Unstructured) string {
	pool, _, _ := unstructured.NestedString(bs.Object, "spec", "poolRef")
	return pool
}

func podsJSON(pods []string) string {
	text, _ := json.Marshal(map[string][]string{"pods": pods}) // strings
	return string(text)
}

// podsOf reads what podsJSON wrote.
func podsOf(bs *unstructured.Unstructured, annotation string) []string {
	var list struct{ Pods []string }
	_ = json.Unmarshal([]byte(bs.GetAnnotations()[annotation]), &list) // absent is none
	return list.Pods
}
