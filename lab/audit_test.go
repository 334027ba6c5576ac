package lab_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/samepod/samepod/lab"
)

// TestAudit is the census of a cluster after an incident: 22 sandboxes whose Pods are
// dead, and 12 of whose addresses others have. It is taken by somebody who may write
// nothing.
func TestAudit(t *testing.T) {
	t.Parallel()
	kube, namespace := engineNamespace(t, lab.CRDBatchSandboxes, lab.CRDPools, lab.CRDSandboxes, lab.CRDSandboxClaims)
	l := newLab(t)
	ctx := t.Context()
	o, a := must(l.NewOpenSandbox(kube, namespace))(t), must(l.NewAgentSandbox(kube, namespace, "v1beta1"))(t)
	a.Port = lab.ExecdPort // addresses are free for both
	addrs := must(lab.NewAddresses(lab.ExecdPort))(t)
	succeed(t, kube.GrantEngines(ctx, lab.UserReader, "get", "list", "watch"))
	const dead, reassigned, alive = 22, 12, 3
	for i := range dead {
		addr := addrs.Take()
		if i%2 == 0 {
			id := fmt.Sprint("dead-", i)
			p := must(o.Start(ctx, id, addr))(t)
			succeed(t, o.Exit(ctx, p.Name, corev1.PodFailed))
		} else {
			p := must(a.Start(ctx, fmt.Sprint("dead-", i), addr))(t)
			succeed(t, a.Exit(ctx, p.Name, corev1.PodFailed))
		}
		if i < reassigned {
			must(o.Start(ctx, fmt.Sprint("heir-", i), addr))(t)
		}
	}
	for i := range alive {
		must(a.Start(ctx, fmt.Sprint("alive-", i), addrs.Take()))(t)
	}

	kubeconfig := must(kube.Kubeconfig(lab.UserReader, kube.URL))(t)
	audit := func(args ...string) (string, int) {
		return runSamepod(t, append([]string{"audit", "--kubeconfig", kubeconfig, "--namespaces", namespace}, args...)...)
	}
	out, code := audit()
	want := fmt.Sprintf("%d addresses: %d own, %d dead, 0 unreadable, 0 shared, %d reassigned\n", dead+reassigned+alive, reassigned+alive, dead-reassigned, reassigned)
	if code != 1 || !strings.Contains(out, want) || strings.Count(out, "\nreassigned")+strings.Count(out, "\ndead") < dead-1 {
		t.Errorf("exit code %d, want %q in\n%s", code, want, out)
	}
	out, code = audit("--output", "json")
	var census struct {
		Addresses int
		States    map[string]int
		Findings  []struct{ Sandbox, Address, State, Holder string }
	}
	text, _, _ := strings.Cut(out, "\nsamepod:") // the error behind it
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&census); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code != 1 || census.Addresses != dead+reassigned+alive || census.States["reassigned"] != reassigned || census.States["dead"] != dead-reassigned || len(census.Findings) != dead {
		t.Errorf("exit code %d: %+v", code, census)
	}
	for _, f := range census.Findings {
		var n int
		if _, err := fmt.Sscanf(f.Sandbox, "dead-%d", &n); err != nil {
			t.Errorf("%+v", f)
			continue
		}
		holder := ""
		if n < reassigned {
			holder = fmt.Sprintf("%s/heir-%d-0", namespace, n)
		}
		if f.Holder != holder || f.Address == "" {
			t.Errorf("%+v, want the holder %q", f, holder)
		}
	}
	if out, code := runSamepod(t, "audit", "--kubeconfig", kubeconfig, "--namespaces", "nobody"); code != 0 {
		t.Errorf("where there are no sandboxes: exit code %d\n%s", code, out)
	}
	nobody := must(kube.Kubeconfig(lab.UserNobody, kube.URL))(t)
	if out, code := runSamepod(t, "audit", "--kubeconfig", nobody, "--timeout", "2s"); code != 2 {
		t.Errorf("by somebody who may not read: exit code %d\n%s", code, out)
	}
}
