package podsfile_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/podsfile"
)

var (
	all       = identity.Keep{}
	sandboxes = identity.Keep{Selected: func(labels map[string]string) bool { return labels["app"] == "sandbox" }}
)

const podA = `kind: Pod
metadata: {namespace: ns, name: a, uid: A}
status: {phase: Running, podIPs: [{ip: 10.0.0.1}]}
`

var podB = strings.NewReplacer("name: a", "name: b", "uid: A", "uid: B", "10.0.0.1", "10.0.0.2").Replace(podA)

// TestParse: what is read, and what is refused with its line.
func TestParse(t *testing.T) {
	for _, tc := range []struct {
		rule string
		in   string
		want string // names and uids, or the error
	}{
		{"a Pod", podA, "ns/a A"},
		{"two documents", podA + "---\n" + podB, "ns/a A, ns/b B"},
		{"empty documents between", "---\n---\n" + podA + "---\n# end\n", "ns/a A"},
		{"a List", "kind: List\nitems:\n- {kind: Pod, metadata: {namespace: ns, name: a, uid: A}}\n", "ns/a A"},
		{"a List of none", "kind: List\nitems: []\n", ""},
		{"an alias for an item", "kind: List\nitems:\n- &a {kind: Pod, metadata: {namespace: ns, name: a, uid: A}}\n", "ns/a A"},
		{"a PodList, whose items have no kind", "kind: PodList\nitems:\n- {metadata: {namespace: ns, name: a, uid: A}}\n", "ns/a A"},
		{"JSON", `{"kind":"Pod","metadata":{"namespace":"ns","name":"a","uid":"A","unheardOf":[1]},"status":{}}`, "ns/a A"},
		{"unknown fields are the API's business", podA + "spec: {containers: [{name: x, env: [{name: A, value: '1'}]}], future: {x: 1}}\n", "ns/a A"},
		{"an anchor", "kind: Pod\nmetadata: {namespace: &n ns, name: *n, uid: A}\n", "ns/ns A"},
		{"an empty document hides nothing", "---\n---\n" + podA, "ns/a A"},
		{"an end marker", podA + "...\n---\n" + podB + "...\n", "ns/a A, ns/b B"},
		{"content beside the marker", "--- {kind: Pod, metadata: {namespace: ns, name: a, uid: A}}\n--- # a comment\n", "ns/a A"},
		{"a directive", "%YAML 1.1\n---\n" + podA, "ns/a A"},
		{"DOS line ends", strings.ReplaceAll(podA+"---\n"+podB, "\n", "\r\n"), "ns/a A, ns/b B"},
		{"a marker is no prefix", "kind: Pod\nmetadata: {namespace: ns, name: a, uid: A}\n---x: 1\n", "ns/a A"},

		{"nothing at all", "", "line 1: empty; a list of no Pods is written {kind: List, items: []}"},
		{"only a comment", "# nothing\n", "line 1: empty; a list of no Pods is written {kind: List, items: []}"},
		{"no kind", "metadata: {name: a}\n", `line 1: kind: ""; allowed: Pod, PodList, List`},
		{"another kind", "kind: Service\n", `line 1: kind: "Service"; allowed: Pod, PodList, List`},
		{"another kind in a List", "kind: List\nitems:\n- {kind: Pod, metadata: {namespace: ns, name: a, uid: A}}\n- kind: Service\n", `line 4: kind: "Service"; allowed: Pod`},
		{"an item of a List without kind", "kind: List\nitems:\n- metadata: {namespace: ns, name: a, uid: A}\n", `line 3: kind: ""; allowed: Pod`},
		{"no YAML", "kind: [", "line 1: did not find expected node content"},
		{"a key twice", "kind: Pod\nmetadata:\n  name: a\n  name: b\n", `line 4: mapping key "name" already defined at line 3`},
		{"a key twice, further down", podA + "---\nkind: Pod\nkind: Pod\n", `line 6: mapping key "kind" already defined at line 5`},
		{"an anchor of another Pod", "kind: List\nitems:\n- kind: Pod\n  metadata: {namespace: &n ns, name: a, uid: A}\n- kind: Pod\n  metadata: {namespace: *n, name: b, uid: B}\n", "ns/a A, ns/b B"},
		{"a scalar", "just words\n", "line 1: must be a mapping: a Pod, PodList or List"},
		{"a list of Pods without a kind", "- kind: Pod\n", "line 1: must be a mapping: a Pod, PodList or List"},
		{"a List without items", "kind: List\n", "line 1: items: missing; allowed: a list, as in {kind: List, items: []}"},
		{"a List of null", "kind: List\nitems:\n", "line 2: items: missing; allowed: a list, as in {kind: List, items: []}"},
		{"a misspelt key", "kind: Pod\nmetadata: {namespace: ns, name: a, uid: A}\nspec: {hostnetwork: true}\n", "line 3: hostnetwork: unknown key; allowed: hostNetwork"},
		{"a misspelt key, deep", "kind: Pod\nmetadata: {namespace: ns, name: a, uid: A}\nstatus: {podIps: [{ip: 10.0.0.1}]}\n", "line 3: podIps: unknown key; allowed: podIPs"},
		{"an address that is no mapping", "kind: Pod\nmetadata: {namespace: ns, name: a, uid: A}\nstatus: {podIPs: [10.0.0.1]}\n", "line 3: cannot unmarshal !!str `10.0.0.1`; allowed: a mapping"},
		{"items is no list", "kind: List\nitems: {a: b}\n", "line 2: items: missing; allowed: a list, as in {kind: List, items: []}"},
		{"hostNetwork is no boolean", "kind: Pod\nmetadata: {namespace: ns, name: a, uid: A}\nspec:\n  hostNetwork: maybe\n", "line 4: cannot unmarshal !!str `maybe`; allowed: a bool"},
		{"no uid", "kind: Pod\nmetadata:\n  namespace: ns\n  name: a\n", `line 3: pod ns/a: metadata.uid: "": a uid has 1 to 128 characters`},
		{"a bad address", strings.Replace(podA, "10.0.0.1", "10.0.0.256", 1), `line 3: pod ns/a: status.podIPs[0].ip: "10.0.0.256": not an IP address`},
		{"the second address of the second Pod", "kind: List\nitems:\n- kind: Pod\n  metadata: {namespace: ns, name: a, uid: A}\n- kind: Pod\n  metadata: {namespace: ns, name: b, uid: B}\n  status:\n    podIPs:\n    - ip: 10.0.0.1\n    - ip: fe80::1%eth0\n", `line 10: pod ns/b: status.podIPs[1].ip: "fe80::1%eth0": an IP address of a Pod has no zone`},
		{"a phase of another world", strings.Replace(podA, "Running", "Completed", 1), `line 3: pod ns/a: status.phase: "Completed": must be one of [Unknown Pending Running Succeeded Failed]`},
		{"a name twice", podA + "---\n" + strings.ReplaceAll(podA, "A}", "B}"), "line 6: pod ns/a: occurs already at line 2"},
		{"a uid twice", podA + "---\n" + strings.ReplaceAll(podA, " a", " b"), `line 6: pod ns/b: metadata.uid: "A": another Pod has it, at line 2`},
	} {
		pods, err := podsfile.Parse([]byte(tc.in), all)
		var got []string
		for _, p := range pods {
			got = append(got, p.String()+" "+string(p.UID))
		}
		text := strings.Join(got, ", ")
		if err != nil {
			text = err.Error()
			if len(pods) > 0 {
				t.Errorf("%s: %d Pods beside an error", tc.rule, len(pods))
			}
		}
		if text != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.rule, text, tc.want)
		}
	}
}

// TestParseKubectl reads what kubectl really prints for Pods of every kind that
// the index distinguishes.
func TestParseKubectl(t *testing.T) {
	data, err := os.ReadFile("testdata/kubectl-get-pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := podsfile.Parse(data, sandboxes)
	if err != nil {
		t.Fatal(err)
	}
	addr := func(texts ...string) (out []netip.Addr) {
		for _, s := range texts {
			out = append(out, netip.MustParseAddr(s))
		}
		return out
	}
	nn := func(namespace, name string) identity.NamespacedName {
		return identity.NamespacedName{Namespace: namespace, Name: name}
	}
	node := addr("192.0.2.11")
	want := []identity.Pod{
		{NamespacedName: nn("sandboxes", "dual-0"), UID: "3c7a3b38-6f0e-4d3a-8f52-6f3b0f3f5c11", Phase: identity.PhaseRunning, IPs: addr("10.244.1.5", "fd00:10:244:1::5"), HostIPs: node, Ready: true, Selected: true},
		{NamespacedName: nn("sandboxes", "done-0"), UID: "0d5b4a51-93a7-4a52-9d4c-8f1cf9a9a2b4", Phase: identity.PhaseSucceeded, IPs: addr("10.244.1.6"), HostIPs: node, Selected: true},
		{NamespacedName: nn("sandboxes", "leaving-0"), UID: "5f3f54a0-1a6a-4f63-a0de-52e6b2b9c7d0", Phase: identity.PhaseRunning, IPs: addr("10.244.1.7"), HostIPs: node, Ready: true, Terminating: true, Selected: true},
		{NamespacedName: nn("sandboxes", "new-0"), UID: "9a1e7a6c-7c43-4a49-8a8e-0fb0a8f7b1aa", Phase: identity.PhasePending, Selected: true},
		{NamespacedName: nn("kube-system", "kube-proxy-x7k2p"), UID: "77b9b8c1-55f2-46a6-9a5c-6f6a6a1c2d3e", Phase: identity.PhaseRunning, IPs: node, HostIPs: node, Ready: true, HostNetwork: true},
		{NamespacedName: nn("kube-system", "etcd-node-1"), UID: "1e2d3c4b-0000-4000-8000-00000000e7cd", Phase: identity.PhaseRunning, IPs: node, HostIPs: node, Ready: true, HostNetwork: true, Mirror: true},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("Pods (-want +got):\n%s", diff)
	}
}

// FuzzParse: no bytes crash the reader, and what it takes the index can take.
func FuzzParse(f *testing.F) {
	f.Add([]byte(podA))
	f.Add([]byte("kind: List\nitems: [{kind: Pod}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, err := podsfile.Parse(data, all)
		seen := map[identity.NamespacedName]bool{}
		for _, p := range pods {
			if err != nil || p.Malformed != "" || p.UID == "" || seen[p.NamespacedName] {
				t.Errorf("took %+v, error %v", p, err)
			}
			seen[p.NamespacedName] = true
		}
	})
}
