package lab

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// What every controller does with Pods that are its own.

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func mergePatch(ctx context.Context, objects dynamic.ResourceInterface, name string, patch map[string]any, subresources ...string) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{}, subresources...)
	return err
}

// createOwned creates a Pod whose controller is owner, on the node.
func (n *Node) createOwned(ctx context.Context, owner *unstructured.Unstructured, pod *corev1.Pod, labels map[string]string) (*corev1.Pod, error) {
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, labels)
	pod.Spec.NodeName = "node-1"
	return n.Kube.Client.CoreV1().Pods(n.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// owned are the Pods whose controller has this uid.
func (n *Node) owned(ctx context.Context, uid types.UID) ([]*corev1.Pod, error) {
	all, err := n.Kube.Client.CoreV1().Pods(n.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for i := range all.Items {
		if ref := metav1.GetControllerOf(&all.Items[i]); ref != nil && ref.UID == uid {
			pods = append(pods, &all.Items[i])
		}
	}
	return pods, nil
}

// collect deletes every Pod whose controller is of this kind and is gone.
func (n *Node) collect(ctx context.Context, owners dynamic.ResourceInterface, kind string) error {
	all, err := n.Kube.Client.CoreV1().Pods(n.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range all.Items {
		ref := metav1.GetControllerOf(&pod)
		if ref == nil || ref.Kind != kind {
			continue
		}
		owner, err := owners.Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil && owner.GetUID() == ref.UID {
			continue
		}
		if err := n.Delete(ctx, pod.Name, false); err != nil {
			return err
		}
	}
	return nil
}
