package lab_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/samepod/samepod/lab"
)

// TestOpenSandboxPools has the faults of TestControlOpenSandboxPool, and what else can be
// wrong with Pods of pools, before the product. Nothing on such a Pod says whose it is.
func TestOpenSandboxPools(t *testing.T) {
	t.Parallel()
	l, o, addrs := newOpenSandbox(t)
	ctx := t.Context()
	g := newGateway(t, l, o.Kube, opensandboxConfig(o.Namespace, addrs, ""))
	g.front(lab.NewestEnvoy(), g.samepod)
	for _, recycle := range []lab.Recycle{lab.RecycleDelete, lab.RecycleRestart, lab.RecycleNoop} {
		succeed(t, o.CreatePool(ctx, poolOf(recycle), recycle))
	}
	// pooled is a sandbox that serves from a Pod of a pool.
	pooled := func(recycle lab.Recycle) (string, *lab.Pod) {
		g.t.Helper()
		id, p := newID(), must(o.WarmPod(ctx, poolOf(recycle), addrs.Take()))(g.t)
		succeed(g.t, o.StartPooled(ctx, id, poolOf(recycle), p))
		g.owns(id, p)
		g.until(p.Name, id)
		return id, p
	}

	for _, recycle := range []lab.Recycle{lab.RecycleDelete, lab.RecycleRestart, lab.RecycleNoop} {
		g.run("handed on, "+string(recycle), func(t *testing.T) {
			a, p := pooled(recycle)
			succeed(t, o.RequestRelease(ctx, a, p.Name))
			if got := g.ask(a); said(got) != "pod-gone" && recycle != lab.RecycleDelete { // at once: the API server itself was asked
				t.Errorf("asks to give it back: %d %s", got.status, got.body)
			}
			g.until("pod-gone", a)
			before := executed(p, a)
			succeed(t, o.RecyclePod(ctx, a, p.Name))
			succeed(t, o.ConfirmRelease(ctx, a, p.Name))
			b, next := newID(), p
			if recycle == lab.RecycleDelete {
				next = must(o.WarmPod(ctx, poolOf(recycle), p.Addr.Addr()))(t)
			}
			g.owns(b, next)
			succeed(t, o.StartPooled(ctx, b, poolOf(recycle), next))
			g.until(next.Name, b)
			checkProblem(t, "A, after it was handed on", g.ask(a), 409, "pod-gone", false)
			if executed(p, a) != before || executed(next, b) != 1 {
				t.Errorf("executed for A %d times, was %d; for B %d times", executed(p, a), before, executed(next, b))
			}
		})
	}

	g.run("handed on behind samepod's back", func(t *testing.T) {
		a, p := pooled(lab.RecycleNoop)
		proxy, late := g.behindProxy("late")
		defer proxy.Resume()
		until(t, p.Name, func() call { return g.send(late, a, header(a)...) })
		proxy.Hold()
		succeed(t, o.RequestRelease(ctx, a, p.Name))
		before := executed(p, a)
		succeed(t, o.ConfirmRelease(ctx, a, p.Name))
		b := newID()
		g.owns(b, p)
		succeed(t, o.StartPooled(ctx, b, poolOf(lab.RecycleNoop), p))
		until(t, "pod-gone", func() call { return g.send(late, a, header(a)...) })
		if got := said(g.send(late, b, header(b)...)); got != "pod-shared" { // as far as it knows A has it too
			t.Errorf("B: %s", got)
		}
		if n := executed(p, a); n != before {
			t.Errorf("A's caller reached the Pod %d times while it was B's", n-before)
		}
		proxy.Resume()
		until(t, p.Name, func() call { return g.send(late, b, header(b)...) })
	})

	g.run("given to two", func(t *testing.T) {
		a, p := pooled(lab.RecycleDelete)
		b := newID()
		succeed(t, o.StartPooled(ctx, b, poolOf(lab.RecycleDelete), p))
		for _, id := range []string{b, a} {
			g.until("pod-shared", id)
			checkProblem(t, id, g.ask(id), 409, "pod-shared", false)
		}
		succeed(t, o.Remove(ctx, b))
		g.until(p.Name, a)
		g.until("sandbox-gone", b)
	})

	g.run("what a pause leaves", func(t *testing.T) {
		a, p := pooled(lab.RecycleNoop)
		succeed(t, o.Pause(ctx, a))
		g.until("sandbox-suspended", a)
		b := newID()
		g.owns(b, p)
		succeed(t, o.StartPooled(ctx, b, poolOf(lab.RecycleNoop), p)) // A's alloc-status names it still
		g.until(p.Name, b)
		before := executed(p, a)
		succeed(t, o.Resume(ctx, a))
		own := g.owns(a, must(o.BringUp(ctx, a, addrs.Take()))(t))
		g.until(own.Name, a)
		g.until(p.Name, b)
		if n := executed(p, a); n != before {
			t.Errorf("A's caller reached the Pod %d times while it was B's", n-before)
		}
	})

	g.run("dead, and the controller does not notice", func(t *testing.T) {
		a, p := pooled(lab.RecycleDelete)
		succeed(t, o.Exit(ctx, p.Name, corev1.PodFailed))
		b, next := newID(), must(o.WarmPod(ctx, poolOf(lab.RecycleDelete), p.Addr.Addr()))(t)
		g.owns(b, next)
		succeed(t, o.StartPooled(ctx, b, poolOf(lab.RecycleDelete), next))
		g.until(next.Name, b)
		g.until("pod-terminal", a)
		succeed(t, o.Delete(ctx, p.Name, false))
		g.until("pod-gone", a)
		if bs := must(o.Sandbox(ctx, a))(t); bs.GetAnnotations()["sandbox.opensandbox.io/endpoints"] != `["`+p.Addr.Addr().String()+`"]` {
			t.Error("A's endpoints are not what they were; without the fault this shows nothing")
		}
	})

	g.run("not given yet", func(t *testing.T) {
		for _, pool := range []string{poolOf(lab.RecycleNoop), "*"} {
			id := newID()
			must(o.Create(ctx, id, tree{"poolRef": pool}))(t)
			g.until("not-assigned", id)
			checkProblem(t, pool, g.ask(id), 503, "not-assigned", false)
		}
	})
	g.finish()
}

// poolOf is the name of the pool that recycles so.
func poolOf(recycle lab.Recycle) string {
	return map[lab.Recycle]string{lab.RecycleDelete: "deletes", lab.RecycleRestart: "restarts", lab.RecycleNoop: "hands-on"}[recycle]
}

// TestOpenSandboxFaults: the statuses are those of the ingress for the same faults.
func TestOpenSandboxFaults(t *testing.T) {
	t.Parallel()
	l, o, addrs := newOpenSandbox(t)
	ctx := t.Context()
	g := newGateway(t, l, o.Kube, opensandboxConfig(o.Namespace, addrs, ""))
	g.front(lab.NewestEnvoy(), g.samepod)
	for _, tc := range []struct {
		what   string
		header []string
		status int
		reason string
	}{
		{"no route", nil, 400, "claim-malformed"}, // Host is one, and 127 is no id and port
		{"no port", []string{"OpenSandbox-Ingress-To", sandboxA}, 400, "claim-malformed"},
		{"two routes", append(header(sandboxA), header(sandboxB)...), 400, "claim-conflict"},
		{"nobody's", header(sandboxA), 404, "unknown-sandbox"},
		{"a port that is not allowed", []string{"OpenSandbox-Ingress-To", sandboxB + "-80"}, 404, "unknown-sandbox"},
	} {
		checkProblem(t, tc.what, g.send(g.envoy, sandboxA, tc.header...), tc.status, tc.reason, false)
	}
	a := g.owns(sandboxA, must(o.Start(ctx, sandboxA, addrs.Take()))(t))
	if got := g.ask(sandboxA); said(got) != a.Name && got.status != 503 { // never 404: a read asks the API server
		t.Errorf("right after it was created: %d %s", got.status, got.body)
	}
	g.until(a.Name, sandboxA)
	checkProblem(t, "a port that is not allowed", g.send(g.envoy, sandboxA, "OpenSandbox-Ingress-To", sandboxA+"-80"), 403, "port-not-allowed", false)
	succeed(t, o.Annotate(ctx, sandboxA, "opensandbox.io/secure-access-token", accessToken))
	g.until("access-denied", sandboxA)
	checkProblem(t, "no token", g.ask(sandboxA), 401, "access-denied", false)
	if got := g.ask(sandboxA, "OpenSandbox-Secure-Access", accessToken); said(got) != a.Name {
		t.Errorf("with the token: %d %s", got.status, got.body)
	}
	succeed(t, o.Edit(ctx, sandboxA, tree{"metadata": tree{"annotations": tree{"opensandbox.io/secure-access-token": nil}}}))
	g.until(a.Name, sandboxA)
	succeed(t, o.Edit(ctx, sandboxA, tree{"spec": tree{"pause": true}}))
	succeed(t, o.AckPause(ctx, sandboxA))
	g.until("sandbox-suspended", sandboxA)
	checkProblem(t, "pausing", g.ask(sandboxA), 503, "sandbox-suspended", false)

	must(o.Rebuild(ctx, sandboxA))(t) // another sandbox of the name, with the first one's Pod
	g.until("not-assigned", sandboxA)
	succeed(t, o.Collect(ctx))
	again := g.owns(sandboxA, must(o.BringUp(ctx, sandboxA, addrs.Take()))(t))
	g.until(again.Name, sandboxA)
	succeed(t, o.Edit(ctx, sandboxA, tree{"spec": tree{"expireTime": "2020-01-01T00:00:00Z"}}))
	g.until("sandbox-gone", sandboxA)
	checkProblem(t, "expired, and the controller does not notice", g.ask(sandboxA), 409, "sandbox-gone", false)
	g.finish()
}
