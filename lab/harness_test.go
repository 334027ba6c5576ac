package lab_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/samepod/samepod/lab"
)

// keepLogs is where the files of a failed experiment stay.
const keepLogs = "logs"

func newLab(t *testing.T) *lab.Lab {
	t.Helper()
	dir := t.TempDir()
	l := lab.New(dir)
	t.Cleanup(func() {
		l.Close()
		if !t.Failed() {
			return
		}
		kept := filepath.Join(keepLogs, strings.ReplaceAll(t.Name(), "/", "_"))
		_ = os.RemoveAll(kept)
		if err := os.CopyFS(kept, os.DirFS(dir)); err != nil {
			t.Logf("logs: %v", err)
		}
		t.Logf("logs are kept in lab/%s", kept)
	})
	return l
}

var binaries = struct {
	race, plain func() (string, error)
}{
	sync.OnceValues(func() (string, error) { return lab.SamepodBinary(bg, true) }),
	sync.OnceValues(func() (string, error) { return lab.SamepodBinary(bg, false) }),
}

// samepodCLI runs samepod to its end and returns what it printed.
func samepodCLI(t *testing.T, args ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(must(binaries.race())(t), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("samepod %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
}

// runSamepod is [samepodCLI] where an error is an outcome: it returns what was printed,
// errors too, and the exit code.
func runSamepod(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(must(binaries.race())(t), args...)
	text, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("samepod %s: %v", strings.Join(args, " "), err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// must is for calls that return an error beside a value: must(f())(t).
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// arm is the product: an Envoy that asks samepod, which reads a file of Pods.
type arm struct {
	*lab.Lab
	t       *testing.T
	addrs   *lab.Addresses
	config  string // of samepod
	podsYML string
	samepod *lab.Samepod
	envoy   *lab.Envoy
	pods    map[string]lab.PodRecord
}

// newArm starts the product on an Envoy of this version. envoyArgs are more
// arguments of samepod envoy bootstrap.
func newArm(t *testing.T, version string, envoyArgs ...string) *arm {
	t.Helper()
	a := newSamepodArm(t)
	a.envoy = a.startEnvoy("envoy", version, a.samepod.Authz.String(), envoyArgs...)
	a.waitVerdicts()
	return a
}

// newSamepodArm starts samepod alone, with more arguments.
func newSamepodArm(t *testing.T, more ...string) *arm {
	t.Helper()
	l := newLab(t)
	addrs := must(lab.NewAddresses(lab.ExecdPort))(t)
	a := &arm{Lab: l, t: t, addrs: addrs, pods: map[string]lab.PodRecord{}, config: writeConfig(t, l, addrs), podsYML: filepath.Join(l.Dir, "pods.yaml")}
	a.writePods()
	a.startSamepod("samepod", more...)
	return a
}

func (a *arm) startSamepod(name string, more ...string) {
	a.t.Helper()
	args := append([]string{"--config", a.config, "--pods-file", a.podsYML, "--pods-file-poll", "100ms", "--log-level", "debug"}, more...)
	a.samepod = must(a.StartSamepod(a.t.Context(), name, must(binaries.race())(a.t), args...))(a.t)
	if err := a.samepod.WaitReady(a.t.Context(), true, 30*time.Second); err != nil {
		a.t.Fatal(err)
	}
}

func (a *arm) startEnvoy(name, version, samepod string, args ...string) *lab.Envoy {
	a.t.Helper()
	config := a.bootstrap(version, samepod, args...)
	return must(a.StartEnvoy(a.t.Context(), name, envoyBinary(a.t, version), config))(a.t)
}

// bootstrap is what the command prints for an Envoy of this version.
func (a *arm) bootstrap(version, samepod string, args ...string) []byte {
	a.t.Helper()
	return samepodCLI(a.t, append([]string{"envoy", "bootstrap", "--envoy-version", version, "--config", a.config, "--samepod", samepod, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
}

// waitVerdicts waits until Envoy has seen samepod healthy.
func (a *arm) waitVerdicts() {
	a.t.Helper()
	a.eventually("Envoy gets verdicts", func() bool {
		n, err := a.envoy.Stat("cluster.samepod_authz.membership_healthy")
		return err == nil && n == 1
	})
}

// run starts a Pod's process and puts the Pod into the file.
func (a *arm) run(name, uid string, addr netip.Addr) *lab.Pod {
	a.t.Helper()
	p := must(a.StartPod(name, uid, addr))(a.t)
	a.set(name, uid, "Running", addr)
	return p
}

// set writes a Pod into the file; phase "" takes it out. It returns when samepod
// has read the file.
func (a *arm) set(name, uid, phase string, addr netip.Addr, second ...netip.Addr) {
	a.t.Helper()
	if phase == "" {
		delete(a.pods, name)
	} else {
		record := lab.PodRecord{Namespace: "sandboxes", Name: name, UID: uid, Phase: phase, Addr: addr}
		if len(second) > 0 {
			record.Second = second[0]
		}
		a.pods[name] = record
	}
	a.writePods()
	a.eventually("samepod reads the Pods", func() bool {
		n, err := a.samepod.Metric("samepod_index_pods")
		if err != nil || int(n) != len(a.pods) {
			return false
		}
		past, err := a.samepod.History(addr)
		if err != nil {
			return false
		}
		held := false
		for _, t := range past {
			held = held || t.To == nil && t.UID == uid
		}
		return held == (phase == "Running" || phase == "Pending")
	})
}

func (a *arm) writePods() {
	a.t.Helper()
	if err := lab.WritePods(a.podsYML, slices.Collect(maps.Values(a.pods))); err != nil {
		a.t.Fatal(err)
	}
}

func envoyBinary(t *testing.T, version string) string {
	t.Helper()
	return must(lab.EnvoyBinary(t.Context(), version))(t)
}

func (a *arm) eventually(what string, ok func() bool) { eventually(a.t, what, ok) }

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within 30 s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// invariant is checked at the end of every test of the product arm.
func (a *arm) invariant(requests int) {
	a.t.Helper()
	log := must(a.envoy.WaitForAccessLog(a.t.Context(), requests))(a.t)
	if err := lab.CheckInvariant(log); err != nil {
		a.t.Error(err)
	}
	if n, err := a.envoy.Stat("cluster.samepod_verified.upstream_rq_retry"); n != 0 || err != nil {
		a.t.Errorf("%d retries, %v", n, err)
	}
	if !a.envoy.Alive() {
		a.t.Error("Envoy has ended")
	}
}

// call is one request and its answer.
type call struct {
	status int
	header http.Header
	body   string
}

// reason is the reason of an answer of samepod's or Envoy's own.
func (c call) reason() string { return c.header.Get("x-samepod-reason") }

var httpClient = &http.Client{Timeout: 60 * time.Second}

// do sends a request with these header pairs; a name may repeat.
func do(t *testing.T, method, url, body string, header ...string) call {
	t.Helper()
	req := must(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	text := must(io.ReadAll(resp.Body))(t)
	return call{resp.StatusCode, resp.Header, string(text)}
}

// claimOn are the headers of a claim on a Pod at its recorded address.
func claimOn(name, uid string, addr netip.Addr) []string {
	return []string{"x-samepod-target", "sandboxes/" + name, "x-samepod-expect-pod-uid", uid, "x-samepod-recorded", netip.AddrPortFrom(addr, lab.ExecdPort).String()}
}

// problemBody is the body of a denial.
type problemBody struct {
	Type, Title, Detail, Reason, Decision string
	Status                                int
	Forwarded                             any
}

// checkProblem holds an answer to the form that all of ours have.
func checkProblem(t *testing.T, rule string, c call, status int, reason string, forwarded any) {
	t.Helper()
	var p problemBody
	if err := json.Unmarshal([]byte(c.body), &p); err != nil {
		t.Errorf("%s: %d %q: %v", rule, c.status, c.body, err)
		return
	}
	if c.status != status || p.Status != status || c.reason() != reason || p.Reason != reason || p.Type != "urn:samepod:reason:"+reason || p.Forwarded != forwarded || p.Title == "" || p.Detail == "" {
		t.Errorf("%s: %d, header %q, body %+v; want %d %s, forwarded %v", rule, c.status, c.reason(), p, status, reason, forwarded)
	}
	if got := c.header.Get("content-type"); got != "application/problem+json" {
		t.Errorf("%s: content-type %q", rule, got)
	}
	if got := c.header.Get("cache-control"); got != "no-store" {
		t.Errorf("%s: cache-control %q", rule, got)
	}
	if got, want := c.header.Get("retry-after") != "", status == http.StatusServiceUnavailable; got != want {
		t.Errorf("%s: retry-after %v", rule, got)
	}
}

// writeConfig writes samepod's configuration for Pods on these addresses.
func writeConfig(t *testing.T, l *lab.Lab, addrs *lab.Addresses) string {
	t.Helper()
	path := filepath.Join(l.Dir, "samepod.yaml")
	if err := lab.WriteConfig(path, "sandboxes", addrs.Prefix()); err != nil {
		t.Fatal(err)
	}
	return path
}
