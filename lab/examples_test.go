package lab_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samepod/samepod/lab"
)

// The examples are generated, compared and run. What differs from one machine to
// the next is put in its place before: addresses, ports and mounts.

var updateExamples = flag.Bool("update-examples", false, "write the generated parts of the examples")

const examples = "../examples/"

// generated compares a file of the examples with what it is made from.
func generated(t *testing.T, name string, want []byte) []byte {
	t.Helper()
	if *updateExamples {
		if err := os.WriteFile(examples+name, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := must(os.ReadFile(examples + name))(t)
	if !bytes.Equal(got, want) {
		t.Errorf("examples/%s is not what it is made from; go test ./lab -run Example -update-examples\n%s", name, diff.Diff("the file", got, "generated", want))
	}
	return got
}

// localized is a file of the examples for this experiment: Pods are on loopback, as
// the lab's are, and Envoy takes free ports.
func localized(t *testing.T, text []byte, prefix netip.Prefix, more ...string) []byte {
	t.Helper()
	pairs := append([]string{
		"10.244.0.0/16", prefix.String(), // samepod.yaml
		"address_prefix: \"10.244.0.0\", prefix_len: 16", fmt.Sprintf("address_prefix: %q, prefix_len: %d", prefix.Addr(), prefix.Bits()),
		`"0.0.0.0", port_value: 8080`, `"127.0.0.1", port_value: 0`,
		"port_value: 8080", "port_value: 0", "port_value: 9901", "port_value: 0",
	}, more...)
	return []byte(strings.NewReplacer(pairs...).Replace(string(text)))
}

// startExample starts samepod with an example's configuration.
func startExample(t *testing.T, name string, more ...string) *arm {
	t.Helper()
	l := newLab(t)
	a := &arm{Lab: l, t: t, addrs: must(lab.NewAddresses(lab.ExecdPort))(t), pods: map[string]lab.PodRecord{}, config: filepath.Join(l.Dir, "samepod.yaml"), podsYML: filepath.Join(l.Dir, "pods.yaml")}
	text := must(os.ReadFile(examples + name + "/samepod.yaml"))(t)
	if err := os.WriteFile(a.config, localized(t, text, a.addrs.Prefix()), 0o600); err != nil {
		t.Fatal(err)
	}
	a.writePods()
	a.startSamepod("samepod", more...)
	return a
}

// TestExampleGateway: an Envoy as a gateway, from the whole printed bootstrap.
func TestExampleGateway(t *testing.T) {
	text := generated(t, "gateway/envoy.yaml", samepodCLI(t, "envoy", "bootstrap", "--config", examples+"gateway/samepod.yaml"))
	a := startExample(t, "gateway")
	a.envoy = must(a.StartEnvoy(t.Context(), "envoy", envoyBinary(t, lab.NewestEnvoy()), localized(t, text, a.addrs.Prefix(), "port_value: 9191", fmt.Sprintf("port_value: %d", a.samepod.Authz.Port()))))(t)
	a.waitVerdicts()
	addr := a.addrs.Take()
	a.run("a", "uid-a", addr)
	if c := do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", addr)...); c.status != 200 {
		t.Errorf("the Pod: %d %s", c.status, c.body)
	}
	checkProblem(t, "another uid", do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-old", addr)...), 409, "pod-replaced", false)
	a.invariant(2)
}

// TestExampleExisting: somebody's own Envoy before and after the two fragments. A
// dies, and B gets its address: before, B executes what was meant for A and
// answers 200; after, the caller gets 409.
func TestExampleExisting(t *testing.T) {
	before := must(os.ReadFile(examples + "existing/before.yaml"))(t)
	merged := merge(t, before, samepodCLI(t, "envoy", "filters", "--config", examples+"existing/samepod.yaml"), samepodCLI(t, "envoy", "cluster", "--config", examples+"existing/samepod.yaml"))
	tree := parse(t, merged)
	clusters := at(t, tree, "static_resources", "clusters")
	clusters.Content = slices.DeleteFunc(clusters.Content, func(c *yaml.Node) bool { return at(t, c, "name").Value == "recorded" }) // what the route led to
	after := generated(t, "existing/after.yaml", encodeYAML(t, tree))
	change := "# How an Envoy that exists changes\n\n`go test ./lab -run Example` compares this with the files, and runs both on a real Envoy.\n\n```diff\n" +
		strings.SplitN(string(diff.Diff("before.yaml", before, "after.yaml", after)), "\n", 2)[1] + "```\n"
	generated(t, "existing/README.md", []byte(change))

	a := startExample(t, "existing")
	binary := envoyBinary(t, lab.NewestEnvoy())
	old := must(a.StartEnvoy(t.Context(), "before", binary, localized(t, before, a.addrs.Prefix())))(t)
	a.envoy = must(a.StartEnvoy(t.Context(), "after", binary, localized(t, after, a.addrs.Prefix(), "port_value: 9191", fmt.Sprintf("port_value: %d", a.samepod.Authz.Port()))))(t)
	a.waitVerdicts()

	addr := a.addrs.Take()
	of := func(name, uid string) []string {
		return []string{"x-sandbox-pod", "sandboxes/" + name, "x-sandbox-pod-uid", uid, "x-sandbox-address", netip.AddrPortFrom(addr, lab.ExecdPort).String()}
	}
	command := func(e *lab.Envoy) call {
		return do(t, "POST", e.URL("/command"), `{"command":"for A"}`, of("a", "uid-a")...)
	}
	first := a.run("a", "uid-a", addr)
	for _, e := range []*lab.Envoy{old, a.envoy} {
		if c := command(e); c.status != 200 || !strings.Contains(c.body, "executed in a") {
			t.Errorf("%s, while A lives: %d %s", e.Name, c.status, c.body)
		}
	}
	first.Stop()
	a.set("a", "uid-a", "Failed", addr)
	second := a.run("b", "uid-b", addr)
	if c := command(old); c.status != 200 || !strings.Contains(c.body, "for A executed in b") {
		t.Errorf("before: %d %s; without the fault this shows nothing", c.status, c.body)
	}
	checkProblem(t, "after", command(a.envoy), 409, "pod-terminal", false)
	if got := second.Executed(); len(got) != 1 {
		t.Errorf("B executed %d commands, want the one of the Envoy before", len(got))
	}
}

// TestExampleSidecarPermissions: the API server takes what the Pod may, which is what
// samepod needs.
func TestExampleSidecarPermissions(t *testing.T) {
	kube := sharedKube(t)
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	if err := kube.CreateNamespace(t.Context(), "gateway"); err != nil {
		t.Fatal(err)
	}
	read := yaml.NewDecoder(bytes.NewReader(must(os.ReadFile(examples + "sidecar/rbac.yaml"))(t)))
	var account corev1.ServiceAccount
	var role rbacv1.ClusterRole
	var binding rbacv1.ClusterRoleBinding
	for _, into := range []any{&account, &role, &binding} {
		var tree any
		if err := read.Decode(&tree); err != nil {
			t.Fatal(err)
		}
		strict := json.NewDecoder(bytes.NewReader(must(json.Marshal(tree))(t)))
		strict.DisallowUnknownFields()
		if err := strict.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	_, err1 := kube.Client.CoreV1().ServiceAccounts(account.Namespace).Create(t.Context(), &account, dry)
	_, err2 := kube.Client.RbacV1().ClusterRoles().Create(t.Context(), &role, dry)
	_, err3 := kube.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &binding, dry)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Error(err)
	}
	want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}}
	if !reflect.DeepEqual(role.Rules, want) || binding.RoleRef.Name != role.Name || len(binding.Subjects) != 1 || binding.Subjects[0].Name != account.Name || binding.Subjects[0].Namespace != account.Namespace {
		t.Errorf("%+v, bound by %+v", role.Rules, binding)
	}
}

// TestExampleSidecar runs both containers of the Pod as processes that share a
// directory as an emptyDir, samepod with a real API server.
func TestExampleSidecar(t *testing.T) {
	var pod corev1.Pod
	var tree any
	if err := yaml.Unmarshal(must(os.ReadFile(examples+"sidecar/pod.yaml"))(t), &tree); err != nil {
		t.Fatal(err)
	}
	strict := json.NewDecoder(bytes.NewReader(must(json.Marshal(tree))(t)))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&pod); err != nil {
		t.Fatal(err)
	}
	kube := sharedKube(t)
	namespace := fmt.Sprintf("sandboxes-%d", namespaces.Add(1))
	if err := kube.CreateNamespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	valid := pod.DeepCopy()
	valid.Namespace = namespace
	if _, err := kube.Client.CoreV1().Pods(namespace).Create(t.Context(), valid, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Errorf("the API server: %v", err)
	}

	envoyYAML := generated(t, "sidecar/envoy.yaml", samepodCLI(t, "envoy", "bootstrap", "--config", examples+"sidecar/samepod.yaml", "--samepod", "unix:///run/samepod/authz.sock", "--listen", "0.0.0.0:8080"))
	l := newLab(t)
	addrs := must(lab.NewAddresses(lab.ExecdPort))(t)
	socket, config := filepath.Join(l.Dir, "run"), filepath.Join(l.Dir, "etc")
	inPlace := []string{"/run/samepod", socket, "/etc/gateway", config, "namespaces: [sandboxes]", "namespaces: [" + namespace + "]"}
	for _, dir := range []string{socket, config} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string][]byte{"samepod.yaml": must(os.ReadFile(examples + "sidecar/samepod.yaml"))(t), "envoy.yaml": envoyYAML} {
		if err := os.WriteFile(filepath.Join(config, name), localized(t, text, addrs.Prefix(), inPlace...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mapped := func(c corev1.Container) []string {
		args := slices.Clone(c.Args)
		for i := range args {
			args[i] = strings.NewReplacer(append(inPlace, "=:9192", "=127.0.0.1:0")...).Replace(args[i])
		}
		return args
	}
	kubeconfig := must(kube.Kubeconfig(lab.UserSamepod, kube.URL))(t)
	must(l.Start("samepod", must(binaries.race())(t), append(mapped(pod.Spec.InitContainers[0]), "--kubeconfig="+kubeconfig, "--admin-listen=")...))(t)
	args := mapped(pod.Spec.Containers[0])
	e := must(l.StartEnvoy(t.Context(), "envoy", envoyBinary(t, lab.NewestEnvoy()), must(os.ReadFile(args[slices.Index(args, "-c")+1]))(t)))(t)

	addr := addrs.Take()
	p := must(kube.CreatePod(t.Context(), namespace, "a"))(t)
	must(l.StartPod("a", string(p.UID), addr))(t)
	if err := kube.SetStatus(t.Context(), namespace, "a", corev1.PodRunning, addr); err != nil {
		t.Fatal(err)
	}
	ask := func(uid string) call {
		return do(t, "GET", e.URL("/ping"), "", "x-samepod-target", namespace+"/a", "x-samepod-expect-pod-uid", uid, "x-samepod-recorded", netip.AddrPortFrom(addr, lab.ExecdPort).String())
	}
	eventually(t, "the Pod answers through the socket", func() bool { return ask(string(p.UID)).status == 200 })
	checkProblem(t, "another uid", ask("uid-old"), 409, "pod-replaced", false)
}
