package kube

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/samepod/samepod/creation"
	"github.com/samepod/samepod/identity"
)

// fleet is an API server without versions, and replicas that want to count.
type fleet struct {
	t      *testing.T
	client *fake.Clientset

	mu      sync.Mutex
	said    []string
	watches []*apiwatch.FakeWatcher // of Pods
}

func newFleet(t *testing.T) *fleet {
	return &fleet{t: t, client: fake.NewClientset()}
}

// replica counts until its context ends.
func (f *fleet) replica(ctx context.Context, name string) (stopped chan struct{}) {
	say := func(format string, args ...any) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.said = append(f.said, name+" "+fmt.Sprintf(format, args...))
	}
	var began time.Time
	c := newCreation(CreationOptions{
		Options: Options{Log: slog.New(slog.DiscardHandler)},
		InScope: func(namespace string) bool { return namespace == "ns" },
		Lease:   identity.NamespacedName{Namespace: "gateway", Name: "samepod"}, Holder: name,
		Begin: func(handover time.Time) *creation.Tracker {
			began = time.Now()
			if !handover.IsZero() {
				say("begins %v after", began.Sub(handover).Round(time.Second))
			}
			return creation.NewTracker(creation.Config{Deadline: time.Minute, Grace: 10 * time.Second, Handover: handover, Tell: func(o creation.Outcome) {
				say("%s %v%v", o.UID, o.Result, o.Exclusion)
			}})
		},
		Counting: func(is bool) { say("counts %v", is) },
	}, f.client)
	stopped = make(chan struct{})
	go func() {
		defer close(stopped)
		if err := c.Run(ctx); err != nil {
			say("%v", err)
		}
	}()
	return stopped
}

// hears is what was said since the last time.
func (f *fleet) hears() string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.said = nil }()
	return strings.Join(f.said, "; ")
}

func (f *fleet) pod(namespace, name, uid string, ready bool) {
	now := metav1.Now()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), CreationTimestamp: now}, Spec: corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{StartTime: &now, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "True", LastTransitionTime: now}, {Type: corev1.PodReadyToStartContainers, Status: "False", LastTransitionTime: now}}},
	}
	if ready {
		p.Status.Conditions[1].Status = "True"
	}
	pods := f.client.CoreV1().Pods(namespace)
	if _, err := pods.Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		if _, err := pods.Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
			f.t.Error(err)
		}
	}
}

// TestElection: one counts; when it stops the other does, and knows since when nobody
// has.
func TestElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		first, stopFirst := context.WithCancel(t.Context())
		second, stopSecond := context.WithCancel(t.Context())
		firstDone := f.replica(first, "first")
		time.Sleep(time.Second)
		secondDone := f.replica(second, "second")
		time.Sleep(time.Minute)
		if got := f.hears(); got != "first counts true" {
			t.Errorf("at first: %s", got)
		}
		f.pod("ns", "a", "uid-a", true)
		f.pod("elsewhere", "b", "uid-b", true)
		if got := f.hears(); got != "first uid-a good" {
			t.Errorf("a Pod: %s", got)
		}
		stopFirst()
		<-firstDone
		if got := f.hears(); got != "first counts false" {
			t.Errorf("stopped: %s", got)
		}
		time.Sleep(6 * time.Second)
		if got := f.hears(); !regexp.MustCompile(`^second begins [0-4]s after; second uid-a excludedleft_censored; second counts true$`).MatchString(got) { // the retry has a jitter
			t.Errorf("then: %s", got)
		}
		stopSecond()
		<-secondDone
	})
}

// TestElectionAfterCrash: a replica that is killed does not let go of the Lease. The
// next one takes it, and takes over what the first one left open.
func TestElectionAfterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		holder, seconds, now := "killed", int32(leaseDuration.Seconds()), metav1.NowMicro()
		_, err := f.client.CoordinationV1().Leases("gateway").Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "gateway", Name: "samepod"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f.pod("ns", "before", "uid-before", true)
		f.pod("ns", "open", "uid-open", false)
		ctx, stop := context.WithCancel(t.Context())
		done := f.replica(ctx, "next")
		time.Sleep(5 * time.Second)
		f.pod("ns", "between", "uid-between", true)
		time.Sleep(20 * time.Second)
		said := f.hears()
		if !regexp.MustCompile(`^next begins (1[5-9]|20)s after; `).MatchString(said) {
			t.Error(said)
		}
		for _, want := range []string{"uid-before excludedleft_censored", "uid-between good", "next counts true"} {
			if !strings.Contains(said, want) {
				t.Errorf("no %s in %s", want, said)
			}
		}
		time.Sleep(80 * time.Second)
		f.pod("ns", "word", "uid-word", true)
		time.Sleep(5 * time.Second)
		if said := f.hears(); said != "next uid-word good; next uid-open bad" {
			t.Error(said)
		}
		stop()
		<-done
	})
}

// TestCreationSilentWatch: what is not heard is not bad.
func TestCreationSilentWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		ctx, stop := context.WithCancel(t.Context())
		done := f.replica(ctx, "r")
		time.Sleep(time.Second)
		f.pod("ns", "a", "uid-a", false)
		time.Sleep(10 * time.Minute)
		if got := f.hears(); got != "r counts true" {
			t.Errorf("nothing was heard, and it says: %s", got)
		}
		f.pod("elsewhere", "b", "uid-b", true)
		time.Sleep(5 * time.Second)
		if got := f.hears(); got != "r uid-a bad" {
			t.Errorf("something was heard, and it says: %q", got)
		}
		stop()
		<-done
	})
}

// TestCreationMissedDeletion: while the watch was broken a Pod was deleted, and another made
// under its name.
func TestCreationMissedDeletion(t *testing.T) {
	for _, silence := range []time.Duration{5 * time.Second, 10 * time.Minute} {
		missDeletion(t, silence)
	}
}

// missDeletion has a watch of Pods break after it has told nothing for so long.
func missDeletion(t *testing.T, silence time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		// Every watch of Pods hears nothing, and can be broken.
		f.client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
			w := apiwatch.NewFake()
			f.mu.Lock()
			defer f.mu.Unlock()
			f.watches = append(f.watches, w)
			return true, w, nil
		})
		ctx, stop := context.WithCancel(t.Context())
		f.pod("ns", "a", "uid-1", false)
		f.pod("ns", "gone", "uid-gone", false)
		done := f.replica(ctx, "r")
		time.Sleep(silence)
		f.pod("ns", "a", "uid-2", true)
		if err := f.client.CoreV1().Pods("ns").Delete(ctx, "gone", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		f.watches[0].Error(&metav1.Status{Status: "Failure", Code: 410, Reason: metav1.StatusReasonExpired})
		f.watches[0].Stop()
		f.mu.Unlock()
		time.Sleep(time.Minute)
		got := strings.Split(f.hears(), "; ")
		slices.Sort(got)
		if want := "r counts true; r uid-1 excludeddeleted_early; r uid-2 good; r uid-gone excludeddeleted_early"; strings.Join(got, "; ") != want {
			t.Errorf("after %v: %s, want %s", silence, got, want)
		}
		stop()
		<-done
	})
}

// 8 of the pitfalls: what is not needed is not asked for, and not kept.
func TestPitfall8Memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		ctx, stop := context.WithCancel(t.Context())
		done := f.replica(ctx, "r")
		time.Sleep(5 * time.Second)
		stop()
		<-done
		var selectors []string
		for _, a := range f.client.Actions() {
			if w, ok := a.(clienttesting.WatchAction); ok && a.GetResource().Resource == "events" {
				selectors = append(selectors, w.GetWatchRestrictions().Fields.String())
			}
		}
		for _, reason := range creation.Reasons() {
			if want := "involvedObject.kind=Pod,reason=" + reason; !slices.Contains(selectors, want) {
				t.Errorf("no watch of %s in %v", want, selectors)
			}
		}
		if len(selectors) != len(creation.Reasons()) {
			t.Errorf("%d watches of events", len(selectors))
		}
	})
	var list corev1.PodList
	recorded(t, "kubelet-1.35.4-after-sandbox-kill.json", &list)
	pod := &list.Items[0]
	before := creationPod(pod)
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	trimmed, err := trimCreation(pod.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	got := trimmed.(*corev1.Pod)
	if len(got.ManagedFields)+len(got.Spec.Containers)+len(got.Spec.Tolerations)+len(got.Annotations) > 0 {
		t.Errorf("kept: %+v", got)
	}
	if after := creationPod(got); after != before {
		t.Errorf("trimmed too much: %+v, want %+v", after, before)
	}
	for _, o := range []runtime.Object{&corev1.Event{ObjectMeta: metav1.ObjectMeta{ManagedFields: pod.ManagedFields}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{ManagedFields: pod.ManagedFields}, Spec: corev1.NodeSpec{ProviderID: "x"}}} {
		if trimmed, err := trimCreation(o); err != nil || strings.Contains(fmt.Sprintf("%+v", trimmed), "kubelet") || strings.Contains(fmt.Sprintf("%+v", trimmed), "ProviderID:x") {
			t.Errorf("%v %v", trimmed, err)
		}
	}
}
