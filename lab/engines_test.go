package lab_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/samepod/samepod/lab"
)

// The engines' steps leave the objects as the real controllers do, gaps included.

// shape is what a BatchSandbox says.
func shape(t *testing.T, o *lab.OpenSandbox, id string) string {
	t.Helper()
	bs := must(o.Sandbox(t.Context(), id))(t)
	phase, _, _ := unstructured.NestedString(bs.Object, "status", "phase")
	ready, _, _ := unstructured.NestedInt64(bs.Object, "status", "ready")
	seen, _, _ := unstructured.NestedInt64(bs.Object, "status", "pauseObservedGeneration")
	return fmt.Sprintf("%s %s ready=%d lag=%d", bs.GetAnnotations()["sandbox.opensandbox.io/endpoints"], phase, ready, bs.GetGeneration()-seen)
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s; want %s", what, got, want)
	}
}

func TestOpenSandboxSteps(t *testing.T) {
	_, o, addrs := newOpenSandbox(t)
	ctx, addr := t.Context(), addrs.Take()
	pod := sandboxA + "-0"
	uid := func() string { return string(must(o.Get(ctx, pod))(t).UID) }
	must(o.Create(ctx, sandboxA, nil))(t)
	expect(t, "created", shape(t, o, sandboxA), "  ready=0 lag=1")
	succeed(t, o.Reconcile(ctx, sandboxA))
	expect(t, "its first pass saw no Pod", shape(t, o, sandboxA), "  ready=0 lag=1")
	succeed(t, o.Reconcile(ctx, sandboxA))
	expect(t, "a Pod without an address", shape(t, o, sandboxA), `[""] Pending ready=0 lag=0`)
	must(o.Run(ctx, pod, addr))(t)
	list := fmt.Sprintf("[%q]", addr)
	succeed(t, o.PublishEndpoints(ctx, must(o.Look(ctx, sandboxA))(t)))
	expect(t, "endpoints come before status", shape(t, o, sandboxA), list+" Pending ready=0 lag=0")
	succeed(t, o.Reconcile(ctx, sandboxA))
	expect(t, "runs", shape(t, o, sandboxA), list+" Succeed ready=1 lag=0")

	first := uid()
	succeed(t, o.Exit(ctx, pod, corev1.PodFailed))
	expect(t, "its Pod failed, and the controller is out", shape(t, o, sandboxA), list+" Succeed ready=1 lag=0")
	succeed(t, o.Reconcile(ctx, sandboxA))
	expect(t, "its Pod failed, and the address stays", shape(t, o, sandboxA), list+" Pending ready=0 lag=0")
	succeed(t, o.Delete(ctx, pod, false))
	succeed(t, o.Reconcile(ctx, sandboxA))
	expect(t, "its Pod is gone and created again", shape(t, o, sandboxA), `[] Pending ready=0 lag=0`)
	if uid() == first {
		t.Error("the Pod that was created again has the same uid")
	}

	must(o.Run(ctx, pod, addr))(t)
	succeed(t, o.Reconcile(ctx, sandboxA))
	second := uid()
	succeed(t, o.Edit(ctx, sandboxA, tree{"spec": tree{"pause": true}}))
	succeed(t, o.AckPause(ctx, sandboxA))
	expect(t, "pausing", shape(t, o, sandboxA), list+" Pausing ready=1 lag=0")
	succeed(t, o.Reconcile(ctx, sandboxA))
	succeed(t, o.CompletePause(ctx, sandboxA))
	succeed(t, o.Reconcile(ctx, sandboxA))
	expect(t, "paused", shape(t, o, sandboxA), "[] Paused ready=0 lag=0")
	succeed(t, o.Resume(ctx, sandboxA))
	if got := must(o.Get(ctx, pod))(t); string(got.UID) == second || !strings.Contains(got.Spec.Containers[0].Image, "/"+sandboxA+"-sandbox:snap-gen") {
		t.Errorf("resumed: %s of %s, was %s", got.UID, got.Spec.Containers[0].Image, second)
	}
	third := addrs.Take()
	list = fmt.Sprintf("[%q]", third)
	must(o.BringUp(ctx, sandboxA, third))(t)
	expect(t, "resumed", shape(t, o, sandboxA), list+" Succeed ready=1 lag=1")

	// The controller takes every change from now on for a resume: its own, of the images,
	// and a renewal. Neither that phase nor pauseObservedGeneration proves a pause.
	for _, change := range []tree{{}, {"spec": tree{"expireTime": time.Now().Add(time.Hour).Format(time.RFC3339)}}} {
		succeed(t, o.Edit(ctx, sandboxA, change))
		expect(t, "changed", shape(t, o, sandboxA), list+" Succeed ready=1 lag=1")
		succeed(t, o.Reconcile(ctx, sandboxA))
		expect(t, "resuming, it thinks", shape(t, o, sandboxA), list+" Resuming ready=1 lag=0")
		succeed(t, o.Reconcile(ctx, sandboxA))
		expect(t, "as it was", shape(t, o, sandboxA), list+" Succeed ready=1 lag=0")
	}
	succeed(t, o.Expire(ctx, sandboxA))
	succeed(t, o.Delete(ctx, pod, false))
	succeed(t, o.Reconcile(ctx, sandboxA))
	must(o.Run(ctx, pod, addr))(t)
	late := must(o.Look(ctx, sandboxA))(t)
	succeed(t, o.Edit(ctx, sandboxA, tree{"spec": tree{"expireTime": "2020-01-01T00:00:00Z"}}))
	succeed(t, o.Expire(ctx, sandboxA))
	if _, err := o.Sandbox(ctx, sandboxA); !apierrors.IsNotFound(err) {
		t.Errorf("expired: %v", err)
	}
	must(o.Create(ctx, sandboxA, nil))(t)
	must(o.Get(ctx, pod))(t) // of the first one
	succeed(t, o.PublishEndpoints(ctx, late))
	expect(t, "another sandbox of the name has the first one's address", shape(t, o, sandboxA), fmt.Sprintf("[%q]", addr)+"  ready=0 lag=1")
	succeed(t, o.Collect(ctx))
	succeed(t, o.Reconcile(ctx, sandboxA))
}

func TestOpenSandboxPoolSteps(t *testing.T) {
	_, o, addrs := newOpenSandbox(t)
	ctx := t.Context()
	succeed(t, o.CreatePool(ctx, "pool", lab.RecycleRestart))
	p := must(o.WarmPod(ctx, "pool", addrs.Take()))(t)
	succeed(t, o.StartPooled(ctx, sandboxA, "pool", p))
	expect(t, "pooled", shape(t, o, sandboxA), fmt.Sprintf("[%q] Succeed ready=1 lag=0", p.Addr.Addr()))
	id := func() string { return must(o.Get(ctx, p.Name))(t).Status.ContainerStatuses[0].ContainerID }
	before := id()
	succeed(t, o.RecyclePod(ctx, sandboxA, p.Name))
	if pod := must(o.Get(ctx, p.Name))(t); id() == before || string(pod.UID) != p.UID || pod.Annotations["sandbox.opensandbox.io/restart-record"] == "" {
		t.Errorf("restarted: %s was %s, %+v", id(), before, pod.ObjectMeta)
	}

	succeed(t, o.Pause(ctx, sandboxA))
	bs := must(o.Sandbox(ctx, sandboxA))(t)
	if _, has, _ := unstructured.NestedString(bs.Object, "spec", "poolRef"); has || bs.GetAnnotations()["sandbox.opensandbox.io/alloc-status"] == "" || len(bs.GetFinalizers()) != 0 {
		t.Errorf("paused: %+v", bs.Object)
	}
	succeed(t, o.Resume(ctx, sandboxA))
	if pod := must(o.Get(ctx, sandboxA+"-0"))(t); pod.OwnerReferences[0].UID != bs.GetUID() || pod.Annotations["sandbox.opensandbox.io/restart-record"] == "" {
		t.Errorf("resumed: %+v", pod.ObjectMeta)
	}

	succeed(t, o.StartPooled(ctx, sandboxB, "pool", p))
	succeed(t, o.AllocateNewer(ctx, sandboxB, "pool", 1, p.Name))
	succeed(t, o.Remove(ctx, sandboxB))
	if got := must(o.Sandbox(ctx, sandboxB))(t); got.GetDeletionTimestamp() == nil {
		t.Error("a pooled sandbox went at once")
	}
	succeed(t, o.ConfirmRelease(ctx, sandboxB, p.Name))
	if _, err := o.Sandbox(ctx, sandboxB); !apierrors.IsNotFound(err) {
		t.Errorf("released: %v", err)
	}
}

func TestAgentSandboxSteps(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		t.Run(version, func(t *testing.T) {
			kube, namespace := engineNamespace(t, lab.CRDSandboxes, lab.CRDSandboxClaims)
			l := newLab(t)
			a := must(l.NewAgentSandbox(kube, namespace, version))(t)
			addrs := must(lab.NewAddresses(lab.AgentSandboxPort))(t)
			ctx, addr := t.Context(), addrs.Take()
			says := func() string {
				s := must(a.Sandbox(ctx, "box"))(t)
				ips, _, _ := unstructured.NestedStringSlice(s.Object, "status", "podIPs")
				conditions, _, _ := unstructured.NestedSlice(s.Object, "status", "conditions")
				text := fmt.Sprintf("%v %q", ips, s.GetAnnotations()["agents.x-k8s.io/pod-name"])
				for _, c := range conditions {
					if c := c.(tree); c["status"] == "True" {
						text += fmt.Sprintf(" %s=%s", c["type"], c["reason"])
					}
				}
				return text
			}
			must(a.StartWarm(ctx, "box", "warm", addr))(t)
			serves := fmt.Sprintf(`[%s] "box" Ready=DependenciesReady`, addr)
			expect(t, "runs", says(), serves)
			uid := must(a.Get(ctx, "box"))(t).UID
			succeed(t, a.Claim(ctx, "claim", "box"))
			if pod := must(a.Get(ctx, "box"))(t); pod.UID != uid || pod.Labels["agents.x-k8s.io/warm-pool-sandbox"] != "" || pod.Labels["agents.x-k8s.io/claim-uid"] == "" {
				t.Errorf("claimed: %+v", pod.ObjectMeta)
			}
			succeed(t, a.Suspend(ctx, "box"))
			expect(t, "to be suspended", says(), serves)
			succeed(t, a.Reconcile(ctx, "box"))
			expect(t, "its Pod is terminating", says(), fmt.Sprintf(`[%s] "box"`, addr))
			succeed(t, a.Delete(ctx, "box", false))
			succeed(t, a.Reconcile(ctx, "box"))
			expect(t, "suspended", says(), `[] "" Suspended=PodTerminated`)
			succeed(t, a.Resume(ctx, "box"))
			succeed(t, a.Reconcile(ctx, "box"))
			must(a.Run(ctx, "box", addr))(t)
			succeed(t, a.Reconcile(ctx, "box"))
			expect(t, "resumed", says(), serves)
			if must(a.Get(ctx, "box"))(t).UID == uid {
				t.Error("resumed with the same Pod uid")
			}
			succeed(t, a.Exit(ctx, "box", corev1.PodFailed))
			succeed(t, a.Reconcile(ctx, "box"))
			expect(t, "its Pod failed, and the address stays", says(), fmt.Sprintf(`[%s] "box" Finished=PodFailed`, addr))
			succeed(t, a.Edit(ctx, "box", tree{"spec": tree{"shutdownTime": "2020-01-01T00:00:00Z"}}))
			succeed(t, a.Reconcile(ctx, "box"))
			expect(t, "expired", says(), `[] "box"`)
			must(a.Rebuild(ctx, "box"))(t)
			succeed(t, a.Collect(ctx))
			must(a.Start(ctx, "second", addr))(t)
		})
	}
}

// A kind can go, and come in an older version: one at a time, for they have one name.
func TestCRDs(t *testing.T) {
	kube, namespace := engineNamespace(t, lab.CRDSandboxes)
	succeed(t, kube.RemoveCRDs(t.Context(), lab.CRDSandboxes))
	succeed(t, kube.InstallCRDs(t.Context(), lab.CRDSandboxesV1Alpha1))
	t.Cleanup(func() { succeed(t, kube.RemoveCRDs(bg, lab.CRDSandboxesV1Alpha1)) })
	l := newLab(t)
	for version, served := range map[string]bool{"v1alpha1": true, "v1beta1": false} {
		a := must(l.NewAgentSandbox(kube, namespace, version))(t)
		if _, err := a.Create(t.Context(), "box"); (err == nil) != served {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// A user may read the engines' kinds when it is let.
func TestGrantEngines(t *testing.T) {
	kube, namespace := engineNamespace(t, lab.CRDBatchSandboxes)
	succeed(t, kube.GrantEngines(t.Context(), lab.UserReader, "get"))
	succeed(t, kube.GrantEngines(t.Context(), lab.UserReader, "get", "list", "watch"))
	config := kube.Config()
	config.BearerToken = lab.UserReader
	client := must(dynamic.NewForConfig(config))(t)
	sandboxes := schema.GroupVersionResource{Group: "sandbox.opensandbox.io", Version: "v1alpha1", Resource: "batchsandboxes"}
	eventually(t, "samepod may list", func() bool {
		_, err := client.Resource(sandboxes).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
}
