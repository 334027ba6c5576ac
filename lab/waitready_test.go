package lab_test

import (
	"testing"
	"time"

	"github.com/samepod/samepod/lab"
)

// TestWaitReady is the first call right after a sandbox was created, whose Pod comes a
// moment later: with --wait-ready it waits, without it fails. Nobody waits longer than
// Envoy does.
func TestWaitReady(t *testing.T) {
	t.Parallel()
	l, o, addrs := newOpenSandbox(t)
	ctx := t.Context()
	g := newGateway(t, l, o.Kube, opensandboxConfig(o.Namespace, addrs, ""))
	plain := g.front(lab.NewestEnvoy(), g.samepod)
	waits := g.front(lab.NewestEnvoy(), g.replica("waits", "--wait-ready", "20s"), "--check-timeout", "20s")

	const sandboxes, comes = 10, 150 * time.Millisecond
	for _, tc := range []struct {
		name  string
		envoy *lab.Envoy
		fails int
	}{{"without --wait-ready", plain, sandboxes}, {"with --wait-ready", waits, 0}} {
		fails, longest := 0, time.Duration(0)
		for range sandboxes {
			id := newID()
			must(o.Create(ctx, id, nil))(t)
			came := make(chan *lab.Pod, 1)
			go func() {
				time.Sleep(comes)
				p, err := o.BringUp(ctx, id, addrs.Take())
				if err != nil {
					t.Error(err)
				}
				came <- p
			}()
			asked := time.Now()
			got := g.send(tc.envoy, id, header(id)...)
			longest = max(longest, time.Since(asked))
			p := <-came
			if p == nil {
				t.FailNow()
			}
			g.owns(id, p)
			switch {
			case got.status == 503 && (got.reason() == "not-assigned" || got.reason() == "pod-not-ready"):
				fails++
			case said(got) != p.Name:
				t.Errorf("%s: %d %s", tc.name, got.status, got.body)
			}
		}
		t.Logf("%s, Pods come %v later: %d of %d first calls fail; the longest took %v", tc.name, comes, fails, sandboxes, longest.Round(time.Millisecond))
		if fails != tc.fails {
			t.Errorf("%s: %d of %d first calls fail, want %d", tc.name, fails, sandboxes, tc.fails)
		}
	}

	// Of an Envoy that waits for half a second the answer is still samepod's.
	g.front(lab.NewestEnvoy(), g.replica("waits-too-long", "--wait-ready", "20s"), "--check-timeout", "500ms")
	id := newID()
	must(o.Create(ctx, id, nil))(t)
	g.until("not-assigned", id)
	asked := time.Now()
	got := g.ask(id)
	t.Logf("a Pod that never comes: %s after %v", said(got), time.Since(asked).Round(time.Millisecond))
	g.finish()
}
