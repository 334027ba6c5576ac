package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Reconcile is one pass of the BatchSandbox controller: it looks, creates missing Pods,
// and publishes endpoints and then status of what it saw. While a sandbox is Pausing it
// does nothing; while it is Paused it creates no Pod; and nothing calls it when a Pod of
// a pool dies, since a pool's Pods are not the BatchSandbox's own.
//
// A generation that it has not seen, of a sandbox whose spec says pause, true or false,
// is a pause or a resume to it, whatever has changed: the pass only acknowledges it. So
// a sandbox that was resumed once is Resuming for a moment after each renewal.
func (o *OpenSandbox) Reconcile(ctx context.Context, id string) error {
	seen, err := o.Look(ctx, id)
	if err != nil {
		return err
	}
	if seen.phase() == "Pausing" {
		return nil
	}
	if phase := seen.asksFor(); phase != "" {
		return o.ack(ctx, id, phase)
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

// asksFor is the phase that a generation which is new to the controller leads to.
func (s Seen) asksFor() (phase string) {
	observed, _, _ := unstructured.NestedInt64(s.sandbox.Object, "status", "pauseObservedGeneration")
	pause, given, _ := unstructured.NestedBool(s.sandbox.Object, "spec", "pause")
	switch {
	case !given || s.sandbox.GetGeneration() == observed || s.phase() == "Resuming":
		return ""
	case pause:
		return "Pausing"
	default:
		return "Resuming"
	}
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
