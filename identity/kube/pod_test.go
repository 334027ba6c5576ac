package kube

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samepod/samepod/identity"
)

func TestObject(t *testing.T) {
	now := metav1.Now()
	full := pod("a", "A", "10.0.0.1", "5")
	full.Labels = map[string]string{"app": "sandbox"}
	full.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"}
	full.DeletionTimestamp = &now
	full.Spec = corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	full.Status.PodIPs = append(full.Status.PodIPs, corev1.PodIP{IP: "fd00::1"})
	full.Status.HostIP, full.Status.HostIPs = "192.0.2.1", []corev1.HostIP{{IP: "192.0.2.1"}, {IP: "fd00::2"}}
	full.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: "n", UID: "N"},
		{APIVersion: "sandbox.opensandbox.io/v1alpha1", Kind: "BatchSandbox", Name: "s", UID: "S", Controller: new(true)},
	}
	full.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "d", ContainerID: "x://d"}, {Name: "c", ContainerID: "x://c"}}
	full.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	trimmed, err := trim(&full)
	if err != nil {
		t.Fatal(err)
	}
	want := identity.Object{
		Namespace: "ns", Name: "a", UID: "A", Labels: full.Labels, Annotations: full.Annotations, DeletionTimestamp: true, HostNetwork: true,
		Phase: "Running", PodIP: "10.0.0.1", PodIPs: []string{"10.0.0.1", "fd00::1"}, HostIP: "192.0.2.1", HostIPs: []string{"192.0.2.1", "fd00::2"}, Ready: true,
		Owner: identity.Owner{Kind: "BatchSandbox.sandbox.opensandbox.io", Name: "s", UID: "S"}, Container: "x://c",
	}
	for rule, p := range map[string]*corev1.Pod{"whole": &full, "trimmed": trimmed.(*corev1.Pod)} {
		if got := object(p); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %+v\nwant %+v", rule, got, want)
		}
	}
	if got := trimmed.(*corev1.Pod); got.Spec.Containers[0].Image != "" || got.ResourceVersion != "5" {
		t.Errorf("trimmed to %+v", got)
	}
	if got, err := trim("tombstone"); got != "tombstone" || err != nil {
		t.Errorf("what is no Pod is trimmed to %v, %v", got, err)
	}
}
