package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node does to the Pods of a namespace what a kubelet and its CNI do, one step at a
// time: processes start and end, and statuses are written, when a test says so.
type Node struct {
	Kube      *Kube
	Namespace string
	Port      uint16 // that processes listen on

	lab       *Lab
	processes map[types.UID]*Pod
}

// NewNode makes the node of a namespace whose Pods listen on port.
func (l *Lab) NewNode(kube *Kube, namespace string, port uint16) *Node {
	return &Node{Kube: kube, Namespace: namespace, Port: port, lab: l, processes: map[types.UID]*Pod{}}
}

// Get reads a Pod.
func (n *Node) Get(ctx context.Context, pod string) (*corev1.Pod, error) {
	return n.Kube.Client.CoreV1().Pods(n.Namespace).Get(ctx, pod, metav1.GetOptions{})
}

// Run starts a Pod's process on an address, and writes that the Pod runs, is ready
// and has it.
func (n *Node) Run(ctx context.Context, pod string, addr netip.Addr) (*Pod, error) {
	object, err := n.Get(ctx, pod)
	if err != nil {
		return nil, err
	}
	process, err := n.start(ctx, object, addr)
	if err != nil {
		return nil, err
	}
	return process, n.writeStatus(ctx, pod, running(object, addr))
}

// start waits for the address: a process that is being started beside us holds our
// sockets for a moment.
func (n *Node) start(ctx context.Context, object *corev1.Pod, addr netip.Addr) (process *Pod, err error) {
	at := netip.AddrPortFrom(addr, n.Port)
	waitErr := wait(ctx, nil, fmt.Sprintf("%v is free", at), 10*time.Second, func() bool {
		process, err = n.lab.StartPodOn(object.Name, string(object.UID), at)
		return err == nil
	})
	if waitErr != nil {
		return nil, fmt.Errorf("%w: %w", waitErr, err)
	}
	n.processes[object.UID] = process
	return process, nil
}

// Process is what [Node.Run] started for the Pod of this uid, nil if nothing runs.
func (n *Node) Process(uid types.UID) *Pod { return n.processes[uid] }

// Exit ends a Pod's process and writes the terminal phase. As with a real kubelet
// the status keeps the address, which somebody else may have from now on.
func (n *Node) Exit(ctx context.Context, pod string, phase corev1.PodPhase) error {
	object, err := n.Get(ctx, pod)
	if err != nil {
		return err
	}
	n.Vanish(object.UID)
	return n.writeStatus(ctx, pod, map[string]any{"phase": phase, "conditions": []any{readiness(false)}})
}

// Vanish ends a Pod's process, and nothing is written: the API does not know yet.
func (n *Node) Vanish(uid types.UID) {
	if process := n.processes[uid]; process != nil {
		process.Stop()
		delete(n.processes, uid)
	}
}

// Unready writes that a Pod is no longer ready; its process goes on.
func (n *Node) Unready(ctx context.Context, pod string) error {
	return n.writeStatus(ctx, pod, map[string]any{"conditions": []any{readiness(false)}})
}

// RestartContainer writes that the Pod's container has ended and runs again: uid and
// address stay, the container id is another. The process is the same, so that its
// record goes on.
func (n *Node) RestartContainer(ctx context.Context, pod string) error {
	object, err := n.Get(ctx, pod)
	if err != nil {
		return err
	}
	restarts := int32(1)
	if was := object.Status.ContainerStatuses; len(was) > 0 {
		restarts += was[0].RestartCount
	}
	return n.writeStatus(ctx, pod, map[string]any{"containerStatuses": []any{container(object, restarts)}})
}

// Delete deletes a Pod and ends its process; graceful leaves the object terminating
// and the process running, as during a grace period.
func (n *Node) Delete(ctx context.Context, pod string, graceful bool) error {
	object, err := n.Get(ctx, pod)
	if err != nil {
		return err
	}
	if !graceful {
		n.Vanish(object.UID)
	}
	return n.Kube.DeletePod(ctx, n.Namespace, pod, graceful)
}

func (n *Node) writeStatus(ctx context.Context, pod string, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = n.Kube.Client.CoreV1().Pods(n.Namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// patchPod applies a JSON merge patch to a Pod.
func (n *Node) patchPod(ctx context.Context, pod string, patch map[string]any) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = n.Kube.Client.CoreV1().Pods(n.Namespace).Patch(ctx, pod, types.MergePatchType, text, metav1.PatchOptions{})
	return err
}

func running(object *corev1.Pod, addr netip.Addr) map[string]any {
	return map[string]any{
		"phase": corev1.PodRunning, "podIP": addr, "podIPs": []any{map[string]any{"ip": addr}},
		"conditions": []any{readiness(true)}, "containerStatuses": []any{container(object, 0)},
	}
}

func readiness(ready bool) map[string]any {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return map[string]any{"type": corev1.PodReady, "status": status}
}

// container is the status of a Pod's first container, with an id of its own.
func container(object *corev1.Pod, restarts int32) map[string]any {
	id := make([]byte, 32)
	_, _ = rand.Read(id) // it never fails
	spec := object.Spec.Containers[0]
	return map[string]any{
		"name": spec.Name, "image": spec.Image, "imageID": "", "ready": true, "started": true, "restartCount": restarts,
		"containerID": "containerd://" + hex.EncodeToString(id), "state": map[string]any{"running": map[string]any{}},
	}
}
