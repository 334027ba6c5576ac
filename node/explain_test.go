package node

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const bootEOF = `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox \"` + id + `\": failed to create containerd task: failed to create shim task: OCI runtime create failed: creating container: cannot create sandbox: cannot read client sync file: waiting for sandbox to start: EOF`

// podOf is a Pod on its node with this status.
func podOf(status string) string {
	return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "agents", "name": "a-1", "uid": "u-1"},
"spec": {"nodeName": "node-a", "runtimeClassName": "gvisor"}, "status": ` + status + `}`
}

const noSandbox = `{"phase": "Pending", "startTime": "2026-11-30T11:56:36Z", "conditions": [
{"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": "2026-11-30T11:56:36Z"}, {"type": "PodScheduled", "status": "True"}]}`

// event is one of the Pod, as kubectl prints it.
func event(reason, at, message string) string {
	return `{"apiVersion": "v1", "kind": "Event", "reason": "` + reason + `", "type": "Warning", "count": 3, "firstTimestamp": "` + at + `", "lastTimestamp": "` + at + `", "eventTime": null,
"involvedObject": {"kind": "Pod", "namespace": "agents", "name": "a-1", "uid": "u-1"}, "message": "` + message + `"}`
}

func list(items ...string) string {
	return `{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(items, ",") + `]}`
}

// TestExplain: the class is in the events, the cause where it was said.
func TestExplain(t *testing.T) {
	const at, later = "2026-11-30T11:57:00Z", "2026-11-30T11:58:00Z"
	boot := event("FailedCreatePodSandBox", later, bootEOF)
	gofer := Hit{Match: Classify([]byte(symlink)), File: "/var/log/runsc/" + id + "/gofer.log", Line: 126, Text: symlink, Sandbox: id}
	second := Hit{Match: Classify([]byte("Error reading mounts file: error unmarshaling mounts")), File: "/var/log/runsc/" + id + "/boot.log", Line: 9, Sandbox: id}
	strange := gofer
	strange.Sandbox, strange.File = strings.Repeat("b", 64), "/var/log/runsc/b/gofer.log"
	for name, tc := range map[string]struct {
		pod, events  string
		hits         []Hit
		class, cause string
		says         string // evidence, notes, remedy or stage has it
	}{
		"the log has the cause":       {podOf(noSandbox), list(boot), []Hit{second, gofer}, "runsc-boot-eof", "runsc-symlink", "the link: /var/run -> /run"},
		"without logs it is unknown":  {podOf(noSandbox), list(boot), nil, "runsc-boot-eof", UnknownClass, "Run samepod doctor on that node"},
		"and that is said":            {podOf(noSandbox), list(boot), nil, "runsc-boot-eof", UnknownClass, "no log of the node was given"},
		"another sandbox's log":       {podOf(noSandbox), list(boot), []Hit{strange}, "runsc-boot-eof", UnknownClass, "another sandbox of the node: runsc-symlink"},
		"only a symptom in the log":   {podOf(noSandbox), list(boot), []Hit{second}, "runsc-boot-eof", UnknownClass, ""},
		"the event has the cause":     {podOf(noSandbox), list(event("FailedCreatePodSandBox", at, `no runtime for \"gvisor\" is configured`)), []Hit{strange}, "handler-missing", "handler-missing", "Name the runtime"},
		"the newest event":            {podOf(noSandbox), list(event("FailedCreatePodSandBox", at, `no runtime for \"gvisor\" is configured`), boot), nil, "runsc-boot-eof", UnknownClass, ""},
		"a name that is reserved":     {podOf(noSandbox), list(event("FailedCreatePodSandBox", later, `failed to reserve sandbox name x`), event("FailedCreatePodSandBox", at, `rpc error: code = Unavailable desc = connection refused`)), nil, "runtime-down", "runtime-down", ""},
		"only the reserved name":      {podOf(noSandbox), list(event("FailedCreatePodSandBox", later, `failed to reserve sandbox name x`)), nil, "name-reserved", UnknownClass, "first timeout"},
		"a message nobody knows":      {podOf(noSandbox), list(event("FailedCreatePodSandBox", at, `what is this`)), nil, UnknownClass, UnknownClass, "what is this"},
		"no events":                   {podOf(noSandbox), list(), nil, UnknownClass, UnknownClass, "there is no event of this Pod"},
		"events of its predecessor":   {podOf(noSandbox), list(strings.Replace(boot, "u-1", "u-0", 1)), []Hit{gofer}, UnknownClass, UnknownClass, "uid u-0 are of another Pod"},
		"of another namespace":        {podOf(noSandbox), list(strings.Replace(boot, "agents", "other", 1)), []Hit{gofer}, UnknownClass, UnknownClass, "there is no event"},
		"it waits for a volume":       {podOf(noSandbox), list(event("FailedMount", at, "MountVolume.SetUp failed")), nil, UnknownClass, UnknownClass, "it may wait for something else: event FailedMount"},
		"a volume, since then":        {podOf(noSandbox), list(event("FailedCreatePodSandBox", at, `no runtime for \"gvisor\" is configured`), event("FailedMount", later, "MountVolume.SetUp failed")), nil, "handler-missing", "handler-missing", "Evidence:[event FailedMount, 3 times, last at 2026-11-30T11:58:00Z: MountVolume.SetUp failed event FailedCreatePodSandBox"},
		"and what to do first":        {podOf(noSandbox), list(boot, event("FailedAttachVolume", "2026-11-30T11:59:00Z", "x")), []Hit{gofer}, "runsc-boot-eof", "runsc-symlink", "the newest event says, first"},
		"a volume, before that":       {podOf(noSandbox), list(boot, event("FailedMount", at, "x")), []Hit{gofer}, "runsc-boot-eof", "runsc-symlink", "Evidence:[/var/log/runsc"},
		"the device plugin":           {podOf(`{"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Pod was rejected: Allocate failed due to no healthy devices present, which is unexpected"}`), list(), nil, "device-plugin", "device-plugin", "status: Pod was rejected"},
		"no node":                     {`{"kind": "Pod", "metadata": {"namespace": "agents", "name": "a-1"}, "status": {"phase": "Pending"}}`, list(), nil, UnknownClass, UnknownClass, "no node was chosen"},
		"the sandbox is there":        {podOf(`{"phase": "Pending", "conditions": [{"type": "PodReadyToStartContainers", "status": "True"}]}`), list(boot), nil, UnknownClass, UnknownClass, "None for the sandbox"},
		"a container runs":            {podOf(`{"phase": "Running", "containerStatuses": [{"name": "main", "containerID": "containerd://x", "state": {"running": {}}}]}`), list(), nil, UnknownClass, UnknownClass, "the sandbox is there"},
		"a sandbox that died":         {podOf(`{"phase": "Running", "conditions": [{"type": "PodReadyToStartContainers", "status": "False"}], "containerStatuses": [{"name": "main", "containerID": "containerd://x", "state": {"terminated": {"reason": "Unknown"}}}]}`), list(boot), nil, "runsc-boot-eof", UnknownClass, "on its node, without a sandbox"},
		"a Pod that has run":          {podOf(`{"phase": "Succeeded", "conditions": [{"type": "PodReadyToStartContainers", "status": "False"}], "containerStatuses": [{"name": "main", "containerID": "containerd://x"}]}`), list(), nil, UnknownClass, UnknownClass, "the sandbox was there"},
		"its init container runs":     {podOf(`{"phase": "Pending", "initContainerStatuses": [{"name": "init", "state": {"running": {}}}]}`), list(), nil, UnknownClass, UnknownClass, "the sandbox is there"},
		"an old Kubernetes":           {podOf(`{"conditions": [{"type": "PodHasNetwork", "status": "False"}]}`), list(), nil, UnknownClass, UnknownClass, "condition PodHasNetwork is False"},
		"why it is not, from 1.37 on": {podOf(`{"conditions": [{"type": "PodReadyToStartContainers", "status": "False", "reason": "PodSandboxNotReady", "message": "no pod sandbox exists"}]}`), list(), nil, UnknownClass, UnknownClass, "no pod sandbox exists"},
		"clocks that differ":          {podOf(noSandbox), list(event("FailedCreatePodSandBox", "2026-11-30T10:00:00Z", "x")), nil, UnknownClass, UnknownClass, "clocks differ"},
		"a Pod that is deleted":       {strings.Replace(podOf(noSandbox), `"uid"`, `"deletionTimestamp": "2026-11-30T11:59:00Z", "uid"`, 1), list(), nil, UnknownClass, UnknownClass, "being deleted"},
	} {
		pods, err := ParsePods([]byte(tc.pod))
		if err != nil || len(pods) != 1 {
			t.Fatalf("%s: %d Pods, %v", name, len(pods), err)
		}
		events, err := ParseEvents([]byte(tc.events))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		a := Explain(pods[0], events, tc.hits)
		if all := fmt.Sprintf("%+v", a); a.Class != tc.class || a.Cause != tc.cause || !strings.Contains(all, tc.says) {
			t.Errorf("%s: %+v", name, a)
		}
		if a.Known() != (tc.cause != UnknownClass || a.Started) || a.Remedy == "" {
			t.Errorf("%s: known %v, do %q", name, a.Known(), a.Remedy)
		}
	}
}

// TestExplainRecorded: the Pod of a real kubelet whose sandbox runsc refused.
func TestExplainRecorded(t *testing.T) {
	status, err := os.ReadFile("testdata/runsc/kubelet-1.35.4-podstatus.json")
	if err != nil {
		t.Fatal(err)
	}
	pods, err := ParsePods([]byte(podOf(string(status))))
	if err != nil {
		t.Fatal(err)
	}
	if a := Explain(pods[0], nil, nil); a.Started || a.Stage != "on its node, without a sandbox" || len(a.Evidence) != 1 {
		t.Errorf("%+v", a)
	}
	text, err := os.ReadFile("testdata/runsc/kubelet-1.35.4-after-sandbox-kill.json")
	if err != nil {
		t.Fatal(err)
	}
	pods, err = ParsePods(text)
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d, %v", len(pods), err)
	}
	if a := Explain(pods[0], nil, nil); !a.Started || !a.Known() {
		t.Errorf("%+v", a)
	}
}

// TestParse: what kubectl prints is read in all its forms, and nothing else.
func TestParse(t *testing.T) {
	for text, want := range map[string]int{
		"":                                     0,
		"kind: Pod\n---\nkind: Pod\n":          2,
		"kind: PodList\nitems: [{}, {}]\n":     2,
		"kind: List\nitems: [{kind: Pod}]\n":   1,
		"kind: List\nitems: [{}]\n":            -1,
		"kind: Event\n":                        -1,
		"kind: PodList\nitems: [{kind: X}]\n":  -1,
		"[]":                                   -1,
		"kind: Pod\nstatus: {startTime: now}":  -1,
		"kind: Pod\n\x00":                      -1,
		"Error from server (NotFound): pods\n": -1,
	} {
		pods, err := ParsePods([]byte(text))
		if err != nil && want >= 0 || err == nil && len(pods) != want {
			t.Errorf("%q: %d, %v", text, len(pods), err)
		}
	}
	events, err := ParseEvents([]byte(`{"kind": "Event", "eventTime": "2026-11-30T11:57:00.123456Z", "lastTimestamp": null, "series": {"count": 7, "lastObservedTime": "2026-11-30T11:59:00.000001Z"}}`))
	if err != nil || len(events) != 1 || events[0].times() != 7 || stamped(events[0].last()) != "2026-11-30T11:59:00Z" {
		t.Errorf("%+v, %v", events, err)
	}
}
