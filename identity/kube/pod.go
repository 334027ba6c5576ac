package kube

import (
	"context"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/samepod/samepod/identity"
)

// podClient makes a client of Pods, which come as protobuf: it is smaller than JSON, and
// faster to read.
func podClient(config *rest.Config) (*corev1client.CoreV1Client, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return corev1client.NewForConfig(config)
}

// podsIn are the Pods of one namespace, or of all.
func podsIn(config *rest.Config, namespace string) (kind, error) {
	client, err := podClient(config)
	if err != nil {
		return kind{}, err
	}
	pods := client.Pods(namespace)
	return kind{
		name: "Pod",
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, options)
		},
		watch: pods.Watch,
		is: func(object any) bool {
			pod, ok := object.(*corev1.Pod)
			return ok && pod != nil
		},
		trim: trim,
	}, nil
}

// podDecoder never refuses a Pod: what cannot be understood of it makes it
// unverifiable, and what can is held.
func podDecoder(keep identity.Keep, log *slog.Logger) func(metav1.Object) identity.Pod {
	return func(o metav1.Object) identity.Pod {
		p, err := object(o.(*corev1.Pod)).Pod(keep)
		if err != nil {
			log.Warn("a Pod cannot be understood; requests for it are denied", "pod", p.String(), "err", err)
		}
		return p
	}
}

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
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		o.Owner = identity.Owner{Kind: owner.Kind + "." + group, Name: owner.Name, UID: identity.UID(owner.UID)}
	}
	if len(p.Spec.Containers) > 0 {
		for _, c := range p.Status.ContainerStatuses {
			if c.Name == p.Spec.Containers[0].Name {
				o.Container = c.ContainerID
			}
		}
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
			OwnerReferences: p.OwnerReferences,
		},
		Spec: corev1.PodSpec{HostNetwork: p.Spec.HostNetwork, Containers: firstContainer(p.Spec.Containers)},
		Status: corev1.PodStatus{
			Phase: p.Status.Phase, Conditions: p.Status.Conditions, ContainerStatuses: p.Status.ContainerStatuses,
			PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs, HostIP: p.Status.HostIP, HostIPs: p.Status.HostIPs,
		},
	}, nil
}

// firstContainer keeps the name of the first container: whose id is asked for.
func firstContainer(all []corev1.Container) []corev1.Container {
	if len(all) == 0 {
		return nil
	}
	return []corev1.Container{{Name: all[0].Name}}
}
