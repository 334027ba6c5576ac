package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	syaml "sigs.k8s.io/yaml"

	"github.com/samepod/samepod/creation"
	"github.com/samepod/samepod/node"
)

// TestDocsLogMonitor: the rules of node-problem-detector are what samepod prints.
func TestDocsLogMonitor(t *testing.T) {
	const file = "examples/doctor/log-monitor.json"
	var want bytes.Buffer
	if code := run(t.Context(), []string{"doctor", "--log-rules"}, &want, io.Discard); code != 0 {
		t.Fatal(code)
	}
	if *update {
		if err := os.WriteFile(docs+file, want.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if readDoc(t, file) != want.String() {
		t.Errorf("%s is not what samepod doctor --log-rules prints; go test ./cmd/samepod -run Docs -update", file)
	}
}

// TestNodeExamples: what the examples start is a command line that samepod takes, and
// no more may be done than reading.
func TestNodeExamples(t *testing.T) {
	var d appsv1.DaemonSet
	if err := syaml.UnmarshalStrict([]byte(readDoc(t, "examples/doctor/daemonset.yaml")), &d); err != nil {
		t.Fatal(err)
	}
	var monitor struct {
		Conditions []struct{ Type, Message string }
		Rules      []struct {
			Condition string
			Args      []string
		}
	}
	if err := json.Unmarshal([]byte(readDoc(t, "examples/doctor/custom-plugin-monitor.json")), &monitor); err != nil {
		t.Fatal(err)
	}
	c := d.Spec.Template.Spec.Containers[0]
	for _, args := range [][]string{c.Args, monitor.Rules[0].Args} {
		root := newRoot()
		cmd, rest, err := root.Find(args)
		if err != nil || cmd.Name() != "doctor" {
			t.Fatalf("%v: %v", args, err)
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
	switch s := c.SecurityContext; {
	case s.Privileged != nil, *s.AllowPrivilegeEscalation, len(s.Capabilities.Add) != 1, s.Capabilities.Add[0] != "SYS_PTRACE", d.Spec.Template.Spec.HostPID, s.Capabilities.Drop[0] != "ALL", !*s.ReadOnlyRootFilesystem:
		t.Errorf("the doctor may do more than read: %+v", s)
	}
	if m := c.VolumeMounts; len(m) != 1 || !m[0].ReadOnly || *m[0].MountPropagation != corev1.MountPropagationHostToContainer {
		t.Errorf("%+v", m)
	}
	if monitor.Conditions[0].Type != monitor.Rules[0].Condition || monitor.Conditions[0].Message != oneLine(node.Report{Findings: []node.Finding{{Check: "state-symlink", Severity: node.OK}}}) {
		t.Errorf("%+v", monitor)
	}
}

// TestOneLine: node-problem-detector keeps 80 bytes, and they are whole characters.
func TestOneLine(t *testing.T) {
	long := node.Report{Findings: []node.Finding{{Severity: node.OK}, {Check: "logs", Severity: node.Failure, Found: strings.Repeat("é", 100)}, {Severity: node.Unknown}}}
	if line := oneLine(long); len(line) > 80 || !strings.HasPrefix(line, "logs: é") || !strings.HasSuffix(line, "é...") {
		t.Errorf("%q", line)
	}
	none := node.Report{Findings: []node.Finding{{Check: "containerd", Severity: node.OK}, {Check: "state-symlink", Severity: node.Skipped}}}
	if line := oneLine(none); line != "no containerd here starts runsc" {
		t.Errorf("%q", line)
	}
	if line := oneLine(node.Report{}); !strings.HasPrefix(line, "unknown") {
		t.Errorf("%q", line)
	}
}

// TestPlain: what nodes and their Pods write cannot change a terminal, nor make a line
// that looks like one of ours.
func TestPlain(t *testing.T) {
	const evil = "a\x1b[2J\nok state-symlink: all is well\r\u202e\u009b31m\x00\xff"
	var out bytes.Buffer
	f := doctorFlags{output: "text"}
	r := node.Report{Findings: []node.Finding{{Check: "logs", Severity: node.Failure, Found: evil, Evidence: []string{evil}, Consequence: evil, Remedy: evil}}}
	if err := f.print(&out, r); err != nil {
		t.Fatal(err)
	}
	account := node.Account{Pod: evil, Node: evil, RuntimeClass: evil, Stage: evil, Class: evil, Cause: evil, Meaning: evil, Evidence: []string{evil}, Notes: []string{evil}, Remedy: evil}
	if err := printAccount(&out, account); err != nil {
		t.Fatal(err)
	}
	out.WriteString(oneLine(r) + "\n")
	out.WriteString(report{Versions: map[string]creation.Counts{evil: {}}, Causes: map[string]int{evil: 1}, Nodes: []creation.Named{{Name: evil}}}.text())
	if strings.ContainsAny(out.String(), "\x1b\r\u202e\u009b\x00") || strings.Contains(out.String(), "\nok ") || strings.Contains(out.String(), "\xff") {
		t.Errorf("%q", out.String())
	}
}

// TestAskHangs: a binary that leaves a child behind is not waited for.
func TestAskHangs(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "runsc")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\nsleep 3 &\necho x\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := ask(t.Context(), binary); done <- err }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("its output had no end, and was believed")
		}
	case <-time.After(30 * time.Second):
		t.Error("it is still waited for")
	}
}

// TestEvery: with --every the doctor looks again, and ends when it is told to.
func TestEvery(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := writerFunc(func(p []byte) (int, error) {
		cancel()
		return len(p), nil
	})
	if code := run(ctx, []string{"doctor", "--rootfs", t.TempDir(), "--every", "1h", "--output", "line"}, seen, io.Discard); code != 0 {
		t.Error(code)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestExplainLive: the Pod and its events are asked for, by name, and what the API
// server says is what files would have said.
func TestExplainLive(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/namespaces/agents/pods/a-1":
			fmt.Fprint(w, `{"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "agents", "name": "a-1", "uid": "u-1"}, "spec": {"nodeName": "node-a"}, "status": {"phase": "Pending"}}`)
		case "/api/v1/namespaces/agents/events":
			fmt.Fprint(w, `{"kind": "EventList", "apiVersion": "v1", "items": [{"reason": "FailedCreatePodSandBox", "involvedObject": {"kind": "Pod", "namespace": "agents", "name": "a-1", "uid": "u-1"}, "message": "no runtime for \"gvisor\" is configured"}]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": "pods \"a-2\" not found", "code": 404}`)
		}
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]any{"server": server.URL}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "x"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if code := run(ctx, []string{"explain-start", "--kubeconfig", kubeconfig, "agents/a-1"}, &out, &errs); code != 0 || !strings.Contains(out.String(), "cause  handler-missing\n") {
		t.Errorf("%d\n%s%s", code, &out, &errs)
	}
	if got := strings.Join(asked, "\n"); got != "GET /api/v1/namespaces/agents/pods/a-1\nGET /api/v1/namespaces/agents/events?fieldSelector=involvedObject.name%3Da-1" {
		t.Error(got)
	}
	if code := run(ctx, []string{"explain-start", "--kubeconfig", kubeconfig, "agents/a-2"}, io.Discard, &errs); code != 2 || !strings.Contains(errs.String(), "get Pod agents/a-2: ") {
		t.Errorf("%d %s", code, &errs)
	}
}
