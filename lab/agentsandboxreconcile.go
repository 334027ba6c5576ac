package lab

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Reconcile is one pass of the Sandbox controller: the Pod is created or deleted as
// spec says, and status published of what there was. Past spec.shutdownTime it deletes
// the Pod, and the Sandbox too with shutdownPolicy Delete. A Pod that has ended is not
// created again.
func (a *AgentSandbox) Reconcile(ctx context.Context, name string) error {
	sandbox, err := a.Sandbox(ctx, name)
	if err != nil {
		return err
	}
	pods, err := a.owned(ctx, sandbox.GetUID())
	if err != nil {
		return err
	}
	if expired(sandbox) {
		return a.expire(ctx, sandbox, pods)
	}
	if len(pods) > 1 {
		return a.publish(ctx, sandbox, nil, condition("Ready", false, "MultiplePods"))
	}
	var pod *corev1.Pod
	if len(pods) == 1 {
		pod = pods[0]
	}
	switch suspended := a.suspended(sandbox); {
	case suspended && pod == nil:
		err = a.annotate(ctx, name, nil)
	case suspended && pod.DeletionTimestamp == nil:
		err = a.Delete(ctx, pod.Name, true)
	case !suspended && pod == nil:
		pod, err = a.createPod(ctx, sandbox)
	}
	if err != nil {
		return err
	}
	return a.publish(ctx, sandbox, pod, a.conditions(sandbox, pod)...)
}

func (a *AgentSandbox) createPod(ctx context.Context, sandbox *unstructured.Unstructured) (*corev1.Pod, error) {
	labels := map[string]string{labelSandboxNameHash: nameHash(sandbox.GetName())}
	for _, key := range []string{labelWarmPool, labelClaimUID} {
		if value, ok := sandbox.GetLabels()[key]; ok {
			labels[key] = value
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: sandbox.GetName()}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sandbox", Image: "sandbox:v1"}}}}
	pod, err := a.createOwned(ctx, sandbox, pod, labels)
	if err != nil {
		return nil, err
	}
	return pod, a.annotate(ctx, sandbox.GetName(), pod.Name)
}

func (a *AgentSandbox) annotate(ctx context.Context, name string, pod any) error {
	return a.Edit(ctx, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationPodName: pod}}})
}

func (a *AgentSandbox) expire(ctx context.Context, sandbox *unstructured.Unstructured, pods []*corev1.Pod) error {
	for _, pod := range pods {
		if err := a.Delete(ctx, pod.Name, false); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if policy, _, _ := unstructured.NestedString(sandbox.Object, "spec", "shutdownPolicy"); policy == "Delete" {
		return a.Remove(ctx, sandbox.GetName())
	}
	return a.publish(ctx, sandbox, nil, condition("Ready", false, "SandboxExpired"))
}

func expired(sandbox *unstructured.Unstructured) bool {
	text, _, _ := unstructured.NestedString(sandbox.Object, "spec", "shutdownTime")
	at, err := time.Parse(time.RFC3339, text)
	return err == nil && !time.Now().Before(at)
}

func (a *AgentSandbox) suspended(sandbox *unstructured.Unstructured) bool {
	if a.version == "v1alpha1" {
		replicas, given, _ := unstructured.NestedInt64(sandbox.Object, "spec", "replicas")
		return given && replicas == 0
	}
	mode, _, _ := unstructured.NestedString(sandbox.Object, "spec", "operatingMode")
	return mode == "Suspended"
}

// publish writes the status: all of the Pod's addresses as long as the Pod exists,
// also when it has ended or is terminating.
func (a *AgentSandbox) publish(ctx context.Context, sandbox *unstructured.Unstructured, pod *corev1.Pod, conditions ...any) error {
	status := map[string]any{"podIPs": nil, "nodeName": nil, "conditions": conditions}
	if pod != nil {
		ips := []string{}
		for _, ip := range pod.Status.PodIPs {
			ips = append(ips, ip.IP)
		}
		status["podIPs"], status["nodeName"] = ips, pod.Spec.NodeName
		status["selector"] = labelSandboxNameHash + "=" + nameHash(sandbox.GetName())
	}
	return mergePatch(ctx, a.sandboxes, sandbox.GetName(), map[string]any{"status": status}, "status")
}

// conditions are Suspended, which stays once it is there, Finished, and Ready, which
// does not look at deletion.
func (a *AgentSandbox) conditions(sandbox *unstructured.Unstructured, pod *corev1.Pod) []any {
	if a.suspended(sandbox) {
		if pod == nil {
			return []any{condition("Suspended", true, "PodTerminated"), condition("Ready", false, "SandboxSuspended")}
		}
		return []any{condition("Suspended", false, "PodTerminating"), condition("Ready", false, "SandboxSuspended")}
	}
	all := []any{condition("Suspended", false, "NotSuspended")}
	switch {
	case pod == nil:
		return append(all, condition("Ready", false, "DependenciesNotReady"))
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		reason := "Pod" + string(pod.Status.Phase)
		return append(all, condition("Finished", true, reason), condition("Ready", false, reason))
	case pod.Status.Phase == corev1.PodRunning && isReady(pod) && len(pod.Status.PodIPs) > 0:
		return append(all, condition("Ready", true, "DependenciesReady"))
	default:
		return append(all, condition("Ready", false, "DependenciesNotReady"))
	}
}

func condition(kind string, status bool, reason string) map[string]any {
	text := "False"
	if status {
		text = "True"
	}
	return map[string]any{"type": kind, "status": text, "reason": reason, "message": "", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
}

// nameHash is the 32-bit hash by which Pods are labelled: two sandboxes can share it.
func nameHash(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // it never fails
	return fmt.Sprintf("%08x", h.Sum32())
}
