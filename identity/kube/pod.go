package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samepod/samepod/identity"
)

// object takes from a Pod what the index needs.
func object(p *corev1.Pod) identity.Object {
	o := identity.Object{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		Labels: p.Labels, Annotations: p.Annotations,
		DeletionTimestamp: p.DeletionTimestamp != nil,
		HostNetwork:       p.Spec.HostNetwork,
		Phase:             string(p.Status.Phase),
		PodIP:             p.Status.PodIP,
		HostIP:            p.Status.HostIP,
	}
	for _, ip := range p.Status.PodIPs {
		o.PodIPs = append(o.PodIPs, ip.IP)
	}
	for _, ip := range p.Status.HostIPs {
		o.HostIPs = append(o.HostIPs, ip.IP)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			o.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return o
}

// trim drops what object does not read, so that the first list of a large cluster
// is not held whole while it arrives.
func trim(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
			Labels: p.Labels, Annotations: p.Annotations, DeletionTimestamp: p.DeletionTimestamp,
		},
		Spec: corev1.PodSpec{HostNetwork: p.Spec.HostNetwork},
		Status: corev1.PodStatus{
			Phase: p.Status.Phase, Conditions: p.Status.Conditions,
			PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs, HostIP: p.Status.HostIP, HostIPs: p.Status.HostIPs,
		},
	}, nil
}
