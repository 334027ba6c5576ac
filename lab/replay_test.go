package lab_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReplays plays the incidents on a real API server and real Envoys. The control
// must show the fault in each of them; the product must not.
func TestReplays(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		c := newCluster(t, must(binaries.race())(t))
		c.startEnvoys(version)

		// 1: the incident that started this. A's container exits; the Pod stays, with
		// its address in its status; B gets the address.
		t.Run("container exits and its address is given away", func(t *testing.T) {
			c.t = t
			x := c.addrs.Take()
			a := c.start(c.create("a1"), x)
			c.until("same-pod", a, x)
			if got := c.ask(c.control, a, x, "control"); got.status != 200 {
				t.Errorf("the control, while A lives: %d", got.status)
			}
			a.Stop()
			c.status(a, corev1.PodFailed, x)
			c.addrs.Release(x)
			b := c.start(c.create("b1"), c.addrs.Take())
			if b.Addr.Addr() != x {
				t.Fatalf("B has %v, not A's %v", b.Addr, x)
			}
			c.until("same-pod", b, x)
			c.wronged(a, b, x)
			c.until("pod-terminal", a, x)
			c.finish(a, b)
		})

		// 2: a controller builds the Pod again under its name, on the same address.
		t.Run("rebuilt under the same name", func(t *testing.T) {
			c.t = t
			x := c.addrs.Take()
			old := c.statefulPod("m", "")
			old = c.start(old, x)
			c.until("same-pod", old, x)
			old.Stop()
			c.delete(old, false)
			rebuilt := c.statefulPod("m", old.uid)
			rebuilt = c.start(rebuilt, x)
			c.until("same-pod", rebuilt, x)
			c.wronged(old, rebuilt, x)
			c.until("pod-replaced", old, x)
			c.finish(old, rebuilt)
		})

		// 3: the Pod lives, but its address changed, and another has the old one.
		t.Run("live Pod lost its address", func(t *testing.T) {
			c.t = t
			x, y := c.addrs.Take(), c.addrs.Take()
			a := c.start(c.create("a3"), x)
			c.until("same-pod", a, x)
			a.Stop()
			b := c.create("b3")
			moved := c.start(a, y)
			b = c.start(b, x)
			c.until("same-pod", b, x)
			c.until("same-pod", moved, y)
			c.wronged(a, b, x)
			c.until("ip-moved", a, x)
			c.finish(a, moved, b)
		})

		// 4: a completed Pod still lists the address of a running one.
		t.Run("completed Pod lists the address", func(t *testing.T) {
			c.t = t
			x := c.addrs.Take()
			job := c.create("job4")
			c.status(job, corev1.PodSucceeded, x)
			b := c.start(c.create("b4"), x)
			c.until("same-pod", b, x) // and not ambiguous
			c.wronged(job, b, x)
			c.until("pod-terminal", job, x)
			c.finish(b)
		})

		// 5: two live Pods have the address in their status.
		t.Run("two live holders", func(t *testing.T) {
			c.t = t
			x := c.addrs.Take()
			a := c.create("a5")
			c.status(a, corev1.PodRunning, x)
			b := c.start(c.create("b5"), x)
			c.until("ip-ambiguous", b, x) // first: until samepod has heard of B, the address is A's
			c.until("ip-ambiguous", a, x)
			c.wronged(a, b, x)
			c.delete(a, false)
			c.until("same-pod", b, x)
			c.until("pod-gone", a, x)
			c.finish(b)
		})

		t.Run("a Pod that is being deleted", func(t *testing.T) {
			c.t = t
			x := c.addrs.Take()
			a := c.start(c.create("a6"), x)
			c.until("same-pod", a, x)
			c.delete(a, true)
			c.until("pod-terminating", a, x)
			a.Stop()
			b := c.start(c.create("b6"), x)
			c.until("same-pod", b, x) // the one that leaves spoils nothing
			c.wronged(a, b, x)
			c.until("pod-terminating", a, x)
			c.delete(a, false)
			c.until("pod-gone", a, x)
			c.finish(a, b)
		})
	})
}

// statefulPod waits for the Pod m-0 of a StatefulSet, which it creates if there is
// none, with another uid than this.
func (c *cluster) statefulPod(set, notUID string) sandbox {
	c.t.Helper()
	if notUID == "" {
		labels := map[string]string{"set": set}
		one := int32(1)
		_, err := c.kube.Client.AppsV1().StatefulSets(c.namespace).Create(c.t.Context(), &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: set},
			Spec: appsv1.StatefulSetSpec{
				Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: set,
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sandbox", Image: "sandbox"}}}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
	}
	s := sandbox{name: set + "-0"}
	eventually(c.t, "the StatefulSet's Pod", func() bool {
		p, err := c.kube.Client.CoreV1().Pods(c.namespace).Get(c.t.Context(), s.name, metav1.GetOptions{})
		if err != nil || string(p.UID) == notUID {
			return false
		}
		s.uid = string(p.UID)
		return true
	})
	return s
}

// TestBurst is aad-pod-identity#1011: Pods that are created at once are known at
// once.
func TestBurst(t *testing.T) {
	c := newCluster(t, must(binaries.race())(t))
	const n = 500
	before := must(c.samepod.Metric("samepod_index_pods"))(t)
	failed := make(chan error, n)
	workers := make(chan struct{}, 16)
	for i := range n {
		workers <- struct{}{}
		go func() {
			defer func() { <-workers }()
			_, err := c.kube.CreatePod(t.Context(), c.namespace, fmt.Sprintf("burst-%d", i))
			failed <- err
		}()
	}
	for range n {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	created := time.Now()
	eventually(t, "all are known", func() bool {
		got, err := c.samepod.Metric("samepod_index_pods")
		return err == nil && got-before >= n
	})
	if took := time.Since(created); took > time.Second {
		t.Errorf("the last of %d Pods was known %v after its creation was acknowledged", n, took)
	}
}
