package lab_test

import (
	"strings"
	"testing"

	"github.com/samepod/samepod/lab"
)

// TestMissingKinds: samepod needs no kind of an engine to start. It serves what there is,
// says what is missing, and finds what comes later. The API server is the test's own, for
// kinds are of a whole cluster.
func TestMissingKinds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	kube := must(l.StartKube(t.Context()))(t)
	ctx := t.Context()
	succeed(t, kube.CreateNamespace(ctx, "engines"))
	addrs := must(lab.NewAddresses(lab.AgentSandboxPort))(t)
	g := newGateway(t, l, kube, agentSandboxConfig("engines", addrs, ""))
	g.front(lab.NewestEnvoy(), g.samepod)
	says := func(s *lab.Samepod, missing ...string) {
		t.Helper()
		eventually(t, strings.Join(missing, " and ")+" missing alone", func() bool {
			ready, text := s.Ready()
			found := 0
			for _, kind := range missing {
				if strings.Contains(text, "[+] "+kind+": fresh") {
					found++
				}
			}
			return ready && found == len(missing) && strings.Count(text, "its CRD is not installed") == len(missing)
		})
	}
	ask := func() call { return g.send(g.envoy, "box", "X-Sandbox-ID", "box", "X-Sandbox-Namespace", "engines") }
	says(g.samepod, "sandboxes")
	checkProblem(t, "no kind", ask(), 404, "unknown-sandbox", false)
	if out, code := g.cli(lab.UserSamepod, "audit"); code != 2 || !strings.Contains(out, "nothing to audit") {
		t.Errorf("an audit of no kinds: exit code %d\n%s", code, out)
	}
	if out, code := g.cli(lab.UserSamepod, "pin", "get", "engines/box"); code == 0 || !strings.Contains(out, "no such sandbox") {
		t.Errorf("a pin of no kind: exit code %d\n%s", code, out)
	}

	// Another samepod, of which one kind of three is there.
	succeed(t, kube.InstallCRDs(ctx, lab.CRDBatchSandboxes))
	o, execd := must(l.NewOpenSandbox(kube, "engines"))(t), must(lab.NewAddresses(lab.ExecdPort))(t)
	some := newGateway(t, l, kube, opensandboxConfig("engines", execd, "opensandbox: {providers: [batchsandbox, agent-sandbox]}"))
	some.front(lab.NewestEnvoy(), some.samepod)
	says(some.samepod, "pools", "sandboxes")
	p := some.owns(sandboxA, must(o.Start(ctx, sandboxA, execd.Take()))(t))
	some.until(p.Name, sandboxA)

	for _, kind := range []struct{ crd, version string }{{lab.CRDSandboxesV1Alpha1, "v1alpha1"}, {lab.CRDSandboxes, "v1beta1"}} {
		succeed(t, kube.InstallCRDs(ctx, kind.crd))
		a := must(l.NewAgentSandbox(kube, "engines", kind.version))(t)
		pod := g.owns("box", must(a.Start(ctx, "box", addrs.Take()))(t))
		eventually(t, kind.version+" is found", func() bool { return said(ask()) == pod.Name })
		says(g.samepod)
		says(some.samepod, "pools")
		succeed(t, a.Suspend(ctx, "box"))
		until(t, "sandbox-suspended", ask)
		succeed(t, kube.RemoveCRDs(ctx, kind.crd))
		until(t, "unknown-sandbox", ask)
		says(g.samepod, "sandboxes")
		succeed(t, a.Delete(ctx, "box", false)) // the garbage collector
	}
	some.until(p.Name, sandboxA)
	g.finish()
	some.finish()
}
