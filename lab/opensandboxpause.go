package lab

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Pausing and resuming, as OpenSandbox's controller does it, without the
// SandboxSnapshot between the first two steps:
//
//	Edit {"spec": {"pause": true}}   the server
//	AckPause                         phase Pausing; the Pod is there, and may be frozen
//	CompletePause                    Pods deleted, or the pool's given back; phase Paused
//	Edit {"spec": {"pause": false}}  the server
//	AckResume                        phase Resuming, images of the snapshot
//	Reconcile                        the Pod of the same name, another uid
//	Run, Reconcile                   phase Succeed
//
// Everything of it moves status.pauseObservedGeneration, and so does every other
// change of the spec; see [OpenSandbox.Reconcile].

// Pause takes a sandbox from running to Paused.
func (o *OpenSandbox) Pause(ctx context.Context, id string) error {
	if err := o.Edit(ctx, id, map[string]any{"spec": map[string]any{"pause": true}}); err != nil {
		return err
	}
	if err := o.AckPause(ctx, id); err != nil {
		return err
	}
	return o.CompletePause(ctx, id)
}

// Resume takes a sandbox from Paused to Resuming, with its new Pod created: it runs
// after [Node.Run] and [OpenSandbox.Reconcile].
func (o *OpenSandbox) Resume(ctx context.Context, id string) error {
	if err := o.Edit(ctx, id, map[string]any{"spec": map[string]any{"pause": false}}); err != nil {
		return err
	}
	if err := o.AckResume(ctx, id); err != nil {
		return err
	}
	return o.Reconcile(ctx, id)
}

// AckPause writes that the sandbox is Pausing.
func (o *OpenSandbox) AckPause(ctx context.Context, id string) error {
	return o.ack(ctx, id, "Pausing")
}

// CompletePause ends a pause. The Pods of a sandbox of its own are deleted. A pooled
// one is detached: the Pod's labels, annotations and spec become the template, poolRef
// is emptied, alloc-release goes and alloc-status stays; the Pod is the pool's to
// recycle.
func (o *OpenSandbox) CompletePause(ctx context.Context, id string) error {
	seen, err := o.Look(ctx, id)
	if err != nil {
		return err
	}
	if poolOf(seen.sandbox) == "" {
		for _, pod := range seen.pods {
			if err := o.Delete(ctx, pod.Name, false); err != nil {
				return err
			}
		}
		return o.ack(ctx, id, "Paused")
	}
	if len(seen.pods) == 0 {
		return fmt.Errorf("%s: no Pod of the pool is allocated", id)
	}
	source, labels := seen.pods[0], map[string]any{}
	for key, value := range source.Labels {
		if key != labelPoolName && key != labelPoolRevision {
			labels[key] = value
		}
	}
	template := sandboxTemplate(id)
	template["metadata"] = map[string]any{"labels": labels, "annotations": source.Annotations}
	err = o.Edit(ctx, id, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{annotationAllocRelease: nil}, "finalizers": nil},
		"spec":     map[string]any{"poolRef": nil, "template": template},
	})
	if err != nil {
		return err
	}
	return o.ack(ctx, id, "Paused")
}

// AckResume writes that the sandbox is Resuming, and the images of the snapshot into
// its template, each with the generation of the pause in its tag: the one trace of a
// resume that stays.
func (o *OpenSandbox) AckResume(ctx context.Context, id string) error {
	bs, err := o.Sandbox(ctx, id)
	if err != nil {
		return err
	}
	paused, _, _ := unstructured.NestedInt64(bs.Object, "status", "pauseObservedGeneration")
	if err := o.ack(ctx, id, "Resuming"); err != nil {
		return err
	}
	containers, _, _ := unstructured.NestedSlice(bs.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		container := c.(map[string]any)
		container["image"] = fmt.Sprintf("registry.example/snapshots/%s-%s:snap-gen%d", id, container["name"], paused)
	}
	return o.Edit(ctx, id, map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers}}}})
}

// ack writes a phase, and that the generation was seen.
func (o *OpenSandbox) ack(ctx context.Context, id, phase string) error {
	bs, err := o.Sandbox(ctx, id)
	if err != nil {
		return err
	}
	return o.writeSandboxStatus(ctx, id, map[string]any{"phase": phase, "pauseObservedGeneration": bs.GetGeneration()})
}
