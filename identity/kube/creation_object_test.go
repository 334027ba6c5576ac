package kube

import (
	"encoding/json"
	"net/netip"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samepod/samepod/creation"
	"github.com/samepod/samepod/identity"
)

func recorded(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t.Local()
}

// TestCreationPod reads what a kubelet 1.35.4 has written.
func TestCreationPod(t *testing.T) {
	var list corev1.PodList
	recorded(t, "kubelet-1.35.4-after-sandbox-kill.json", &list)
	got := creationPod(&list.Items[0])
	want := creation.Pod{
		NamespacedName: identity.NamespacedName{Namespace: "default", Name: "sandbox-a-node-a"}, UID: "4a48fd8be798677bdec05d7be8ed00a4", Node: "node-a",
		Scheduled: creation.Condition{Status: creation.True, Since: at("2026-11-30T11:58:39Z")}, Sandbox: creation.Condition{Status: creation.True, Since: at("2026-11-30T11:59:20Z")},
		Acknowledged: at("2026-11-30T11:58:39Z"), Container: true, Begun: at("2026-11-30T11:58:40Z"), IP: netip.MustParseAddr("10.99.8.32"),
	}
	if got != want {
		t.Errorf("killed and made again:\n got %+v\nwant %+v", got, want)
	}
	var failing corev1.Pod
	recorded(t, "kubelet-1.35.4-podstatus.json", &failing.Status)
	if got, want := creationPod(&failing), (creation.Pod{
		Scheduled: creation.Condition{Status: creation.True, Since: at("2026-11-30T11:56:36Z")}, Sandbox: creation.Condition{Status: creation.False, Since: at("2026-11-30T11:56:36Z")},
		Acknowledged: at("2026-11-30T11:56:36Z"),
	}); got != want {
		t.Errorf("failing:\n got %+v\nwant %+v", got, want)
	}
}

// TestCreationPodFields: one line is one change of an object.
func TestCreationPodFields(t *testing.T) {
	now := metav1.NewTime(at("2026-11-30T12:00:00Z"))
	grace, class, is := int64(30), "gvisor", true
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   creation.Pod
	}{
		{"deleted", func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace }, creation.Pod{Deleted: now.Add(-30 * time.Second)}},
		{"RuntimeClass", func(p *corev1.Pod) { p.Spec.RuntimeClassName = &class }, creation.Pod{RuntimeClass: "gvisor"}},
		{"owner", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{UID: "other"}, {UID: "rs", Controller: &is}}
		}, creation.Pod{Owner: "rs"}},
		{"mirror", func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"} }, creation.Pod{Mirror: true}},
		{"refused", func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "OutOfcpu" }, creation.Pod{Terminal: true, Reason: "OutOfcpu"}},
		{"waiting is no container", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}}
		}, creation.Pod{}},
		{"an init container", func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{ContainerID: "containerd://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}}
		}, creation.Pod{Container: true, Begun: now.Time}},
		{"created and never run", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{ContainerID: "containerd://1", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "containerd://1", Reason: "StartError", StartedAt: metav1.Unix(0, 0)}}}}
		}, creation.Pod{Container: true}},
		{"lost with its node", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown"}}}}
		}, creation.Pod{}},
		{"an address that is none", func(p *corev1.Pod) { p.Status.PodIP = "10.0.0" }, creation.Pod{}},
	} {
		p := &corev1.Pod{}
		tc.change(p)
		if got := creationPod(p); got != tc.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tc.name, got, tc.want)
		}
	}
}

func TestCreationEvent(t *testing.T) {
	first, last := metav1.NewTime(at("2026-11-30T12:00:00Z")), metav1.NewTime(at("2026-11-30T12:01:00Z"))
	about := corev1.ObjectReference{Kind: "Pod", UID: "u"}
	for _, tc := range []struct {
		name  string
		event corev1.Event
		count int
		at    time.Time
	}{
		{"counted", corev1.Event{Count: 3, FirstTimestamp: first, LastTimestamp: last}, 3, last.Time},
		{"a series", corev1.Event{EventTime: metav1.NewMicroTime(first.Time), Series: &corev1.EventSeries{Count: 4, LastObservedTime: metav1.NewMicroTime(last.Time)}}, 4, last.Time},
		{"the first of a series", corev1.Event{EventTime: metav1.NewMicroTime(first.Time)}, 0, first.Time},
		{"without a time", corev1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: first}}, 0, first.Time},
	} {
		tc.event.InvolvedObject = about
		if got := creationEvent(&tc.event); got.Count != tc.count || !got.At.Equal(tc.at) || got.Pod != "u" {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}

func TestCreationNode(t *testing.T) {
	since := metav1.NewTime(at("2026-11-30T12:00:00Z"))
	node := func(status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"runsc": "release-20260817.0"}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: since}}, NodeInfo: corev1.NodeSystemInfo{ContainerRuntimeVersion: "containerd://2.2.2"}},
		}
	}
	for status, want := range map[corev1.ConditionStatus]creation.Status{"True": creation.True, "False": creation.False, "Unknown": creation.False} {
		if got, want := creationNode(node(status), ""), (creation.Node{Name: "n", Ready: creation.Condition{Status: want, Since: since.Time}, Version: "containerd://2.2.2"}); got != want {
			t.Errorf("%s: %+v, want %+v", status, got, want)
		}
	}
	if got := creationNode(node("True"), "runsc").Version; got != "release-20260817.0" {
		t.Errorf("by label: %q", got)
	}
}
