package lab_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/kube"
	sandboxes "github.com/samepod/samepod/identity/sandbox" // sandbox is a Pod with its process here
	"github.com/samepod/samepod/lab"
)

var agentSandboxes = kube.Resource{
	Group: "agents.x-k8s.io", Kind: "Sandbox", Plural: "sandboxes", Versions: []string{"v1beta1", "v1alpha1"},
	Unread: [][]string{{"spec", "podTemplate"}},
}

// decodeAgentSandbox keeps the version of the API as a name, and the pin as what cannot
// be understood.
func decodeAgentSandbox(o map[string]any) sandboxes.Sandbox {
	u := unstructured.Unstructured{Object: o}
	return sandboxes.Sandbox{
		NamespacedName: identity.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()},
		UID:            identity.UID(u.GetUID()), Version: u.GetResourceVersion(), Kind: agentSandboxes.Owner(),
		Names:     []string{u.GroupVersionKind().Version},
		Malformed: u.GetAnnotations()[sandboxes.PinAnnotation],
	}
}

// engineCluster is the real API server with or without the kind Sandbox.
type engineCluster struct {
	t         *testing.T
	kube      *lab.Kube
	namespace string
	index     *sandboxes.Index
}

// newEngineCluster watches a namespace for Sandboxes, which the API server does not know.
func newEngineCluster(t *testing.T, namespace string) *engineCluster {
	t.Helper()
	c := &engineCluster{t: t, kube: sharedKube(t), namespace: namespace}
	for _, err := range []error{
		c.kube.RemoveCRDs(t.Context(), lab.CRDSandboxes),
		c.kube.GrantEngines(t.Context(), lab.UserSamepod, "get", "list", "watch", "patch"),
		c.kube.CreateNamespace(t.Context(), namespace),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := c.kube.RemoveCRDs(bg, lab.CRDSandboxes); err != nil {
			t.Error(err)
		}
	})
	o := c.options(lab.UserSamepod)
	o.Namespaces = []string{namespace}
	pods := identity.NewIndex(identity.HistoryConfig{})
	source := must(kube.New(o, pods))(t)
	c.index = sandboxes.NewIndex(sandboxes.Engine{}, pods)
	if err := kube.Watch(source, agentSandboxes, decodeAgentSandbox, c.index.NewFeed); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- source.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	<-pods.Synced()
	return c
}

func (c *engineCluster) options(user string) kube.Options {
	return kube.Options{Kubeconfig: must(c.kube.Kubeconfig(user, c.kube.URL))(c.t), Bound: 90 * time.Second, UserAgent: "samepod", Log: slog.New(slog.DiscardHandler)}
}

func (c *engineCluster) live(user string) *kube.Live {
	c.t.Helper()
	return must(kube.NewLive(c.options(user), []kube.LiveKind{{
		Resource: agentSandboxes, Decode: decodeAgentSandbox,
		Queries: func(claim identity.Claim) []sandboxes.Query {
			return []sandboxes.Query{{Name: claim.Sandbox}, {Label: "id", Value: claim.Sandbox}}
		},
	}}, nil))(c.t)
}

func (c *engineCluster) sandboxes(version string) dynamic.ResourceInterface {
	c.t.Helper()
	return must(c.kube.Dynamic())(c.t).Resource(schema.GroupVersionResource{Group: agentSandboxes.Group, Version: version, Resource: agentSandboxes.Plural}).Namespace(c.namespace)
}

// create makes a Sandbox and waits until the watch has it.
func (c *engineCluster) create(version, name string) {
	c.t.Helper()
	must(c.sandboxes(version).Create(c.t.Context(), &unstructured.Unstructured{Object: tree{
		"apiVersion": agentSandboxes.Group + "/" + version, "kind": "Sandbox",
		"metadata": tree{"name": name, "labels": tree{"id": "id-of-" + name}}, "spec": tree{"podTemplate": tree{"spec": tree{}}},
	}}, metav1.CreateOptions{}))(c.t)
	eventually(c.t, name, func() bool { return slices.Contains(c.seen(), name+"@"+version) })
}

func (c *engineCluster) seen() []string {
	var all []string
	for _, s := range c.index.All() {
		all = append(all, s.Name+"@"+strings.Join(s.Names, " "))
	}
	return all
}

// hasNone waits until the watch knows that there is no such kind, which it must be sure
// of.
func (c *engineCluster) hasNone() {
	c.t.Helper()
	eventually(c.t, "no such kind", func() bool {
		s := c.index.Feeds()[0]
		return s.Fault == "the API server has no sandboxes.agents.x-k8s.io (its CRD is not installed)" && s.Freshness == identity.Fresh && len(c.seen()) == 0
	})
}

// TestEngineWatch: the kinds of an engine are installed, served in other versions and
// removed while samepod runs.
func TestEngineWatch(t *testing.T) {
	c := newEngineCluster(t, "engine-watch")
	c.hasNone()
	if all, err := c.live(lab.UserSamepod).Find(t.Context(), identity.Claim{Sandbox: "a"}); err != nil || len(all) > 0 {
		t.Errorf("without a CRD: found %v, %v", all, err)
	}
	succeed(t, c.kube.InstallCRDs(t.Context(), lab.CRDSandboxesV1Alpha1))
	c.create("v1alpha1", "a")
	succeed(t, c.sandboxes("v1alpha1").Delete(t.Context(), "a", metav1.DeleteOptions{}))
	eventually(t, "deleted", func() bool { return len(c.seen()) == 0 })
	c.create("v1alpha1", "b")
	succeed(t, c.kube.RemoveCRDs(t.Context(), lab.CRDSandboxes))
	c.hasNone()
	succeed(t, c.kube.InstallCRDs(t.Context(), lab.CRDSandboxes))
	c.create("v1beta1", "c")
}

// TestEngineLive: two replicas write a pin at once; one of them must notice.
func TestEngineLive(t *testing.T) {
	c := newEngineCluster(t, "engine-live")
	succeed(t, c.kube.InstallCRDs(t.Context(), lab.CRDSandboxes))
	c.create("v1beta1", "a")
	ctx := t.Context()
	one, other := c.live(lab.UserSamepod), c.live(lab.UserSamepod)
	name := identity.NamespacedName{Namespace: c.namespace, Name: "a"}
	get := func(l *kube.Live) sandboxes.Sandbox {
		t.Helper()
		s, found, err := l.Get(ctx, agentSandboxes.Owner(), name)
		if err != nil || !found {
			t.Fatalf("get: %v, %v", found, err)
		}
		return s
	}
	first, second := get(one), get(other)
	pinned, err := one.Annotate(ctx, first, "pin of one")
	if err != nil || pinned.Malformed != "pin of one" || pinned.UID != first.UID || pinned.Version == first.Version {
		t.Fatalf("pinned %+v, %v", pinned, err)
	}
	if _, err := other.Annotate(ctx, second, "pin of the other"); !errors.Is(err, sandboxes.ErrConflict) {
		t.Errorf("a second pin of the same version: %v", err)
	}
	rebuilt := get(other)
	rebuilt.UID = "11111111-2222-3333-4444-555555555555"
	if _, err := other.Annotate(ctx, rebuilt, "pin of another"); err == nil {
		t.Error("a pin of another uid is written")
	}
	if got := get(other); got.Malformed != "pin of one" {
		t.Errorf("it has the pin %q", got.Malformed)
	}
	if s, err := other.Annotate(ctx, get(other), ""); err != nil || s.Malformed != "" {
		t.Errorf("unpinned %+v, %v", s, err)
	}
	for _, claim := range []identity.Claim{{Sandbox: "a"}, {Sandbox: "id-of-a"}, {Sandbox: "a", Namespace: c.namespace}, {Sandbox: "id-of-a", Namespace: c.namespace}} {
		if all, err := one.Find(ctx, claim); err != nil || len(all) != 1 || all[0].UID != first.UID {
			t.Errorf("%s in %q: found %v, %v", claim.Sandbox, claim.Namespace, all, err)
		}
	}
	for _, claim := range []identity.Claim{{Sandbox: "b"}, {Sandbox: "a,metadata.name!=b"}, {Sandbox: "a", Namespace: "default"}} {
		if all, err := one.Find(ctx, claim); err != nil || len(all) > 0 {
			t.Errorf("%s in %q: found %v, %v", claim.Sandbox, claim.Namespace, all, err)
		}
	}
	if _, found, err := one.Pod(ctx, name); found || err != nil {
		t.Errorf("a Pod that does not exist: %v, %v", found, err)
	}
	nobody := c.live(lab.UserNobody)
	_, _, errGet := nobody.Get(ctx, agentSandboxes.Owner(), name)
	_, errFind := nobody.Find(ctx, identity.Claim{Sandbox: "a"})
	_, errPin := nobody.Annotate(ctx, get(one), "pin")
	_, _, errPod := nobody.Pod(ctx, name)
	for what, err := range map[string]error{"get": errGet, "find": errFind, "pin": errPin, "pod": errPod} {
		if !errors.Is(err, sandboxes.ErrForbidden) {
			t.Errorf("%s as nobody: %v", what, fmt.Sprint(err))
		}
	}
	succeed(t, c.sandboxes("v1beta1").Delete(ctx, "a", metav1.DeleteOptions{}))
	if _, err := one.Annotate(ctx, pinned, "pin"); !errors.Is(err, sandboxes.ErrConflict) {
		t.Errorf("a pin of what is deleted: %v", err)
	}
	if _, found, err := one.Get(ctx, agentSandboxes.Owner(), name); found || err != nil {
		t.Errorf("what is deleted: %v, %v", found, err)
	}
	c.create("v1beta1", "a")
	if _, err := one.Annotate(ctx, pinned, "pin"); !errors.Is(err, sandboxes.ErrConflict) {
		t.Errorf("a pin of what was built again: %v", err)
	}
}
