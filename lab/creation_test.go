package lab_test

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samepod/samepod/lab"
)

// truth is what happened, as the counters should have it.
type truth map[string]int

// creationCounters are the series that have moved, without the prefix.
func creationCounters(t *testing.T, replicas ...*lab.Samepod) truth {
	t.Helper()
	sum := truth{}
	for _, s := range replicas {
		for line := range strings.Lines(must(s.Metrics())(t)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			name, ours := strings.CutPrefix(name, "samepod_pod_sandbox_")
			if !ours || !strings.Contains(name, "_total") || value == "0" {
				continue
			}
			var n int
			if _, err := fmt.Sscan(value, &n); err != nil {
				t.Fatal(err)
			}
			sum[strings.ReplaceAll(name, `,runtime_class="default"`, "")] += n
		}
	}
	return sum
}

// nursery is a stage of the SLI: a namespace, a node that works and one that is down, and as many
// samepods as are started.
type nursery struct {
	*lab.Lab
	t         *testing.T
	kube      *lab.Kube
	namespace string
	kubelet   *lab.Kubelet
	down      *lab.Kubelet
	proxy     *lab.Proxy
	config    string
	binary    string
	kubeconf  string
	ips       int
}

func newNursery(t *testing.T) *nursery {
	t.Helper()
	kube := sharedKube(t)
	l := newLab(t)
	id := namespaces.Add(1)
	n := &nursery{Lab: l, t: t, kube: kube, namespace: fmt.Sprintf("nursery-%d", id), binary: must(binaries.race())(t), config: filepath.Join(l.Dir, "samepod.yaml")}
	n.do(kube.CreateNamespace(t.Context(), n.namespace))
	n.do(lab.WriteConfig(n.config, n.namespace, netip.MustParsePrefix("127.0.0.0/8")))
	n.kubelet = must(kube.StartKubelet(t.Context(), fmt.Sprintf("node-a-%d", id)))(t)
	n.down = must(kube.StartKubelet(t.Context(), fmt.Sprintf("node-down-%d", id)))(t)
	t.Cleanup(n.kubelet.Stop)
	t.Cleanup(n.down.Stop)
	n.do(n.down.SetReady(t.Context(), corev1.ConditionUnknown, time.Now().Add(-time.Minute)))
	n.grant()
	n.proxy = must(l.StartProxy(strings.TrimPrefix(kube.URL, "https://")))(t)
	n.kubeconf = must(kube.ServiceAccountKubeconfigAt(t.Context(), n.namespace, "samepod", "https://"+n.proxy.Addr.String()))(t)
	return n
}

// grant gives a ServiceAccount what docs/creation.md says that the SLI needs.
func (n *nursery) grant() {
	n.t.Helper()
	ctx, client, name := n.t.Context(), n.kube.Client, n.namespace
	_, err := client.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "samepod"}}, metav1.CreateOptions{})
	n.do(err)
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "samepod", Namespace: name}}
	read := []string{"get", "list", "watch"}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "events", "nodes"}, Verbs: read}}}, metav1.CreateOptions{})
	n.do(err)
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: subjects}, metav1.CreateOptions{})
	n.do(err)
	_, err = client.RbacV1().Roles(name).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "lease"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}}}}, metav1.CreateOptions{})
	n.do(err)
	_, err = client.RbacV1().RoleBindings(name).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "lease"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "lease"}, Subjects: subjects}, metav1.CreateOptions{})
	n.do(err)
}

func (n *nursery) do(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *nursery) samepod(name string) *lab.Samepod {
	n.t.Helper()
	return must(n.StartSamepod(n.t.Context(), name, n.binary, "--config", n.config, "--source", "kube", "--kubeconfig", n.kubeconf,
		"--creation-sli", "--creation-lease", n.namespace+"/samepod-creation", "--creation-deadline", "6s", "--creation-grace", "3s", "--log-level", "debug"))(n.t)
}

func (n *nursery) counts(s *lab.Samepod, is bool) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("counting is %v", is), func() bool {
		v, err := s.Metric("samepod_pod_sandbox_counting")
		return err == nil && (v == 1) == is
	})
}

// bind makes Pods that the kubelet has seen.
func (n *nursery) bind(name string, many int) []*corev1.Pod {
	n.t.Helper()
	var all []*corev1.Pod
	for i := range many {
		p := must(n.kubelet.Bind(n.t.Context(), n.namespace, fmt.Sprintf("%s-%d", name, i)))(n.t)
		n.do(n.kubelet.Acknowledge(n.t.Context(), p))
		all = append(all, p)
	}
	return all
}

func (n *nursery) created(pods ...*corev1.Pod) {
	n.t.Helper()
	for _, p := range pods {
		n.ips++
		n.do(n.kubelet.Created(n.t.Context(), p, netip.AddrFrom4([4]byte{10, 99, byte(n.ips >> 8), byte(n.ips)})))
	}
}

func (n *nursery) fail(from, to int, pods ...*corev1.Pod) {
	for _, p := range pods {
		for i := from; i < to; i++ {
			n.kubelet.Fail(p, i)
		}
	}
}

func (n *nursery) delete(pods ...*corev1.Pod) {
	n.t.Helper()
	for _, p := range pods {
		n.do(n.kube.DeletePod(n.t.Context(), p.Namespace, p.Name, false))
	}
}

// settled waits until the counters are what happened. Other Pods go on being made
// meanwhile, as in any cluster, so that the watch is not silent.
func (n *nursery) settled(want truth, replicas ...*lab.Samepod) {
	n.t.Helper()
	var got truth
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		if got = creationCounters(n.t, replicas...); maps.Equal(got, want) {
			break
		}
		must(n.kube.CreatePod(n.t.Context(), n.namespace, fmt.Sprint("unbound-", time.Now().UnixNano())))(n.t)
	}
	time.Sleep(2 * time.Second) // for what would be counted twice
	if got = creationCounters(n.t, replicas...); !maps.Equal(got, want) {
		names := slices.Sorted(maps.Keys(got))
		for name := range want {
			if got[name] == 0 {
				names = append(names, name)
			}
		}
		for _, name := range names {
			if got[name] != want[name] {
				n.t.Errorf("%s is %d, want %d", name, got[name], want[name])
			}
		}
	}
}

// TestCreation plays what happens to Pods on a real API server, and holds the
// counters to it, exactly: also across a watch that hangs, and two replicas one after
// the other of which the second lists everything again.
func TestCreation(t *testing.T) {
	t.Parallel()
	n := newNursery(t)
	old := n.bind("old", 2) // before anybody counts
	n.created(old[0])
	time.Sleep(7 * time.Second)

	first := n.samepod("first")
	n.counts(first, true)
	second := n.samepod("second")

	normal := n.bind("normal", 5)
	slow := n.bind("slow", 2)
	failing := n.bind("failing", 3)
	recovering := n.bind("recovering", 2)
	early := n.bind("early", 2)
	failedEarly := n.bind("failed-early", 1)
	volume := n.bind("volume", 2)
	for i := range 2 {
		must(n.down.Bind(t.Context(), n.namespace, fmt.Sprint("down-", i)))(t)
	}
	refused := must(n.kubelet.Bind(t.Context(), n.namespace, "refused"))(t)
	n.do(n.kubelet.Refuse(t.Context(), refused, "UnexpectedAdmissionError"))
	job := n.bind("job", 1)
	n.do(n.kubelet.Completed(t.Context(), job[0]))
	n.created(normal...)
	n.fail(0, 3, failing...)
	n.fail(0, 40, failing[0]) // a storm, of which the recorder lets through what it wants
	n.fail(0, 2, recovering...)
	n.fail(0, 1, failedEarly...)
	for _, p := range volume {
		n.kubelet.Warn(p, "FailedMount")
	}
	time.Sleep(2 * time.Second)
	n.delete(early...)
	n.delete(failedEarly...)
	n.created(normal[0]) // its sandbox died, and it has another address
	// The connection hangs while sandboxes are made: what is not heard is not bad.
	n.proxy.Pause()
	n.created(slow...)
	time.Sleep(9 * time.Second)
	n.proxy.Resume()
	n.created(recovering...)

	want := truth{
		`creation_total{result="good"}`:                                                   5 + 2 + 1,
		`creation_total{result="bad"}`:                                                    3 + 2 + 1,
		`creation_failures_total{cause="runsc-boot-eof"}`:                                 3 + 2 + 1,
		`recovered_total{runtime_class="default"}`:                                        2,
		`recreated_total{result="good"}`:                                                  1,
		`excluded_total{reason="deleted_early"}`:                                          2,
		`excluded_total{reason="volume"}`:                                                 2,
		`excluded_total{reason="node_down"}`:                                              2,
		`excluded_total{reason="admission"}`:                                              1,
		`excluded_total{reason="left_censored"}`:                                          2,
		`creation_by_node_version_total{node_version="containerd://2.2.2",result="good"}`: 8,
		`creation_by_node_version_total{node_version="containerd://2.2.2",result="bad"}`:  6,
	}
	n.settled(want, first)
	if got := creationCounters(t, second); len(got) > 0 {
		t.Errorf("the other replica counts too: %v", got)
	}
	n.takeover(want, first, second)
}

// takeover stops the first replica while Pods wait, and the second one counts them.
func (n *nursery) takeover(want truth, first, second *lab.Samepod) {
	n.t.Helper()
	before := n.bind("before", 2)
	n.created(before...)
	want[`creation_total{result="good"}`] += 2
	want[`creation_by_node_version_total{node_version="containerd://2.2.2",result="good"}`] += 2
	n.settled(want, first)
	between, waiting, failing := n.bind("between", 2), n.bind("waiting", 2), n.bind("still-failing", 2)
	time.Sleep(time.Second)
	counted := creationCounters(n.t, first)
	n.do(first.Stop(20 * time.Second))
	time.Sleep(1100 * time.Millisecond) // the API tells whole seconds
	n.created(between...)
	n.fail(0, 2, failing...)
	n.counts(second, true)
	n.created(waiting...)
	// All that there still is was counted by the first, but for what was open.
	want[`excluded_total{reason="left_censored"}`] += n.bound() - len(between) - len(waiting) - len(failing)
	want[`creation_total{result="good"}`] += 4
	want[`creation_total{result="bad"}`] += 2
	want[`creation_failures_total{cause="runsc-boot-eof"}`] += 2
	good, bad := `creation_by_node_version_total{node_version="containerd://2.2.2",result="good"}`, `creation_by_node_version_total{node_version="containerd://2.2.2",result="bad"}`
	want[good], want[bad] = want[good]+4, want[bad]+2
	for name, n := range counted {
		want[name] -= n
	}
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	n.settled(want, second)
}

// bound is how many Pods have been bound to a node and are there.
func (n *nursery) bound() (many int) {
	n.t.Helper()
	list := must(n.kube.Client.CoreV1().Pods(n.namespace).List(n.t.Context(), metav1.ListOptions{}))(n.t)
	for _, p := range list.Items {
		if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }) {
			many++
		}
	}
	return many
}
