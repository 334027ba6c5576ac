package deploy_test

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/samepod/samepod/lab"
)

// installation is a chart's RBAC on the API server, and what runs as its
// ServiceAccount.
type installation struct {
	*cluster
	lab       *lab.Lab
	namespace string // of samepod
	sandboxes string // whose Pods may be named
	other     string // another namespace
	config    string // samepod.yaml
}

// install applies what the chart renders of RBAC. NS stands for the namespace of
// the sandboxes.
func install(t *testing.T, values ...string) *installation {
	t.Helper()
	c := newCluster(t)
	i := &installation{cluster: c, lab: newLab(t), namespace: c.namespace("gateway"), sandboxes: c.namespace("sandboxes"), other: c.namespace("other")}
	values = append([]string{least, inLab, "config: {scope: {namespaces: [NS]}, addresses: {cidrs: [127.0.0.0/8]}}"}, values...)
	for k := range values {
		values[k] = strings.ReplaceAll(values[k], "NS", i.sandboxes)
	}
	objects := mustRender(t, i.namespace, values...)
	for _, o := range objects {
		switch o.GetKind() {
		case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
			if err := c.apply(o, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	i.config = filepath.Join(i.lab.Dir, "samepod.yaml")
	if err := os.WriteFile(i.config, []byte(find[corev1.ConfigMap](t, objects, "ConfigMap").Data["samepod.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

func newLab(t *testing.T) *lab.Lab {
	t.Helper()
	l := lab.New(t.TempDir())
	t.Cleanup(l.Close)
	return l
}

// run starts samepod as the chart's ServiceAccount and nobody else.
func (i *installation) run(args ...string) *lab.Samepod {
	i.t.Helper()
	binary, err := lab.SamepodBinary(i.t.Context(), true)
	if err != nil {
		i.t.Fatal(err)
	}
	kubeconfig, err := i.ServiceAccountKubeconfig(i.t.Context(), i.namespace, "samepod")
	if err != nil {
		i.t.Fatal(err)
	}
	s, err := i.lab.StartSamepod(i.t.Context(), "samepod", binary, append([]string{"--config", i.config, "--source", "kube", "--kubeconfig", kubeconfig}, args...)...)
	if err != nil {
		i.t.Fatal(err)
	}
	return s
}

// knows waits until samepod knows this many Pods.
func (i *installation) knows(s *lab.Samepod, pods int) {
	i.t.Helper()
	if err := s.WaitReady(i.t.Context(), true, 30*time.Second); err != nil {
		i.t.Fatal(err)
	}
	eventually(i.t, fmt.Sprintf("%d Pods are known", pods), func() bool {
		n, err := s.Metric("samepod_index_pods")
		return err == nil && int(n) == pods
	})
}

func (i *installation) pod(namespace, name, addr string) {
	i.t.Helper()
	if _, err := i.CreatePod(i.t.Context(), namespace, name); err != nil {
		i.t.Fatal(err)
	}
	if err := i.SetStatus(i.t.Context(), namespace, name, corev1.PodRunning, netip.MustParseAddr(addr)); err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() {
		_ = i.Client.CoreV1().Pods(namespace).Delete(bg, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
}

// TestClusterRole: with what the chart grants, samepod sees the Pods of every
// namespace, also one whose address is shared across two of them.
func TestClusterRole(t *testing.T) {
	i := install(t)
	i.pod(i.sandboxes, "a", "127.9.0.1")
	i.pod(i.other, "b", "127.9.0.1")
	s := i.run()
	i.knows(s, 2)
	eventually(t, "the shared address is seen", func() bool {
		n, err := s.Metric("samepod_index_shared_addresses")
		return err == nil && n == 1
	})
}

// TestRoles: with a Role in the watched namespace samepod sees its Pods and no
// others, says so, and cannot watch more than it may. The foreign holder of the
// address is invisible: this is what the mode costs.
func TestRoles(t *testing.T) {
	i := install(t, "watchNamespaces: [NS]")
	i.pod(i.sandboxes, "a", "127.9.0.2")
	i.pod(i.other, "b", "127.9.0.2")
	s := i.run("--watch-namespaces", i.sandboxes)
	i.knows(s, 1)
	if n, err := s.Metric("samepod_index_shared_addresses"); n != 0 || err != nil {
		t.Errorf("%v shared addresses, %v: the cost of the mode is less than it is said to be", n, err)
	}
	if _, said := s.Ready(); !strings.Contains(said, "[!] only the namespaces "+i.sandboxes+" are watched: Pods elsewhere that hold the same address are invisible") {
		t.Errorf("/readyz does not say what is lost:\n%s", said)
	}
	s.Kill()
	all := i.run()
	says(t, all, false, `pods is forbidden: User "system:serviceaccount:`+i.namespace+`:samepod" cannot list resource "pods" in API group "" at the cluster scope`)
}

// says waits until /readyz is 200, or 503, and says this.
func says(t *testing.T, s *lab.Samepod, ready bool, want string) {
	t.Helper()
	said := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("/readyz: %s", said)
		}
	})
	eventually(t, "/readyz says "+want, func() bool {
		got, text := s.Ready()
		said = text
		return got == ready && strings.Contains(text, want)
	})
}

// TestVerbs takes the granted verbs away, one by one: what is really needed, and
// what /readyz says without it.
//
// watch alone would do on an API server with streaming lists; list is for those
// without, and for a streaming list that breaks off. Nothing gets yet. Without watch
// samepod lists again and again: its view is some seconds old instead of
// milliseconds, the API server pays for it, and the fault says why.
func TestVerbs(t *testing.T) {
	for _, tc := range []struct {
		verbs string
		ready bool
		says  string
		polls bool
	}{
		{verbs: "list watch", ready: true},
		{verbs: "get watch", ready: true},
		{verbs: "get list", ready: true, says: "cannot watch resource", polls: true},
		{verbs: "get", says: "cannot list resource"},
		{verbs: "", says: "cannot list resource"},
	} {
		t.Run(tc.verbs, func(t *testing.T) {
			i := install(t)
			i.grant(strings.Fields(tc.verbs)...)
			i.pod(i.sandboxes, "a", "127.9.0.3")
			s := i.run()
			if tc.ready {
				i.knows(s, 1)
			}
			says(t, s, tc.ready, tc.says)
			eventually(t, "the lists are as many as expected", func() bool {
				n, err := s.Metric(`samepod_feed_lists_total{feed="pods"}`)
				return err == nil && (n > 2) == tc.polls
			})
		})
	}
}

// grant replaces the verbs of the chart's ClusterRole.
func (i *installation) grant(verbs ...string) {
	i.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "samepod-" + i.namespace}}
	if len(verbs) > 0 {
		role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: verbs}}
	}
	if _, err := i.Client.RbacV1().ClusterRoles().Update(i.t.Context(), role, metav1.UpdateOptions{}); err != nil {
		i.t.Fatal(err)
	}
	eventually(i.t, "the authorizer knows", func() bool { return len(i.may("samepod", i.other, resource{name: "pods"})) == len(verbs) })
}

// resource is one kind that the API server serves, or a subresource of it.
type resource struct{ group, name, sub string }

// may asks the API server what a ServiceAccount of samepod's namespace may do in a
// namespace.
func (i *installation) may(account, namespace string, resources ...resource) map[string]bool {
	i.t.Helper()
	var mu sync.Mutex
	all := map[string]bool{}
	var group errgroup.Group
	group.SetLimit(16)
	for _, r := range resources {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "bind", "escalate"} {
			group.Go(func() error {
				review, err := i.Client.AuthorizationV1().SubjectAccessReviews().Create(i.t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User: "system:serviceaccount:" + i.namespace + ":" + account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + i.namespace, "system:authenticated"},
					ResourceAttributes: &authorizationv1.ResourceAttributes{Group: r.group, Resource: r.name, Subresource: r.sub, Verb: verb, Namespace: namespace},
				}}, metav1.CreateOptions{})
				if err == nil && review.Status.Allowed {
					mu.Lock()
					defer mu.Unlock()
					all[fmt.Sprintf("%s %s/%s/%s", verb, r.group, r.name, r.sub)] = true
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		i.t.Fatal(err)
	}
	return all
}

// more is what samepod may do there that any other ServiceAccount may not.
func (i *installation) more(namespace string, resources ...resource) []string {
	i.t.Helper()
	got, anybody := i.may("samepod", namespace, resources...), i.may("default", namespace, resources...)
	maps.DeleteFunc(got, func(what string, _ bool) bool { return anybody[what] })
	return slices.Sorted(maps.Keys(got))
}

// served is everything that the API server serves.
func (i *installation) served() []resource {
	i.t.Helper()
	_, lists, err := i.Client.Discovery().ServerGroupsAndResources()
	if err != nil {
		i.t.Fatal(err)
	}
	var all []resource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			i.t.Fatal(err)
		}
		for _, r := range list.APIResources {
			name, sub, _ := strings.Cut(r.Name, "/")
			if next := (resource{version.Group, name, sub}); !slices.Contains(all, next) {
				all = append(all, next)
			}
		}
	}
	return all
}

// TestMayNothingElse: of everything that the API server serves, the chart's
// ServiceAccount may read Pods and the objects of its engine, and pin the sandboxes that
// may be named: no Secret, no other write, no subresource such as exec. With that it is
// ready.
func TestMayNothingElse(t *testing.T) {
	reads := func(kind string) []string { return []string{"get " + kind, "list " + kind, "watch " + kind} }
	const batch, pools, agent = "sandbox.opensandbox.io/batchsandboxes/", "sandbox.opensandbox.io/pools/", "agents.x-k8s.io/sandboxes/"
	listed := []string{"list " + pools, "watch " + pools}
	for _, tc := range []struct {
		name, values string
		reads        []string // besides Pods
		pins         []string // in the namespaces that may be named
	}{
		{"claim", "", nil, nil},
		{"opensandbox", "config: {dialect: opensandbox}", slices.Concat(reads(batch), listed), []string{"patch " + batch}},
		{"opensandbox in memory", "{config: {dialect: opensandbox}, pins: memory}", slices.Concat(reads(batch), listed), nil},
		{"opensandbox of both", "config: {dialect: opensandbox, opensandbox: {providers: [agent-sandbox, batchsandbox]}}", slices.Concat(reads(batch), listed, reads(agent)), []string{"patch " + batch, "patch " + agent}},
		{"agent-sandbox", "config: {dialect: agent-sandbox}", reads(agent), []string{"patch " + agent}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := install(t, tc.values)
			if err := i.InstallCRDs(t.Context(), lab.CRDBatchSandboxes, lab.CRDPools, lab.CRDSandboxes); err != nil {
				t.Fatal(err)
			}
			resources := i.served()
			for _, served := range []resource{{name: "secrets"}, {name: "pods", sub: "exec"}, {group: "apps", name: "statefulsets"}, {group: "agents.x-k8s.io", name: "sandboxes", sub: "status"}} {
				if !slices.Contains(resources, served) {
					t.Fatalf("%v is not among what the API server serves: %v", served, resources)
				}
			}
			want := slices.Sorted(slices.Values(slices.Concat(reads("/pods/"), tc.reads)))
			if more := i.more(i.other, resources...); !slices.Equal(more, want) {
				t.Errorf("elsewhere it may %v, want %v", more, want)
			}
			want = slices.Sorted(slices.Values(slices.Concat(want, tc.pins)))
			if more := i.more(i.sandboxes, resources...); !slices.Equal(more, want) {
				t.Errorf("where it may name sandboxes it may %v, want %v", more, want)
			}
			says(t, i.run(), true, "ready")
		})
	}
}
