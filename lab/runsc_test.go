package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/samepod/samepod/lab"
	"github.com/samepod/samepod/node"
)

// TestRunscBehindLink: the real runsc refuses a bundle behind a symbolic link and
// runs the same bundle by its resolved path, and the doctor says so of both before.
func TestRunscBehindLink(t *testing.T) {
	if os.Geteuid() != 0 {
		skipRunsc(t, "runsc needs root here")
	}
	if !lab.RunscInstalled() {
		skipRunsc(t, "runsc is not built; go run ./lab/install runsc")
	}
	runsc, err := lab.RunscBinary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n := runscNode{dir: dir, runsc: runsc}
	n.write(t)
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(dir, "root", "null-netns"), unix.MNT_DETACH) }) // runsc leaves it
	resolved, link := filepath.Join(dir, "resolved"), filepath.Join(dir, "link")
	if out, err := n.run(t, resolved); err != nil {
		skipRunsc(t, fmt.Sprintf("runsc runs nothing on this machine: %v\n%s", err, out))
	}
	for _, tc := range []struct {
		state string
		want  node.Severity
	}{
		{resolved, node.OK},
		{link, node.Failure},
	} {
		r := n.examine(t, tc.state)
		for _, check := range []string{"state-symlink", "state-proof"} {
			f := findingOf(r, check)
			if f.Severity != tc.want {
				t.Errorf("%s, %s: %+v, want %s", tc.state, check, f, tc.want)
			}
			if tc.want == node.Failure && !strings.Contains(strings.Join(f.Evidence, " "), link) {
				t.Errorf("%s does not name the link: %+v", check, f)
			}
		}
		if f := findingOf(r, "versions"); f.Severity != node.Unknown {
			t.Errorf("VERSION_MISSING is %+v", f)
		}
		out, err := n.run(t, tc.state)
		if worked := err == nil && strings.Contains(out, "VERSION_MISSING"); worked != (tc.want == node.OK) {
			t.Errorf("%s: %v\n%s", tc.state, err, out)
		}
	}
	hits, notes := thisHost(t).Logs([]string{filepath.Join(dir, "logs")})
	reasons := node.Reasons(hits)
	if len(reasons) == 0 || reasons[0].Class != "runsc-symlink" || len(notes) > 0 {
		t.Fatalf("%+v, %v", reasons, notes)
	}
	want := node.Link{Component: link, Target: resolved}
	if got, _ := reasons[0].LinkOf(); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if !slices.Contains(reasons[0].Hidden, "runsc-secondary") {
		t.Errorf("%v", reasons[0].Hidden)
	}
}

// skipRunsc skips, and says what shows the same.
func skipRunsc(t *testing.T, why string) {
	t.Helper()
	report(t, t.Name()+" was skipped: "+why)
	t.Skip(why + ". What real ones said is recorded in node/testdata/runsc, and judged by TestRecorded of package node")
}

// runscNode is a state directory of containerd with one bundle, and a link to it.
type runscNode struct{ dir, runsc string }

const bundleID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// bundle is where containerd has that of a Pod.
func (n runscNode) bundle(state string) string {
	return filepath.Join(state, "io.containerd.runtime.v2.task", "k8s.io", bundleID)
}

// write makes a bundle with what each Pod has: one bind mount.
func (n runscNode) write(t *testing.T) {
	t.Helper()
	spec, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2",
		"process":    map[string]any{"user": map[string]int{"uid": 0, "gid": 0}, "args": []string{"/runsc", "--version"}, "env": []string{"PATH=/"}, "cwd": "/"},
		"root":       map[string]any{"path": "rootfs"},
		"mounts": []map[string]any{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/runsc", "type": "bind", "source": n.runsc, "options": []string{"bind", "ro"}},
		},
		"linux": map[string]any{"namespaces": []map[string]string{{"type": "pid"}, {"type": "mount"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	bundle := n.bundle(filepath.Join(n.dir, "resolved"))
	for _, err := range []error{
		os.MkdirAll(filepath.Join(bundle, "rootfs", "proc"), 0o755),
		os.WriteFile(filepath.Join(bundle, "config.json"), spec, 0o600),
		os.Symlink("resolved", filepath.Join(n.dir, "link")),
		os.MkdirAll(filepath.Join(n.dir, "logs"), 0o755),
		os.WriteFile(filepath.Join(n.dir, "config.toml"), []byte("version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.gvisor]\nruntime_type = 'io.containerd.runsc.v1'\noptions = { ConfigPath = '"+n.dir+"/runsc.toml' }\n"), 0o600),
		os.WriteFile(filepath.Join(n.dir, "runsc.toml"), []byte("binary_name = '"+n.runsc+"'\n"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// run runs the bundle below this state directory, and returns what it printed.
func (n runscNode) run(t *testing.T, state string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	flags := []string{"--root=" + filepath.Join(n.dir, "root"), "--network=none", "--ignore-cgroups", "--platform=systrap"}
	defer func() { _ = exec.Command(n.runsc, append(flags, "delete", "--force", bundleID)...).Run() }()
	flagsOfRun := append(slices.Clone(flags), "--debug", "--debug-log="+filepath.Join(n.dir, "logs", "%ID%", "%COMMAND%.log"), "run", "--bundle", n.bundle(state), bundleID)
	cmd := exec.CommandContext(ctx, n.runsc, flagsOfRun...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (n runscNode) examine(t *testing.T, state string) node.Report {
	t.Helper()
	args := "--state " + state
	r, err := node.Examine(t.Context(), thisHost(t), node.Options{
		Source: node.Source{Args: &args, Config: filepath.Join(n.dir, "config.toml")}, Now: time.Now(),
		Ask: func(ctx context.Context, binary string) (string, error) {
			out, err := exec.CommandContext(ctx, binary, "--version").Output()
			return string(out), err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func thisHost(t *testing.T) node.Host {
	t.Helper()
	h, err := node.NewHost("/")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func findingOf(r node.Report, check string) node.Finding {
	i := slices.IndexFunc(r.Findings, func(f node.Finding) bool { return f.Check == check })
	if i < 0 {
		return node.Finding{}
	}
	return r.Findings[i]
}
