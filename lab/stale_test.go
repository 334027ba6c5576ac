package lab_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/samepod/samepod/lab"
)

// The two tests of this file take minutes of real time, since the bounds are those
// of the service, and run beside each other.

// TestStaleView is OpenSandbox#1533: the API server's connection goes silent, which
// no error tells. Up to the bound the last word serves; beyond it every check is
// 503, readiness drops, health stays SERVING; when the network is back, so is the
// service, by itself.
func TestStaleView(t *testing.T) {
	if testing.Short() {
		t.Skip("two minutes of real time")
	}
	t.Parallel()
	kube := sharedKube(t)
	c := newCluster(t, must(binaries.race())(t))
	proxy := must(c.StartProxy(strings.TrimPrefix(kube.URL, "https://")))(t)
	kubeconfig := must(kube.Kubeconfig(lab.UserSamepod, "https://"+proxy.Addr.String()))(t)
	behind := must(c.StartSamepod(t.Context(), "behind-proxy", must(binaries.race())(t), "--config", c.Dir+"/samepod.yaml", "--source", "kube", "--kubeconfig", kubeconfig))(t)
	if err := behind.WaitReady(t.Context(), true, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	c.samepod = behind
	c.startEnvoys(lab.NewestEnvoy())

	x := c.addrs.Take()
	a := c.start(c.create("a"), x)
	c.until("same-pod", a, x)
	proxy.Pause()
	paused := time.Now()

	// The world goes on, and samepod does not see it: this is what passive freshness
	// cannot know, and why its bound is what it is.
	a.Stop()
	c.status(a, corev1.PodFailed, x)
	b := c.start(c.create("b"), x)

	for {
		got := c.ask(c.product, a, x, "control")
		if got.reason() == "view-stale" {
			break
		}
		if got.status != 200 {
			t.Fatalf("%v after the last word: %d %s", time.Since(paused), got.status, got.body)
		}
		if time.Since(paused) > 100*time.Second {
			t.Fatal("not stale 100 s after the last word")
		}
		time.Sleep(500 * time.Millisecond)
	}
	staleAfter := time.Since(paused)
	if staleAfter < 85*time.Second || staleAfter > 95*time.Second {
		t.Errorf("stale %v after the last word, want 90 s", staleAfter)
	}
	checkProblem(t, "stale", c.ask(c.product, a, x, "for nobody"), 503, "view-stale", false)
	checkProblem(t, "stale for another", c.ask(c.product, b, x, "for nobody"), 503, "view-stale", false)
	ready, said := behind.Ready()
	if ready || !strings.HasPrefix(said, "not ready: pods: stale\n") || !strings.Contains(said, "unproven") {
		t.Errorf("readiness: %v\n%s", ready, said)
	}
	if v, err := behind.Metric(`samepod_feed_stale{feed="pods"}`); v != 1 || err != nil {
		t.Errorf("samepod_feed_stale = %v, %v", v, err)
	}
	if n, err := c.product.Stat("cluster.samepod_authz.membership_healthy"); n != 1 || err != nil {
		t.Errorf("Envoy sees %d healthy samepods, %v: a stale one must answer for itself", n, err)
	}

	proxy.Resume()
	resumed := time.Now()
	eventually(t, "ready again", func() bool { ready, _ := behind.Ready(); return ready })
	t.Logf("stale after %v, ready %v after the network was back", staleAfter.Round(time.Millisecond), time.Since(resumed).Round(time.Millisecond))
	c.until("pod-terminal", a, x)
	c.until("same-pod", b, x)
	log := must(c.product.WaitForAccessLog(t.Context(), c.requests))(t)
	if err := lab.CheckInvariant(log); err != nil {
		t.Error(err)
	}
}

// TestQuietCluster: a real API server says something often enough. Nothing happens
// in the namespace that is watched, for longer than the bound, and it never gets
// stale and never has to be listed again.
func TestQuietCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("150 s of real time")
	}
	t.Parallel()
	kube := sharedKube(t)
	l := newLab(t)
	if err := kube.CreateNamespace(t.Context(), "quiet"); err != nil {
		t.Fatal(err)
	}
	config := writeConfig(t, l, must(lab.NewAddresses(lab.ExecdPort))(t))
	kubeconfig := must(kube.Kubeconfig(lab.UserSamepod, kube.URL))(t)
	s := must(l.StartSamepod(t.Context(), "samepod", must(binaries.race())(t), "--config", config, "--source", "kube", "--kubeconfig", kubeconfig, "--watch-namespaces", "quiet,sandboxes"))(t)
	if err := s.WaitReady(t.Context(), true, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	oldest := 0.0
	for started := time.Now(); time.Since(started) < 150*time.Second; time.Sleep(time.Second) {
		age, err := s.Metric(`samepod_feed_age_seconds{feed="pods in quiet"}`)
		if err != nil {
			t.Fatal(err)
		}
		oldest = max(oldest, age)
		if ready, said := s.Ready(); !ready {
			t.Fatalf("not ready after %v:\n%s", time.Since(started), said)
		}
	}
	t.Logf("the oldest word of a quiet watch was %.1f s old", oldest)
	if oldest > 75 {
		t.Errorf("a quiet watch was silent for %.1f s, so it was ended; the API server's bookmarks should have kept it", oldest)
	}
}
