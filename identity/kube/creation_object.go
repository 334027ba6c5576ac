package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samepod/samepod/creation"
	"github.com/samepod/samepod/identity"
)

// creationPod takes from a Pod what the SLI needs.
func creationPod(p *corev1.Pod) creation.Pod {
	f := creation.Pod{
		NamespacedName: identity.NamespacedName{Namespace: p.Namespace, Name: p.Name},
		UID:            identity.UID(p.UID),
		Node:           p.Spec.NodeName,
		HostNetwork:    p.Spec.HostNetwork,
		Mirror:         p.Annotations[corev1.MirrorPodAnnotationKey] != "",
		Terminal:       p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Reason:         p.Status.Reason,
	}
	if p.Spec.RuntimeClassName != nil {
		f.RuntimeClass = *p.Spec.RuntimeClassName
	}
	if owner := metav1.GetControllerOf(p); owner != nil {
		f.Owner = string(owner.UID)
	}
	if p.DeletionTimestamp != nil {
		f.Deleted = p.DeletionTimestamp.Time
		if p.DeletionGracePeriodSeconds != nil {
			f.Deleted = f.Deleted.Add(-time.Duration(*p.DeletionGracePeriodSeconds) * time.Second)
		}
	}
	if p.Status.StartTime != nil {
		f.Acknowledged = p.Status.StartTime.Time
	}
	for _, c := range p.Status.Conditions {
		switch c.Type {
		case corev1.PodScheduled:
			f.Scheduled = condition(c.Status, c.LastTransitionTime)
		case corev1.PodReadyToStartContainers:
			f.Sandbox = condition(c.Status, c.LastTransitionTime)
		default:
		}
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			addContainer(&f, c)
		}
	}
	if ip, err := identity.ParseAddr(p.Status.PodIP); err == nil {
		f.IP = ip
	}
	return f
}

func condition(status corev1.ConditionStatus, since metav1.Time) creation.Condition {
	c := creation.Condition{Since: since.Time}
	switch status {
	case corev1.ConditionTrue:
		c.Status = creation.True
	case corev1.ConditionFalse:
		c.Status = creation.False
	case corev1.ConditionUnknown:
	}
	return c
}

// addContainer takes a container that was created. One that could not be, and is
// called terminated (StartError), came after the sandbox too.
func addContainer(f *creation.Pod, c corev1.ContainerStatus) {
	var begun []metav1.Time
	for _, s := range []corev1.ContainerState{c.LastTerminationState, c.State} {
		if s.Running != nil {
			begun = append(begun, s.Running.StartedAt)
		}
		if s.Terminated != nil && s.Terminated.ContainerID != "" {
			begun = append(begun, s.Terminated.StartedAt)
		}
	}
	if len(begun) == 0 && c.ContainerID == "" {
		return
	}
	f.Container = true
	for _, at := range begun {
		// A container that never ran started at the zero time of Unix.
		if at.Unix() > 0 && (f.Begun.IsZero() || at.Time.Before(f.Begun)) {
			f.Begun = at.Time
		}
	}
}

// creationEvent takes from an Event what the SLI needs. Events are written in two
// ways: with count and lastTimestamp, and with a series.
func creationEvent(e *corev1.Event) creation.Event {
	f := creation.Event{
		UID: string(e.UID), Pod: identity.UID(e.InvolvedObject.UID), Reason: e.Reason, Message: e.Message, Count: int(e.Count),
		At: latest(e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time),
	}
	if e.Series != nil {
		f.Count, f.At = int(e.Series.Count), latest(f.At, e.Series.LastObservedTime.Time)
	}
	if f.At.IsZero() {
		f.At = e.CreationTimestamp.Time
	}
	return f
}

func latest(times ...time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// creationNode takes from a Node what the SLI needs. Unknown is what the node
// controller says of a node that is silent: it is not ready.
func creationNode(n *corev1.Node, label string) creation.Node {
	f := creation.Node{Name: n.Name, Version: n.Status.NodeInfo.ContainerRuntimeVersion}
	if label != "" {
		f.Version = n.Labels[label]
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			f.Ready = condition(c.Status, c.LastTransitionTime)
			if c.Status == corev1.ConditionUnknown {
				f.Ready.Status = creation.False
			}
		}
	}
	return f
}

// trimCreation drops what the SLI does not read, before it is kept: most of a Pod is
// its spec and who has managed which field.
func trimCreation(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		o.ManagedFields = nil
		o.Spec = corev1.PodSpec{NodeName: o.Spec.NodeName, RuntimeClassName: o.Spec.RuntimeClassName, HostNetwork: o.Spec.HostNetwork}
		mirror, is := o.Annotations[corev1.MirrorPodAnnotationKey]
		o.Annotations = nil
		if is {
			o.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: mirror}
		}
	case *corev1.Event:
		o.ManagedFields = nil
	case *corev1.Node:
		o.ManagedFields, o.Annotations, o.Spec = nil, nil, corev1.NodeSpec{}
		o.Status = corev1.NodeStatus{Conditions: o.Status.Conditions, NodeInfo: o.Status.NodeInfo}
	}
	return o, nil
}
