package lab_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/samepod/samepod/lab"
)

// onNode runs a test in a process of its own whose network namespace is the node:
// this binary again, with this test alone. Where namespaces are forbidden the test
// is skipped, and with SAMEPOD_LAB_NETNS=required, as in CI, it fails.
func onNode(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if lab.OnNode() {
		f(t)
		return
	}
	only := "^" + t.Name() + "$"
	asked := flag.Lookup("test.run").Value.String()
	if _, part, ok := strings.Cut(asked, "/"); ok && !strings.Contains(asked, "|") {
		only += "/" + part
	}
	// Most of the time these tests wait, so they need no processor each.
	out, err := lab.RunOnNode(t.Context(), os.Args[0], "-test.run", only, "-test.v", "-test.parallel", "8", "-test.timeout", "2m")
	switch skipped := bytes.Contains(out, []byte("--- SKIP: ")); {
	case err != nil && !errors.Is(err, lab.ErrNoNamespace):
		t.Fatalf("on the node: %v\n%s", err, out)
	case bytes.Contains(out, []byte("no tests to run")):
		t.Fatalf("%s: no such part", asked)
	case err == nil && !skipped:
		t.Logf("on the node:\n%s", out)
	case os.Getenv("SAMEPOD_LAB_NETNS") == "required":
		t.Fatalf("SAMEPOD_LAB_NETNS=required, but: %v\n%s", err, out)
	default:
		report(t, fmt.Sprintf("%s was skipped: %v", t.Name(), err))
		t.Skipf("%v\n%s", err, out)
	}
}

// nodeArm is an arm whose Pods are on a bridge.
type nodeArm struct {
	*arm
	bridge *lab.Bridge
}

// newNodeArm starts samepod on a node with a bridge that has the first address of
// each prefix. Beyond is more that may be dialled; serveArgs are more arguments of
// samepod serve.
func newNodeArm(t *testing.T, prefixes, beyond []netip.Prefix, serveArgs ...string) nodeArm {
	t.Helper()
	l := newLab(t)
	var gateways []netip.Prefix
	for _, p := range prefixes {
		gateways = append(gateways, netip.PrefixFrom(host(p, 1), p.Bits()))
	}
	bridge, err := l.StartBridge(gateways...)
	if errors.Is(err, lab.ErrNoNamespace) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	a := &arm{Lab: l, t: t, pods: map[string]lab.PodRecord{}, config: filepath.Join(l.Dir, "samepod.yaml"), podsYML: filepath.Join(l.Dir, "pods.yaml")}
	if err := lab.WriteConfig(a.config, "sandboxes", append(slices.Clone(prefixes), beyond...)...); err != nil {
		t.Fatal(err)
	}
	a.writePods()
	a.startSamepod("samepod", serveArgs...)
	return nodeArm{a, bridge}
}

// patient is for tests whose subject is not a timeout, on machines that are slow.
var patient = []string{"--check-timeout", "5s", "--connect-timeout", "5s"}

// dualStack are the prefixes of a test on an Envoy of this version. Several run on
// one node at a time.
func dualStack(version string) []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", minor(version))),
		netip.MustParsePrefix(fmt.Sprintf("fd00:%d::/64", minor(version))),
	}
}

// host is the address with this number in a prefix.
func host(p netip.Prefix, n byte) netip.Addr {
	bits := p.Addr().AsSlice()
	bits[len(bits)-1] = n
	addr, _ := netip.AddrFromSlice(bits)
	return addr
}

// plug starts a Pod with the address of this number in each prefix. It is not in the
// file of Pods yet.
func (a nodeArm) plug(name, uid string, prefixes []netip.Prefix, n byte) *lab.Pod {
	a.t.Helper()
	var addrs []netip.Prefix
	for _, p := range prefixes {
		addrs = append(addrs, netip.PrefixFrom(host(p, n), p.Bits()))
	}
	return must(a.bridge.StartPod(name, uid, addrs...))(a.t)
}

// warm sends requests until one comes on a connection that was kept. It need not be
// the second: Envoy has several hosts for a new address until its main thread has told
// the others of the first. Where none is kept it holds Envoy to that.
func warm(t *testing.T, pod *lab.Pod, kept bool, send func() call) {
	t.Helper()
	for range 100 {
		before := pod.Connections()
		if c := send(); c.status != 200 || !strings.Contains(c.body, pod.UID) {
			t.Fatalf("%d %s", c.status, c.body)
		}
		switch used := pod.Connections() == before; {
		case used && !kept:
			t.Fatal("a connection was used twice")
		case used == kept:
			return
		}
	}
	t.Fatal("no connection is kept")
}

// TestHostIsLeftAlone: nothing is ever made in the host's network namespace.
func TestHostIsLeftAlone(t *testing.T) {
	if _, err := newLab(t).StartBridge(netip.MustParsePrefix("10.244.0.1/24")); err == nil || errors.Is(err, lab.ErrNoNamespace) {
		t.Fatalf("a bridge outside of a node: %v", err)
	}
	host := must(os.Readlink("/proc/self/ns/net"))(t)
	t.Setenv("SAMEPOD_LAB_HOST_NETWORK", host)
	if _, err := newLab(t).StartBridge(netip.MustParsePrefix("10.244.0.1/24")); err == nil || errors.Is(err, lab.ErrNoNamespace) {
		t.Fatalf("a bridge in the namespace that is not to be changed: %v", err)
	}
}

// TestSuccessor: a Pod's interface vanishes without a FIN, and another Pod gets its
// address before the API says so. Nothing that asks the API can know: the verdict is
// stale. A connection that was kept for the dead Pod is reset by its successor's
// kernel, which never saw it, and nothing is delivered. A new connection reaches the
// successor: this is the window that stays open. Once the API has caught up, so has
// the verdict.
func TestSuccessor(t *testing.T) {
	onNode(t, func(t *testing.T) {
		onEveryEnvoy(t, func(t *testing.T, version string) {
			prefixes := dualStack(version)
			a := newNodeArm(t, prefixes, nil)
			a.envoy = a.startEnvoy("envoy", version, a.samepod.Authz.String(), patient...)
			a.waitVerdicts()
			podA := a.plug("a", "uid-a", prefixes, 5)
			v4, v6 := host(prefixes[0], 5), host(prefixes[1], 5)
			a.set("a", "uid-a", "Running", v4, v6)
			requests := 0
			command := func(name, uid string, addr netip.Addr) call {
				t.Helper()
				requests++
				return do(t, "POST", a.envoy.URL("/command"), `{"command":"rm -rf /work"}`, claimOn(name, uid, addr)...)
			}

			kept := minor(version) >= 38
			for _, addr := range []netip.Addr{v4, v6} {
				warm(t, podA, kept, func() call { return command("a", "uid-a", addr) })
			}
			a.eventually("what A sent is acknowledged", func() bool { return must(podA.Network.Settled())(t) })
			if err := podA.Network.Unplug(); err != nil {
				t.Fatal(err)
			}
			podB := a.plug("b", "uid-b", prefixes, 5)

			for _, addr := range []netip.Addr{v4, v6} {
				conns, executed, resets := podB.Connections(), len(podB.Executed()), must(podB.Network.Resets())(t)
				if kept {
					checkProblem(t, "a stale verdict on a kept connection", command("a", "uid-a", addr), 502, "upstream-reset", "unknown")
					if podB.Connections() != conns || len(podB.Executed()) != executed {
						t.Errorf("B on %v got what was sent on A's connection", addr)
					}
					if n := must(podB.Network.Resets())(t) - resets; n == 0 {
						t.Errorf("B's kernel on %v has reset nothing; something else ended A's connection", addr)
					}
				}
				if c := command("a", "uid-a", addr); c.status != 200 || !strings.Contains(c.body, "executed in b") || podB.Connections() != conns+1 {
					t.Errorf("the control, a stale verdict on a new connection to %v, does not reach B: %d %s", addr, c.status, c.body)
				}
			}

			a.set("a", "uid-a", "Failed", v4, v6)
			a.set("b", "uid-b", "Running", v4, v6)
			executed := len(podB.Executed())
			for _, addr := range []netip.Addr{v4, v6} {
				checkProblem(t, "A, when the API knows", command("a", "uid-a", addr), 409, "pod-terminal", false)
			}
			if n := len(podB.Executed()) - executed; n != 0 {
				t.Errorf("B executed %d commands of A's", n)
			}
			for _, addr := range []netip.Addr{v4, v6} {
				if c := command("b", "uid-b", addr); c.status != 200 || !strings.Contains(c.body, "executed in b") {
					t.Errorf("B on %v: %d %s", addr, c.status, c.body)
				}
			}
			a.invariant(requests)
		})
	})
}
