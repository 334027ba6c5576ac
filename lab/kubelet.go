package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// Kubelet writes what a kubelet writes of Pods whose sandboxes it makes, and of those
// that it cannot make: the conditions of testdata/kubelet-1.35.4-podstatus.json in
// package creation, and Events, through client-go's recorder, which aggregates and
// drops them as a kubelet's does. It makes nothing.
type Kubelet struct {
	Node string

	kube     *Kube
	events   record.EventBroadcaster
	recorder record.EventRecorder
}

// BootEOF is the Event of a runsc that dies at boot, but for the sandbox's id.
const BootEOF = `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox "%064x": failed to create containerd task: failed to create shim task: OCI runtime create failed: creating container: cannot create sandbox: cannot read client sync file: waiting for sandbox to start: EOF`

// StartKubelet registers a Node, ready since long ago, and begins to write Events.
func (k *Kube) StartKubelet(ctx context.Context, node string) (*Kubelet, error) {
	l := &Kubelet{Node: node, kube: k, events: record.NewBroadcaster()}
	_, err := k.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	l.events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: k.Client.CoreV1().Events("")})
	l.recorder = l.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: node})
	return l, l.SetReady(ctx, corev1.ConditionTrue, time.Now().Add(-time.Hour))
}

// Stop ends the writing of Events.
func (l *Kubelet) Stop() { l.events.Shutdown() }

// SetReady writes the Node's condition.
func (l *Kubelet) SetReady(ctx context.Context, status corev1.ConditionStatus, since time.Time) error {
	patch, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(since)}},
		NodeInfo:   corev1.NodeSystemInfo{ContainerRuntimeVersion: "containerd://2.2.2"},
	}})
	if err != nil {
		return err
	}
	_, err = l.kube.Client.CoreV1().Nodes().Patch(ctx, l.Node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// Bind creates a Pod and binds it to the node as a scheduler does; the API server
// writes PodScheduled.
func (l *Kubelet) Bind(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pods := l.kube.Client.CoreV1().Pods(namespace)
	p, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "sandbox"}}, RestartPolicy: corev1.RestartPolicyNever},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return p, pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: l.Node}}, metav1.CreateOptions{})
}

// Acknowledge writes what a kubelet writes first: no sandbox, and a container that
// waits.
func (l *Kubelet) Acknowledge(ctx context.Context, p *corev1.Pod) error {
	now := metav1.Now()
	return l.write(ctx, p, corev1.PodStatus{
		Phase: corev1.PodPending, StartTime: &now, Conditions: conditions(corev1.ConditionFalse, now),
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: "sandbox", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}},
	})
}

// Created says that the sandbox is there, with its address, and runs the container.
func (l *Kubelet) Created(ctx context.Context, p *corev1.Pod, ip netip.Addr) error {
	now := metav1.Now()
	return l.write(ctx, p, corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: conditions(corev1.ConditionTrue, now), PodIP: ip.String(), PodIPs: []corev1.PodIP{{IP: ip.String()}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: "sandbox", ContainerID: "containerd://" + string(p.UID), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}},
	})
}

// Completed says that the container has run and the sandbox is gone, in one update.
func (l *Kubelet) Completed(ctx context.Context, p *corev1.Pod) error {
	now := metav1.Now()
	return l.write(ctx, p, corev1.PodStatus{
		Phase: corev1.PodSucceeded, Conditions: conditions(corev1.ConditionFalse, now),
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: "sandbox", ContainerID: "containerd://" + string(p.UID), State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", ContainerID: "containerd://" + string(p.UID), StartedAt: now, FinishedAt: now}}}},
	})
}

// Refuse says that the Pod was not admitted.
func (l *Kubelet) Refuse(ctx context.Context, p *corev1.Pod, reason string) error {
	return l.write(ctx, p, corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: "Pod was rejected"})
}

func conditions(sandbox corev1.ConditionStatus, now metav1.Time) []corev1.PodCondition {
	return []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: sandbox, LastTransitionTime: now},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: corev1.PodReady, Status: sandbox, LastTransitionTime: now},
		{Type: corev1.ContainersReady, Status: sandbox, LastTransitionTime: now},
	}
}

func (l *Kubelet) write(ctx context.Context, p *corev1.Pod, status corev1.PodStatus) error {
	text, err := json.Marshal(status)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	if ips, ok := fields["podIPs"].([]any); ok { // a new address takes the place of the old one
		fields["podIPs"] = append([]any{map[string]string{"$patch": "replace"}}, ips...)
	}
	patch, err := json.Marshal(map[string]any{"status": fields})
	if err != nil {
		return err
	}
	_, err = l.kube.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// Fail writes the n-th failure of a sandbox; each has another id, so that no two
// messages are the same.
func (l *Kubelet) Fail(p *corev1.Pod, n int) {
	l.recorder.Eventf(p, corev1.EventTypeWarning, "FailedCreatePodSandBox", BootEOF, n)
}

// Warn writes any other Event.
func (l *Kubelet) Warn(p *corev1.Pod, reason string) {
	l.recorder.Event(p, corev1.EventTypeWarning, reason, fmt.Sprintf("%s of %s", reason, p.Name))
}
