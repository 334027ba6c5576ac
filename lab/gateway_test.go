package lab_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/samepod/samepod/lab"
)

// gateway is the product before an engine: samepod in the engine's dialect, on the shared
// API server, and Envoys that ask it. The control groups are in engines_control_test.go:
// what the same callers get where there is none.
type gateway struct {
	*lab.Lab
	t          *testing.T
	kube       *lab.Kube
	config     string
	kubeconfig string
	samepod    *lab.Samepod
	envoy      *lab.Envoy // the one that is asked

	mu     sync.Mutex
	envoys []*lab.Envoy
	owners map[*lab.Pod][]string // the sandboxes that a Pod was ever given to
}

// engineConfig is samepod's configuration for one namespace of an engine, whose Pods
// listen on port; more are further lines.
func engineConfig(dialect, namespace string, addrs *lab.Addresses, port int, more string) string {
	return fmt.Sprintf("dialect: %s\nscope: {namespaces: [%s]}\nports: [%d]\naddresses: {cidrs: [%s]}\n%s\n", dialect, namespace, port, addrs.Prefix(), more)
}

func opensandboxConfig(namespace string, addrs *lab.Addresses, more string) string {
	return engineConfig("opensandbox", namespace, addrs, lab.ExecdPort, more)
}

func agentSandboxConfig(namespace string, addrs *lab.Addresses, more string) string {
	return engineConfig("agent-sandbox", namespace, addrs, lab.AgentSandboxPort, more)
}

// newGateway starts samepod, which may write pins, and no Envoy.
func newGateway(t *testing.T, l *lab.Lab, kube *lab.Kube, config string, args ...string) *gateway {
	t.Helper()
	g := &gateway{Lab: l, t: t, kube: kube, owners: map[*lab.Pod][]string{}}
	succeed(t, kube.GrantEngines(t.Context(), lab.UserSamepod, "get", "list", "watch", "patch"))
	file, err := os.CreateTemp(l.Dir, "samepod-*.yaml")
	succeed(t, err)
	succeed(t, file.Close())
	g.config = file.Name()
	succeed(t, os.WriteFile(g.config, []byte(config), 0o600))
	g.kubeconfig = must(kube.Kubeconfig(lab.UserSamepod, kube.URL))(t)
	g.samepod = g.replica("samepod", args...)
	return g
}

// replica starts another samepod with the gateway's configuration, and waits until it is
// ready.
func (g *gateway) replica(name string, args ...string) *lab.Samepod {
	g.t.Helper()
	if !slices.Contains(args, "--kubeconfig") {
		args = append(args, "--kubeconfig", g.kubeconfig)
	}
	args = append([]string{"--config", g.config, "--source", "kube", "--log-level", "debug"}, args...)
	s := must(g.StartSamepod(g.t.Context(), name, must(binaries.race())(g.t), args...))(g.t)
	succeed(g.t, s.WaitReady(g.t.Context(), true, 30*time.Second))
	return s
}

// fronts numbers Envoys: those of one lab must not have one name.
var fronts atomic.Int64

// front starts an Envoy of this version that asks a replica, as the command renders it,
// and makes it the one that is asked.
func (g *gateway) front(version string, samepod *lab.Samepod, args ...string) *lab.Envoy {
	g.t.Helper()
	bootstrap := samepodCLI(g.t, append([]string{"envoy", "bootstrap", "--envoy-version", version, "--config", g.config, "--samepod", samepod.Authz.String(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	e := must(g.StartEnvoy(g.t.Context(), fmt.Sprint("envoy-", fronts.Add(1)), envoyBinary(g.t, version), bootstrap))(g.t)
	eventually(g.t, "Envoy gets verdicts", func() bool {
		n, err := e.Stat("cluster.samepod_authz.membership_healthy")
		return err == nil && n == 1
	})
	g.envoys, g.envoy = append(g.envoys, e), e
	return e
}

// owns says that a Pod may execute what is meant for a sandbox.
func (g *gateway) owns(sandbox string, p *lab.Pod) *lab.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.owners[p] = append(g.owners[p], sandbox)
	return p
}

// command is the command that is meant for a sandbox.
func command(sandbox string) string { return "for " + sandbox }

// header asks for a sandbox of OpenSandbox in header mode.
func header(sandbox string) []string {
	return []string{"OpenSandbox-Ingress-To", fmt.Sprintf("%s-%d", sandbox, lab.ExecdPort)}
}

// ask sends a command that is meant for a sandbox of OpenSandbox, in header mode.
func (g *gateway) ask(sandbox string, more ...string) call {
	g.t.Helper()
	return g.send(g.envoy, sandbox, append(header(sandbox), more...)...)
}

// send sends a command that is meant for a sandbox, with these headers.
func (g *gateway) send(e *lab.Envoy, sandbox string, headers ...string) call {
	g.t.Helper()
	return do(g.t, "POST", e.URL("/command"), `{"command":"`+command(sandbox)+`"}`, headers...)
}

// said is an answer in one word: who executed the command, or samepod's reason.
func said(c call) string {
	switch {
	case c.status == http.StatusOK:
		return ran(c.body)
	case c.reason() != "":
		return c.reason()
	}
	return fmt.Sprint(c.status, " ", c.body)
}

// until asks until the answer is this word. What is said on the way is not looked at here:
// [gateway.finish] finds whoever executed what was not meant for it.
func until(t *testing.T, want string, ask func() call) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		got := ask()
		if said(got) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d %s", want, got.status, got.body)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (g *gateway) until(want, sandbox string) {
	g.t.Helper()
	until(g.t, want, func() call { return g.ask(sandbox) })
}

// finish holds the product to what it promises: nobody executed what was meant for
// another, and whatever answered was the verified address.
func (g *gateway) finish() {
	g.t.Helper()
	for p, sandboxes := range g.owners {
		for _, e := range p.Executed() {
			if id, meant := strings.CutPrefix(e.Command, "for "); meant && !slices.Contains(sandboxes, id) {
				g.t.Errorf("%s, which is of %v, executed %q", p.Name, sandboxes, e.Command)
			}
		}
	}
	for _, e := range g.envoys {
		last := do(g.t, "GET", e.URL("/last"), "").header.Get("x-samepod-decision") // logs are in order
		var log []lab.AccessLog
		eventually(g.t, "Envoy has logged every request", func() bool {
			log = must(e.AccessLog())(g.t)
			return slices.ContainsFunc(log, func(entry lab.AccessLog) bool { return entry.Decision == last })
		})
		if err := lab.CheckInvariant(log); err != nil {
			g.t.Error(err)
		}
		if !e.Alive() {
			g.t.Errorf("%s has ended", e.Name)
		}
	}
}

// run is a subtest: what fails in it fails there.
func (g *gateway) run(name string, f func(t *testing.T)) {
	whole := g.t
	defer func() { g.t = whole }()
	whole.Run(name, func(t *testing.T) {
		g.t = t
		f(t)
	})
}

// metric is a sample of the gateway's samepod.
func (g *gateway) metric(name string) float64 {
	g.t.Helper()
	return must(g.samepod.Metric(name))(g.t)
}

// behindProxy starts a replica whose way to the API server can be held up, and an Envoy
// that asks it.
func (g *gateway) behindProxy(name string, args ...string) (*lab.Proxy, *lab.Envoy) {
	g.t.Helper()
	proxy := must(g.StartProxy(strings.TrimPrefix(g.kube.URL, "https://")))(g.t)
	kubeconfig := must(g.kube.Kubeconfig(lab.UserSamepod, "https://"+proxy.Addr.String()))(g.t)
	first := g.envoy
	e := g.front(lab.NewestEnvoy(), g.replica(name, append(args, "--kubeconfig", kubeconfig)...))
	if first != nil {
		g.envoy = first
	}
	return proxy, e
}

// ids numbers sandboxes of tests that use many.
var ids atomic.Int64

// newID is the id of a sandbox that there is not yet.
func newID() string { return fmt.Sprintf("cccccccc-3333-4333-8333-%012d", ids.Add(1)) }

// executed counts what a Pod executed of what was meant for a sandbox.
func executed(p *lab.Pod, sandbox string) (n int) {
	for _, e := range p.Executed() {
		if e.Command == command(sandbox) {
			n++
		}
	}
	return n
}

// cli runs samepod against the API server as a user, and returns what it printed, also
// where that is an error, and its exit code.
func (g *gateway) cli(user string, args ...string) (out string, code int) {
	g.t.Helper()
	kubeconfig := must(g.kube.Kubeconfig(user, g.kube.URL))(g.t)
	return runSamepod(g.t, append(args, "--kubeconfig", kubeconfig)...)
}

// reasonIn is the reason of a problem in a text that an SDK made of it.
func reasonIn(text string) string {
	_, after, found := strings.Cut(text, `"reason":`)
	if !found {
		return ""
	}
	var reason string
	if json.NewDecoder(strings.NewReader(after)).Decode(&reason) != nil {
		return ""
	}
	return reason
}

// writeFile writes a file of the lab.
func writeFile(t *testing.T, l *lab.Lab, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(l.Dir, name)
	succeed(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
