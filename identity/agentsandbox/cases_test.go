package agentsandbox_test

import (
	"testing"
	"time"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/agentsandbox"
	"github.com/samepod/samepod/identity/sandbox"
)

// The corner cases of a catalogue of engines, by its numbers: 6.n is a corner case,
// 5.1.n and 5.2.n are public failures of agent-sandbox and of platforms like it. What
// is not here is in [elsewhere], with why.

type played struct {
	number, what string
	world        world
	engine       sandbox.Engine
	request      request
	want         string
}

var (
	pinning = sandbox.Engine{Pins: sandbox.PinPolicy{Enabled: true}}
	asserts = sandbox.Engine{Assert: true}

	askA = request{"x-sandbox-id=a"}
	pin0 = sandbox.Pin{Sandbox: "S-a", Pod: "U-a", Generation: seconds(t0), Container: "c1"}
)

func warm(o *identity.Object) { o.Labels["agents.x-k8s.io/warm-pool-sandbox"] = "p" }

var cases = []played{
	{"6.1", "derived: the Pod of the Sandbox, whichever it is", world{object("a", "S-a"), pod("a", "U-2", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "U-2 at 10.0.0.1"},
	{"6.1", "no pin yet", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1")}, pinning, askA, "U-a at 10.0.0.1, pin wanted"},
	{"6.1", "the pinned Pod", world{object("a", "S-a", pinned(pin0)), pod("a", "U-a", "S-a", "10.0.0.1")}, pinning, askA, "U-a at 10.0.0.1"},
	{"6.2", "the Pod's name was taken again", world{object("a", "S-a", pinned(pin0)), pod("a", "U-2", "S-a", "10.0.0.1")}, pinning, askA, "U-2 at 10.0.0.1, pin broken"},
	{"6.2", "as its controller does by contract, where that is accepted", world{object("a", "S-a", pinned(pin0)), pod("a", "U-2", "S-a", "10.0.0.1")}, sandbox.Engine{Pins: sandbox.PinPolicy{Enabled: true, Follow: true}}, askA, "U-2 at 10.0.0.1, pin wanted"},
	{"6.2", "another owner's Pod has the Sandbox's name", world{object("a", "S-a"), pod("a", "U-b", "S-b", "10.0.0.1")}, sandbox.Engine{}, askA, "not assigned"},
	{"6.3", "the Sandbox's name was taken again: its uid", world{object("a", "S-2"), pod("a", "U-2", "S-2", "10.0.0.1")}, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-uid=S-a"}, "replaced"},
	{"6.3", "with the uid that it has", world{object("a", "S-2"), pod("a", "U-2", "S-2", "10.0.0.1")}, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-uid=S-2"}, "U-2 at 10.0.0.1"},
	{"6.3", "the old one's pin on the new one", world{object("a", "S-2", pinned(pin0)), pod("a", "U-2", "S-2", "10.0.0.1")}, pinning, askA, "U-2 at 10.0.0.1, pin refused"},
	{"6.3", "the old one's Pod is not gone yet", world{object("a", "S-2"), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "not assigned"},
	{"6.10", "a pin in the annotations of a Pod is none", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1", func(o *identity.Object) {
		o.Annotations = map[string]string{sandbox.PinAnnotation: pin0.Text(nil)}
	})}, pinning, askA, "U-a at 10.0.0.1, pin wanted"},
	{"6.12", "a container was restarted, and containers are pinned", world{object("a", "S-a", pinned(pin0)), pod("a", "U-a", "S-a", "10.0.0.1", func(o *identity.Object) { o.Container = "c2" })}, sandbox.Engine{Pins: sandbox.PinPolicy{Enabled: true, Containers: true}}, askA, "U-a at 10.0.0.1, restarted"},

	{"6.13", "no podIPs, and a cluster that picks by them", world{object("a", "S-a", set(nil, "status", "podIPs")), pod("a", "U-a", "S-a", "10.0.0.1")}, asserts, askA, "not assigned"},
	{"6.13", "null", world{object("a", "S-a", set([]any(nil), "status", "podIPs")), pod("a", "U-a", "S-a", "10.0.0.1")}, asserts, askA, "not assigned"},
	{"6.13", "[]", world{object("a", "S-a", published()), pod("a", "U-a", "S-a", "10.0.0.1")}, asserts, askA, "not assigned"},
	{"6.13", "a number", world{object("a", "S-a", published(7)), pod("a", "U-a", "S-a", "10.0.0.1")}, asserts, askA, "not assigned"},
	{"6.13", "white space", world{object("a", "S-a", published(" 10.0.0.1")), pod("a", "U-a", "S-a", "10.0.0.1")}, asserts, askA, "not assigned"},
	{"6.13", "no list", world{object("a", "S-a", set("10.0.0.1", "status", "podIPs")), pod("a", "U-a", "S-a", "10.0.0.1")}, asserts, askA, "unreadable"},
	{"6.13", "duplicates", world{object("a", "S-a", published("10.0.0.1", "10.0.0.1")), pod("a", "U-a", "S-a", "10.0.0.1")}, asserts, askA, "U-a at 10.0.0.1"},
	{"6.13", "no podIPs, and samepod says what is dialled", world{object("a", "S-a", set(nil, "status")), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "U-a at 10.0.0.1"},
	{"6.14", "two Pods (MultiplePods)", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1"), pod("a-old", "U-b", "S-a", "10.0.0.2")}, sandbox.Engine{}, askA, "ambiguous"},
	{"6.14", "the second of the published addresses is the Pod's", world{object("a", "S-a", published("10.0.0.9", "10.0.0.1")), pod("a", "U-a", "S-a", "10.0.0.1")}, asserts, askA, "U-a at 10.0.0.9, not held"},
	{"6.15", "an empty element", world{object("a", "S-a", published("")), pod("a", "U-a", "S-a", "10.0.0.1")}, asserts, askA, "not assigned"},
	{"6.16", "the condition Ready of an earlier Pod", world{object("a", "S-a"), pod("a", "U-2", "S-a", "", phase("Pending"))}, sandbox.Engine{}, askA, "U-2 at invalid IP, Pending"},
	{"6.16", "podIPs of an earlier Pod", world{object("a", "S-a"), pod("a", "U-2", "S-a", "10.0.0.2")}, asserts, askA, "U-2 at 10.0.0.1, not held"},

	{"6.17", "a Pod has failed, and is published all the same", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1", phase("Failed"))}, sandbox.Engine{}, askA, "U-a at 10.0.0.1, Failed"},
	{"6.17", "and its address is another's", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1", phase("Failed")), pod("b", "U-b", "S-b", "10.0.0.1")}, sandbox.Engine{}, askA, "U-a at 10.0.0.1, Failed, shared"},
	{"6.17", "the controller has noticed", world{object("a", "S-a", conditions(condition("Finished", "True", t1))), pod("a", "U-a", "S-a", "10.0.0.1", phase("Failed"))}, sandbox.Engine{}, askA, "gone"},
	{"6.18", "a Pod is being deleted, and Ready", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1", func(o *identity.Object) { o.DeletionTimestamp = true })}, sandbox.Engine{}, askA, "U-a at 10.0.0.1, terminating"},
	{"6.18", "the Sandbox is being deleted", world{object("a", "S-a", set(t0, "metadata", "deletionTimestamp")), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "gone"},
	{"6.19", "Pending with an address", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1", phase("Pending"))}, sandbox.Engine{}, askA, "U-a at 10.0.0.1, Pending"},
	{"6.19", "in a warm pool, by its owner", world{object("a", "S-a", set([]any{map[string]any{"apiVersion": "extensions.agents.x-k8s.io/v1alpha1", "kind": "SandboxWarmPool"}}, "metadata", "ownerReferences")), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "not assigned"},
	{"6.19", "in a warm pool, by its label", world{object("a", "S-a", set("p", "metadata", "labels", "agents.x-k8s.io/warm-pool-sandbox")), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "not assigned"},
	{"6.19", "adopted, and its Pod is not labelled anew yet", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1", warm)}, sandbox.Engine{}, askA, "not assigned"},
	{"6.19", "in a warm pool, by its uid, which the Go router takes for enough", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1", warm)}, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-uid=S-a"}, "not assigned"},
	{"6.20", "the same uid, another address", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1"), pod("a", "U-a", "S-a", "10.0.0.2")}, sandbox.Engine{}, askA, "U-a at 10.0.0.2"},
	{"6.20", "and the old one has a new owner", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1"), pod("a", "U-a", "S-a", "10.0.0.2"), pod("b", "U-b", "S-b", "10.0.0.1")}, sandbox.Engine{}, askA, "U-a at 10.0.0.2"},
	{"6.22", "a Pod of the host's network", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1", func(o *identity.Object) { o.HostNetwork = true })}, sandbox.Engine{}, askA, "U-a at 10.0.0.1, host network"},
	{"6.23", "a mirror Pod", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1", func(o *identity.Object) { o.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"} })}, sandbox.Engine{}, askA, "U-a at 10.0.0.1, mirror"},
	{"6.24", "on its way to be suspended", world{object("a", "S-a", suspended), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "suspended"},
	{"6.24", "suspended", world{object("a", "S-a", suspended, conditions(condition("Suspended", "True", t1)), published())}, sandbox.Engine{}, askA, "suspended"},
	{"6.24", "on its way back: no Pod yet", world{object("a", "S-a", conditions(condition("Suspended", "True", t1)))}, sandbox.Engine{}, askA, "not assigned"},
	{"6.24", "resumed: the condition proves that the Pod may be another", world{object("a", "S-a", pinned(pin0), conditions(condition("Suspended", "False", t1))), pod("a", "U-2", "S-a", "10.0.0.2")}, pinning, askA, "U-2 at 10.0.0.2, pin wanted"},
	{"6.24", "a condition that is older than the pin proves nothing", world{object("a", "S-a", pinned(sandbox.Pin{Sandbox: "S-a", Pod: "U-a", Generation: seconds(t1)})), pod("a", "U-2", "S-a", "10.0.0.2")}, pinning, askA, "U-2 at 10.0.0.2, pin broken"},

	{"6.32", "both families: the first is dialled", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1", func(o *identity.Object) { o.PodIPs = []string{"10.0.0.1", "fd00::1"} })}, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-pod-ip=fd00::1"}, "U-a at 10.0.0.1"},
	{"6.32", "a mapped address in podIPs", world{object("a", "S-a", published("::ffff:10.0.0.1")), pod("a", "U-a", "S-a", "10.0.0.1")}, asserts, askA, "U-a at 10.0.0.1"},
	{"6.32", "a zone in podIPs", world{object("a", "S-a", published("fe80::1%eth0")), pod("a", "U-a", "S-a", "10.0.0.1")}, asserts, askA, "not assigned"},
	{"6.32", "a mapped hint", nil, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-pod-ip=::ffff:10.0.0.1"}, "malformed"},
	{"6.32", "a hint with a zone", nil, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-pod-ip=fe80::1%eth0"}, "malformed"},
	{"6.32", "a hint with leading zeros", nil, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-pod-ip=10.0.0.01"}, "malformed"},
	{"6.33", "a hint in brackets", nil, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-pod-ip=[fd00::1]"}, "malformed"},
	{"6.33", "a hint with a port", nil, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-pod-ip=10.0.0.1:80"}, "malformed"},
	{"6.34", "port 0", nil, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-port=0"}, "malformed"},
	{"6.34", "port 65536", nil, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-port=65536"}, "malformed"},
	{"6.34", "a sign, which both routers take", nil, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-port=+80"}, "malformed"},
	{"6.34", "a leading zero, which both routers take", nil, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-port=080"}, "malformed"},
	{"6.34", "white space and an underscore, which the Python router takes", nil, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-port= 8_0"}, "malformed"},
	{"6.34", "digits of another script, which the Python router takes", nil, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-port=٨٠"}, "malformed"},
	{"6.35", "a serviceFQDN is a name, and asked by nobody", world{object("a", "S-a", set("kubernetes.default.svc", "status", "serviceFQDN"))}, sandbox.Engine{}, askA, "not assigned"},

	{"6.36", "the name in two namespaces: the default one", world{object("a", "S-a"), object("a", "S-b", set("other", "metadata", "namespace")), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "U-a at 10.0.0.1"},
	{"6.36", "in another namespace only", world{object("a", "S-b", set("other", "metadata", "namespace"))}, sandbox.Engine{}, askA, "unknown"},
	{"6.37", "OpenSandbox's id is the name for its own callers only", world{object("sandbox-7f", "S-a", set("7f", "metadata", "labels", "opensandbox.io/id")), pod("sandbox-7f", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, request{"x-sandbox-id=7f"}, "unknown"},
	{"6.37", "a label takes nobody's name", world{object("a", "S-a"), object("b", "S-b", set("a", "metadata", "labels", "opensandbox.io/id")), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "U-a at 10.0.0.1"},
	{"6.38", "upper case", nil, sandbox.Engine{}, request{"x-sandbox-id=A"}, "malformed"},
	{"6.38", "a trailing dot", nil, sandbox.Engine{}, request{"x-sandbox-id=a."}, "malformed"},
	{"6.38", "twice", nil, sandbox.Engine{}, request{"x-sandbox-id=a;a"}, "conflict"},
	{"6.38", "joined by a comma", nil, sandbox.Engine{}, request{"x-sandbox-id=a,b"}, "conflict"},
	{"6.38", "header and path agree", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, request{"/s/default/a/80/x", "x-sandbox-id=a", "x-sandbox-port=80"}, "U-a at 10.0.0.1, gets /x"},
	{"6.38", "header and path differ", nil, sandbox.Engine{}, request{"/s/default/a/80/x", "x-sandbox-id=b"}, "conflict"},
	{"6.39", "an escaped slash", nil, sandbox.Engine{}, request{"/s/default%2Fa/80/x"}, "malformed"},
	{"6.39", "an escaped letter", nil, sandbox.Engine{}, request{"/s/default/%61/80/x"}, "malformed"},
	{"6.39", "an empty part", nil, sandbox.Engine{}, request{"/s//a/80/x"}, "malformed"},
	{"6.39", "dots", nil, sandbox.Engine{}, request{"/s/default/../80/x"}, "malformed"},
	{"6.39", "no port", nil, sandbox.Engine{}, request{"/s/default/a"}, "malformed"},
	{"6.40", "another Sandbox's Pod has the same hash label", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1"), pod("b", "U-b", "S-b", "10.0.0.2")}, sandbox.Engine{}, askA, "U-a at 10.0.0.1"},

	{"6.41", "anybody's Pod may be the new owner of the address", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1"), pod("web", "U-w", "", "10.0.0.1", func(o *identity.Object) { o.Owner = identity.Owner{Kind: "ReplicaSet.apps", UID: "R"} })}, sandbox.Engine{}, askA, "U-a at 10.0.0.1, shared"},
	{"6.42", "the deletion of the old Sandbox comes after the new one", world{object("a", "S-a"), object("a", "S-2"), pod("a", "U-2", "S-2", "10.0.0.1"), goneSandbox{"a", "S-a"}}, sandbox.Engine{}, askA, "U-2 at 10.0.0.1"},
	{"6.46", "its time is over, and nobody has noticed", world{object("a", "S-a", set("2026-01-01T00:00:00Z", "spec", "shutdownTime")), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "gone"},
	{"6.46", "its time is not over", world{object("a", "S-a", set("2999-01-01T00:00:00Z", "spec", "shutdownTime")), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "U-a at 10.0.0.1"},
	{"6.49", "the hint is never dialled", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-pod-ip=10.0.0.9"}, "U-a at 10.0.0.1, hint differs"},
	{"6.49", "but a cluster of the operator's may pick by it", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1")}, asserts, request{"x-sandbox-id=a", "x-sandbox-pod-ip=10.0.0.9"}, "U-a at 10.0.0.1, hint stale"},

	{"5.1.14", "#1397: a late deletion of the old Pod", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1"), pod("a", "U-2", "S-a", "10.0.0.2"), gonePod{"a", "U-a"}}, sandbox.Engine{}, askA, "U-2 at 10.0.0.2"},
	{"5.1.15", "#489: replicas 0 (v1alpha1), and a client that remembers", world{object("a", "S-a", set("agents.x-k8s.io/v1alpha1", "apiVersion"), set(nil, "spec", "operatingMode"), set(int64(0), "spec", "replicas")), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-pod-ip=10.0.0.1"}, "suspended"},
	{"5.1.16", "#755: any address of the cluster", world{object("a", "S-a"), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-pod-ip=169.254.169.254"}, "U-a at 10.0.0.1, hint differs"},
	{"5.1.16", "#838: the uid of another Sandbox", world{object("a", "S-a"), object("b", "S-b"), pod("a", "U-a", "S-a", "10.0.0.1"), pod("b", "U-b", "S-b", "10.0.0.2")}, sandbox.Engine{}, request{"x-sandbox-id=a", "x-sandbox-uid=S-b"}, "replaced"},
	{"5.1.17", "#883: an adopted Sandbox without a Service, its Pod of another name", world{object("a", "S-a", set(nil, "status", "serviceFQDN"), set("pool-x7", "metadata", "annotations", "agents.x-k8s.io/pod-name")), pod("pool-x7", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "U-a at 10.0.0.1"},
	{"5.1.17", "and another Pod than is tracked", world{object("a", "S-a", set("pool-x7", "metadata", "annotations", "agents.x-k8s.io/pod-name")), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "not assigned"},
	{"5.1.19", "#97: suspended, with the status of before", world{object("a", "S-a", suspended)}, sandbox.Engine{}, askA, "suspended"},
	{"5.1.20", "#793: the Pods of one hash, none of them owned", world{object("a", "S-a"), pod("b", "U-b", "S-b", "10.0.0.1")}, sandbox.Engine{}, askA, "not assigned"},
	{"5.2.33", "OpenShell#2932: running, with the condition of before", world{object("a", "S-a", conditions(condition("Suspended", "True", t1))), pod("a", "U-a", "S-a", "10.0.0.1")}, sandbox.Engine{}, askA, "U-a at 10.0.0.1"},
}

// elsewhere are the other corner cases, and where they are proved, or why they are none
// here.
var elsewhere = map[string]string{
	"6.4 to 6.9":   "Pools and their allocations are OpenSandbox's: a Pod of agent-sandbox has one Sandbox in its life",
	"6.11":         "no secret in a Pod is evidence of anything here",
	"6.15":         "classes of addresses: authz.TestAddresses",
	"6.21":         "a node that is cut off: the API is the arbiter, and the rest is the fence's",
	"6.25 to 6.31": "connections are Envoy's: lab.TestPoolPartition, lab.TestAcceptance, lab.TestHazards",
	"6.43":         "identity.TestFreshness, and the feeds of identity/sandbox",
	"6.44":         "sandbox.Index.Confirm reads what the watch has not seen yet: identity/sandbox",
	"6.45":         "identity/sandbox compares versions",
	"6.47":         "a cluster without the CRD is the source's, not that of an object",
	"6.48":         "lab.TestCORS",
	"6.49":         "headers of clients are removed: lab.TestDialects, lab.TestHazards",
	"6.50":         "replicas know what they watched; a denial says so",
	"5.1.18":       "#850, x-envoy-original-dst-host of a client: lab.TestHostileClient",
}

func TestCases(t *testing.T) {
	routes := agentsandbox.DefaultRoutes()
	routes.PathPrefix = "/s"
	for _, c := range cases {
		t.Run(c.number+" "+c.what, func(t *testing.T) {
			if got := c.world.outcome(t, c.engine, routes, c.request); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	for number, why := range elsewhere {
		if why == "" {
			t.Errorf("%s: no reason", number)
		}
	}
}

// TestStale is 6.43: the worst of Sandboxes and Pods counts.
func TestStale(t *testing.T) {
	pods := identity.NewIndex(identity.HistoryConfig{})
	pods.NewFeed("pods", "echo", time.Minute).Replace(nil, time.Now())
	x := sandbox.NewIndex(sandbox.Engine{InScope: func(string) bool { return true }}, pods)
	x.NewFeed("sandboxes", "events", time.Minute)
	if v := x.Target(identity.Claim{Sandbox: "a"}).View; v.Freshness != identity.NotSynced || v.Feed != "sandboxes" {
		t.Errorf("%v by %s", v.Freshness, v.Feed)
	}
}
