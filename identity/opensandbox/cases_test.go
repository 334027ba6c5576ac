package opensandbox_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/opensandbox"
	"github.com/samepod/samepod/identity/sandbox"
)

// The numbered corner cases of sandbox engines ("6.n"), and what OpenSandbox's and
// agent-sandbox's users reported ("5.1 row n"): each that concerns OpenSandbox is played
// here, from the request to the answer. Those that do not, or are proved elsewhere, are
// listed at the end.

// The usual answers. A sandbox's own Pod is "<id>-0", of uid "U-<id>-0".
const (
	pass      = "U-a-0 at " + x
	replaced  = "pod-replaced"
	gone      = "pod-gone"
	suspended = "sandbox-suspended"
)

type scene struct {
	name     string
	settings []setting
	play     func(*play)
}

// of makes a sandbox one that is given this Pod of this Pool.
func of(pool, pod string, edits ...edit) edit {
	return both(pooled(pool), given(pod), both(edits...))
}

func ofPool(name string) podOption {
	return func(p *identity.Pod) {
		p.Owner.Name = name
		mark(poolName, name)(p)
	}
}

func restarting(sandbox string) podOption {
	record := must(json.Marshal(map[string]any{"id": sandbox, "startTime": "2026-01-01T00:00:00Z", "containers": map[string]string{"main": "c://1"}}))
	return mark(restartRecord, string(record))
}

var identityScenes = []scene{
	{"6.1 nobody publishes a uid: the first Pod is pinned, and only that one passes", nil, func(p *play) {
		p.has(object("a"), ownPod("a"))
		p.answers("a", pass)
		p.has(ownPod("a", podUID("U2")))
		p.answers("a", replaced)
	}},
	{"6.1 without pins whatever Pod the sandbox controls passes", []setting{withoutPins}, func(p *play) {
		p.has(object("a"), ownPod("a"))
		p.answers("a", pass)
		p.has(ownPod("a", podUID("U2")))
		p.answers("a", "U2 at "+x)
	}},
	{"6.2 the same name again is another Pod", nil, func(p *play) {
		p.has(object("a"), ownPod("a"))
		p.answers("a", pass)
		p.loses(ownPod("a"))
		p.answers("a", gone)
		p.has(ownPod("a", podUID("U2"), on(y)))
		p.answers("a", replaced)
	}},
	{"6.3 a sandbox made again under its name has no Pod of the old one", nil, func(p *play) {
		p.has(object("a"), ownPod("a"))
		p.answers("a", pass)
		p.loses(object("a"))
		p.has(object("a", uid("S2")))
		p.answers("a", "not-assigned")
		p.has(ownPod("a", podUID("U2"), controlled(identity.Owner{Kind: opensandbox.Kind, Name: "a", UID: "S2"})))
		p.answers("a", "U2 at "+x)
	}},
	{"6.3 a pin that was copied to the new one is refused", nil, func(p *play) {
		p.has(object("a", uid("S2"), pinned(sandbox.Pin{Sandbox: "S-a", Pod: "U-a-0"})),
			ownPod("a", controlled(identity.Owner{Kind: opensandbox.Kind, Name: "a", UID: "S2"})))
		p.answers("a", "unverifiable")
	}},
	{"6.4 a noop pool hands the Pod on, and the watch has not told", nil, func(p *play) {
		p.has(object("a", of("noop", "p-1")), poolPod("p-1", ofPool("noop")))
		p.answers("a", "U-p-1 at "+x)
		p.unseen(object("a", of("noop", "p-1", released("p-1"))))
		p.unseen(object("b", of("noop", "p-1")))
		p.answers("a", gone) // uid and address are still those of its Pod
	}},
	{"6.4 a noop pool hands the Pod on: its next sandbox has it", nil, func(p *play) {
		p.has(object("a", of("noop", "p-1")), poolPod("p-1", ofPool("noop")))
		p.answers("a", "U-p-1 at "+x)
		p.has(object("a", of("noop", "p-1", released("p-1"))), object("b", of("noop", "p-1")))
		p.answers("a", gone)
		p.answers("b", "U-p-1 at "+x)
	}},
	{"6.4 a noop pool hands on the Pod of a sandbox that is gone", nil, func(p *play) {
		p.has(object("a", of("noop", "p-1")), poolPod("p-1", ofPool("noop")))
		p.answers("a", "U-p-1 at "+x)
		delete(p.api.sandboxes, identity.NamespacedName{Namespace: "ns", Name: "a"}) // not told
		p.answers("a", "sandbox-gone")
	}},
	{"6.4 a restart pool takes the Pod away: the record on the Pod comes first", nil, func(p *play) {
		p.has(object("a", of("restart", "p-1")), poolPod("p-1", ofPool("restart")))
		p.answers("a", "U-p-1 at "+x)
		p.has(poolPod("p-1", ofPool("restart"), restarting("a")))
		p.answers("a", gone)
	}},
	{"6.4 the record of the sandbox before is the usual thing to find", nil, func(p *play) {
		p.has(object("b", of("restart", "p-1")), poolPod("p-1", ofPool("restart"), restarting("a")))
		p.answers("b", "U-p-1 at "+x)
	}},
	{"6.4 a record that cannot be read may be of anybody", nil, func(p *play) {
		p.has(object("b", of("restart", "p-1")), poolPod("p-1", ofPool("restart"), mark(restartRecord, "{")))
		p.answers("b", "unverifiable")
	}},
	{"6.5 two claim one Pod: both are denied", nil, func(p *play) {
		p.has(object("a", of("pool", "p-1")), poolPod("p-1"))
		p.answers("a", "U-p-1 at "+x)
		p.has(object("b", of("pool", "p-1")))
		p.answers("a", "pod-shared")
		p.answers("b", "pod-shared")
	}},
	{"6.5 one that is being deleted claims nothing", nil, func(p *play) {
		p.has(object("a", of("pool", "p-1"), deleting()), object("b", of("pool", "p-1")), poolPod("p-1"))
		p.answers("a", "sandbox-gone")
		p.answers("b", "U-p-1 at "+x)
	}},
	{"6.6 what a pause left behind of a Pool's allocation is nobody's claim", nil, func(p *play) {
		p.has(object("a", given("p-1")), object("b", of("pool", "p-1")), poolPod("p-1"))
		p.answers("a", "not-assigned")
		p.answers("b", "U-p-1 at "+x)
		p.has(ownPod("a", on(y)))
		p.answers("a", "U-a-0 at "+y)
	}},
	{"6.7 no Pool was chosen yet, or no Pod given", nil, func(p *play) {
		p.has(object("a", pooled("*")), object("b", pooled("pool")), object("c", pooled("pool"), given()), poolPod("p-1"))
		p.answers("a", "not-assigned")
		p.answers("b", "not-assigned")
		p.answers("c", "not-assigned")
	}},
	{"6.8 a Pod that is asked back is no longer the sandbox's", nil, func(p *play) {
		p.has(object("a", of("pool", "p-1", alloc(allocRelease, []string{"p-1"}))), poolPod("p-1"))
		p.answers("a", gone)
	}},
	{"6.9 both shapes of alloc-status; its generation is no matter", nil, func(p *play) {
		p.has(object("a", pooled("pool"), annotate(allocStatus, `{"pods":["p-1"],"poolRef":"pool","generation":1}`), generation(9, 9)),
			object("b", of("pool", "p-2")), poolPod("p-1"), poolPod("p-2", on(y)))
		p.answers("a", "U-p-1 at "+x)
		p.answers("b", "U-p-2 at "+y)
	}},
	{"6.9 an alloc-status that cannot be read", nil, func(p *play) {
		p.has(object("a", pooled("pool"), annotate(allocStatus, `["p-1"]`)), poolPod("p-1"))
		p.answers("a", "unverifiable")
	}},
	{"6.10 a resumed sandbox has its new Pod, whatever the Pod's annotations were copied from", nil, func(p *play) {
		copied := mark(sandbox.PinAnnotation, sandbox.Pin{Sandbox: "S-a", Pod: "U-p-1"}.Text(nil))
		p.has(object("a", of("pool", "p-1")), poolPod("p-1"))
		p.answers("a", "U-p-1 at "+x)
		p.has(object("a", of("pool", "p-1", spec("pause", true), generation(2, 1))))
		p.answers("a", suspended)
		p.has(object("a", given("p-1"), phase("Paused"), generation(3, 3))) // spec.poolRef is empty now
		p.loses(poolPod("p-1"))
		p.answers("a", suspended)
		p.has(object("a", given("p-1"), spec("pause", false), phase("Resuming"), image("main", "r/a-main:snap-gen2"), generation(4, 4)))
		p.answers("a", suspended)
		p.has(object("a", given("p-1"), spec("pause", false), image("main", "r/a-main:snap-gen2"), generation(5, 5)), ownPod("a", copied, restarting("a"), mark(poolName, "pool")))
		p.answers("a", pass)
		p.has(ownPod("a", podUID("U2"))) // and from here on only that one
		p.answers("a", replaced)
	}},
	{"6.10 resumed twice", nil, func(p *play) {
		p.has(object("a", image("main", "r/a-main:snap-gen2")), ownPod("a"))
		p.answers("a", pass)
		p.has(object("a", image("main", "r/a-main:snap-gen7")), ownPod("a", podUID("U2")))
		p.answers("a", "U2 at "+x)
	}},
	{"6.10 a renewal is no resume", nil, func(p *play) {
		p.has(object("a", expires("2100-01-01T00:00:00Z")), ownPod("a"))
		p.answers("a", pass)
		p.has(ownPod("a", podUID("U2")), object("a", expires("2100-01-02T00:00:00Z"), generation(2, 2)))
		p.answers("a", replaced)
	}},
	{"6.12 another container in the same Pod, where containers are pinned", []setting{withContainers}, func(p *play) {
		p.has(object("a"), ownPod("a", container("c://1")))
		p.answers("a", pass)
		p.has(ownPod("a", container("c://2")))
		p.answers("a", "container-replaced")
	}},
	{"6.12 another container in the same Pod, where they are not", nil, func(p *play) {
		p.has(object("a"), ownPod("a", container("c://1")))
		p.answers("a", pass)
		p.has(ownPod("a", container("c://2")))
		p.answers("a", pass)
	}},
}

var addressScenes = []scene{
	{"6.13 what is published counts only where a cluster of the operator's dials it", []setting{asserting}, func(p *play) {
		for _, tc := range []struct{ published, want string }{
			{`["10.0.0.1"]`, pass}, {``, "not-assigned"}, {`null`, "not-assigned"}, {`[]`, "not-assigned"}, {`[""]`, "not-assigned"},
			{`10.0.0.1`, "not-assigned"}, {`[1]`, "not-assigned"}, {`[" 10.0.0.1"]`, "not-assigned"}, {`["10.0.0.1","10.0.0.1"]`, pass},
			{`["10.0.0.2"]`, "ip-moved"}, {`["127.0.0.1"]`, "address-not-allowed"},
		} {
			p.has(object("a", publishes(tc.published)), ownPod("a"))
			p.answers("a", tc.want)
		}
	}},
	{"6.13 and nowhere else", nil, func(p *play) {
		for _, published := range []string{``, `[""]`, `10.0.0.1`, `["10.0.0.2"]`, `["127.0.0.1"]`} {
			p.has(object("a", publishes(published)), ownPod("a"))
			p.answers("a", pass)
		}
	}},
	{"6.14 several replicas: none is the sandbox", nil, func(p *play) {
		p.has(object("a", spec("replicas", int64(2)), publishes(`["10.0.0.2","10.0.0.1"]`)), ownPod("a"),
			pod("a-1", on(y), controlled(identity.Owner{Kind: opensandbox.Kind, Name: "a", UID: "S-a"})))
		p.answers("a", "sandbox-ambiguous")
	}},
	{"6.14 one of two has ended, and the list has moved up", []setting{asserting}, func(p *play) {
		p.has(object("a", publishes(`["10.0.0.2"]`)), ownPod("a", podPhase(identity.PhaseFailed)),
			pod("a-1", on(y), controlled(identity.Owner{Kind: opensandbox.Kind, Name: "a", UID: "S-a"})))
		p.answers("a", "U-a-1 at "+y)
	}},
	{"6.15 an empty address is nobody's, and not the gateway's own", []setting{asserting}, func(p *play) {
		p.has(object("a", publishes(`["","10.0.0.1"]`)), ownPod("a"))
		p.answers("a", "not-assigned")
	}},
	{"6.16 status.ready neither allows nor denies", nil, func(p *play) {
		p.has(object("a", status("ready", int64(0))), ownPod("a"), object("b"))
		p.answers("a", pass)
		p.answers("b", "not-assigned")
	}},
	{"6.17 a Pod that has ended, and its address at another's", nil, func(p *play) {
		p.has(object("a"), ownPod("a"))
		p.answers("a", pass)
		p.has(ownPod("a", podPhase(identity.PhaseFailed)), object("b"), ownPod("b"))
		p.answers("a", "pod-terminal")
		p.answers("b", "U-b-0 at "+x)
	}},
	{"6.18 a Pod that is being deleted, and its address at another's", nil, func(p *play) {
		p.has(object("a"), ownPod("a", terminating), object("b"), ownPod("b"))
		p.answers("a", "pod-terminating")
		p.answers("b", "U-b-0 at "+x)
	}},
	{"6.19 no address yet; then one, and Ready is about the application", nil, func(p *play) {
		p.has(object("a"), ownPod("a", podPhase(identity.PhasePending), on()))
		p.answers("a", "pod-not-ready")
		p.has(ownPod("a", on()))
		p.answers("a", "pod-not-ready")
		p.has(ownPod("a", func(p *identity.Pod) { p.Ready = false }))
		p.answers("a", pass)
	}},
	{"6.20 the same Pod on another address; the old one is another's at once", nil, func(p *play) {
		p.has(object("a"), ownPod("a"))
		p.answers("a", pass)
		p.has(ownPod("a", on(y)), object("b"), ownPod("b"))
		p.answers("a", "U-a-0 at "+y)
		p.answers("b", "U-b-0 at "+x)
	}},
	{"6.20 and where a cluster of the operator's dials the old one", []setting{asserting}, func(p *play) {
		p.has(object("a", publishes(`["10.0.0.1"]`)), ownPod("a"))
		p.answers("a", pass)
		p.has(ownPod("a", on(y)))
		p.answers("a", "ip-moved")
	}},
	{"6.24 on its way to pause, and back", nil, func(p *play) {
		p.has(object("a"), ownPod("a"))
		p.answers("a", pass)
		for _, e := range []edit{both(spec("pause", true), generation(2, 1)), phase("Pausing"), phase("Paused")} {
			p.has(object("a", e))
			p.answers("a", suspended)
		}
		p.has(object("a", spec("pause", true), generation(2, 2))) // the pause failed: the Pod runs on
		p.answers("a", pass)
	}},
	{"6.24 resumed once, and renewed since: the controller takes that for a resume", nil, func(p *play) {
		p.has(object("a", image("main", "r/a-main:snap-gen2")), ownPod("a"))
		p.answers("a", pass)
		p.has(object("a", image("main", "r/a-main:snap-gen2"), phase("Resuming")))
		p.answers("a", pass)
		p.loses(ownPod("a"))
		p.answers("a", suspended)
		p.has(ownPod("a", podUID("U2"))) // evicted meanwhile
		p.answers("a", replaced)
	}},
	{"6.32 the published family may be the Pod's other one", []setting{asserting}, func(p *play) {
		p.has(object("a", publishes(`["::ffff:10.0.0.1"]`)), ownPod("a", on(v6, x)), object("b", publishes(`["fd00::2"]`)), ownPod("b", on(y, "fd00::2")))
		p.answers("a", pass)
		p.answers("b", "U-b-0 at [fd00::2]")
	}},
	{"6.34 ports that the ingress would dial", nil, func(p *play) {
		p.has(object("a"), ownPod("a"))
		for port, want := range map[string]string{"44772": pass, "99999": "claim-malformed", "+44772": "claim-malformed", "044772": "claim-malformed", "0": "claim-malformed", "5758": "port-not-allowed"} {
			p.answersTo(to("a-"+port), want)
		}
	}},
	{"6.41 whoever holds the address makes it ambiguous, sandbox or not", nil, func(p *play) {
		p.has(object("a"), ownPod("a"), pod("coredns", on(x)))
		p.answers("a", "ip-ambiguous")
	}},
}

var nameScenes = []scene{
	{"6.36 one name in two namespaces", nil, func(p *play) {
		p.has(object("a"), ownPod("a"))
		p.answers("a", pass)
		p.has(object("a", inNamespace("other"), uid("S-other")))
		p.answers("a", "sandbox-ambiguous")
	}},
	{"6.36 one that is out of scope does not count", nil, func(p *play) {
		p.has(object("a"), ownPod("a"), object("a", inNamespace("kube-system"), uid("S-other")))
		p.answers("a", pass)
	}},
	{"6.37 several names that mean one id", nil, func(p *play) {
		p.has(object("sandbox-a", label("opensandbox.io/id", "a")), ownPod("sandbox-a"))
		p.answers("a", "U-sandbox-a-0 at "+x)
		p.answers("sandbox-a", "U-sandbox-a-0 at "+x)
		p.has(object("a"))
		p.answers("a", "sandbox-ambiguous")
	}},
	{"6.37 the label is enough", nil, func(p *play) {
		p.has(object("box", label("opensandbox.io/id", "a")), ownPod("box"))
		p.answers("a", "U-box-0 at "+x)
	}},
	{"6.37 a sandbox that the watch has not told of yet", nil, func(p *play) {
		p.has(ownPod("a"))
		p.answers("a", "unknown-sandbox")
		p.unseen(object("a"))
		p.answers("a", pass)
	}},
	{"6.38 precedence, case, ports and dots of a host", nil, func(p *play) {
		p.has(object("a"), ownPod("a"), object("b"), ownPod("b", on(y)))
		other := "U-b-0 at " + y
		p.answersTo(request{host: "b-44772.gw", headers: map[string]string{routeHeader: "a-44772", oldRouteHeader: "b-44772"}}, pass)
		p.answersTo(request{host: "a-44772.gw", headers: map[string]string{oldRouteHeader: "b-44772"}}, other)
		for _, host := range []string{"a-44772.gw.example", "A-44772.GW.EXAMPLE", "a-44772.gw.example.:8443", "a-44772:80", "a-44772."} {
			p.answersTo(request{host: host}, pass)
		}
		p.answersTo(request{host: "b-44772.gw", repeated: routeHeader}, "claim-conflict")
		p.answersTo(to("a-44772,b-44772"), "claim-conflict")
	}},
	{"6.39 a path is read one way, or not at all", []setting{inURI}, func(p *play) {
		p.has(object("a"), ownPod("a"))
		p.answersTo(request{path: "/a/44772/command?x=%2F.."}, pass+", path /command?x=%2F..")
		p.answersTo(request{path: "/a/44772/1vuhmo0/01234567a/x"}, pass+", path /1vuhmo0/01234567a/x")
		for _, path := range []string{"//a/44772/x", "/a/44772/../../b/80/x", "/a%2F44772/x", "/a/44772/%2e%2e/x", "/./a/44772", `/a\44772/x`} {
			p.answersTo(request{path: path}, "claim-malformed")
		}
	}},
	{"6.39 whether a path is signed is a matter of the sandbox", []setting{inURI, func(e *sandbox.Engine, _ *opensandbox.Routes) {
		e.Access = must(opensandbox.ParseKeys("a=c2VjcmV0LWtleQ==")).Access
	}}, func(p *play) {
		p.has(object("a", annotate(token, "t")), ownPod("a"))
		p.answersTo(request{path: "/a/44772/1vuhmo0/e8438980a/x"}, pass+", path /x")
		p.answersTo(request{path: "/a/44772/1vuhmo0/e8438981a/x"}, "access-denied")
		p.answersTo(request{path: "/a/44772/x"}, "access-denied")
		p.answersTo(request{path: "/a/44772/1vuhmo0/e8438980a/x", headers: map[string]string{accessHeader: "u"}}, "access-denied")
		p.answersTo(request{path: "/a/44772/x", headers: map[string]string{accessHeader: "t"}}, pass+", path /x")
	}},
	{"6.42 the late deletion of a sandbox does not take its successor", nil, func(p *play) {
		p.has(object("a"), object("a", uid("S2")), ownPod("a", controlled(identity.Owner{Kind: opensandbox.Kind, Name: "a", UID: "S2"})))
		p.sandboxes.Delete(identity.NamespacedName{Namespace: "ns", Name: "a"}, "S-a", time.Now())
		p.answers("a", pass)
	}},
	{"6.44 the sandbox is told of before its Pod, or after", nil, func(p *play) {
		p.has(object("a", of("pool", "p-1")))
		p.answers("a", gone)
		p.has(poolPod("p-1"), poolPod("p-2", on(y)), object("b", of("pool", "p-2")))
		p.answers("a", "U-p-1 at "+x)
		p.answers("b", "U-p-2 at "+y)
	}},
	{"6.46 its time is over, and the object is there", nil, func(p *play) {
		p.has(object("a", expires("2001-01-01T00:00:00Z")), ownPod("a"), object("b", expires("2100-01-01T00:00:00Z")), ownPod("b", on(y)))
		p.answers("a", "sandbox-gone")
		p.answers("b", "U-b-0 at "+y)
	}},
}

var reportedScenes = []scene{
	{"5.1 row 1 the Pod of a Pool is deleted, and the sandbox never learns", nil, func(p *play) {
		p.has(object("a", of("pool", "p-1", publishes(`["10.0.0.1"]`))), poolPod("p-1"))
		p.answers("a", "U-p-1 at "+x)
		p.loses(poolPod("p-1"))
		p.has(object("b"), ownPod("b"))
		p.answers("a", gone)
		p.answers("b", "U-b-0 at "+x)
	}},
	{"5.1 row 2 spec.poolRef is edited while the sandbox is in use", nil, func(p *play) {
		p.has(object("a", of("pool", "p-1")), poolPod("p-1"))
		p.answers("a", "U-p-1 at "+x)
		p.has(object("a", of("noop", "p-1")))
		p.answers("a", replaced)
		p.has(object("a", pooled("noop"), annotate(allocStatus, `{"pods":["p-1"],"poolRef":"pool"}`)))
		p.answers("a", gone)
		p.has(object("b", of("pool", "p-1"))) // which the new shape does not hold up
		p.answers("b", "U-p-1 at "+x)
	}},
	{"5.1 row 3 a controller that restarts gives a dirty Pod away again", nil, func(p *play) {
		p.has(object("a", of("noop", "p-1")), poolPod("p-1", ofPool("noop")))
		p.answers("a", "U-p-1 at "+x)
		p.has(object("b", of("noop", "p-1")))
		p.answers("a", "pod-shared")
		p.answers("b", "pod-shared")
		p.has(object("a", of("noop", "p-1", deleting())))
		p.answers("a", "sandbox-gone")
		p.answers("b", "U-p-1 at "+x)
	}},
	{"5.1 row 4 how a Pool recycles decides whether the watch is enough", nil, func(p *play) {
		for pool, want := range map[string]bool{"pool": false, "noop": true, "restart": true, "unheard-of": true} {
			p.has(object("a", of(pool, "p-1")), poolPod("p-1", ofPool(pool)))
			if got := p.index.Target(identity.Claim{Sandbox: "a"}).Reread; got != want {
				p.t.Errorf("pool %s: %v", pool, got)
			}
		}
	}},
	{"5.1 row 5 a sandbox reads as running for ever, over a Pod that has ended", nil, func(p *play) {
		p.has(object("a", of("pool", "p-1", status("ready", int64(1)))), poolPod("p-1", podPhase(identity.PhaseSucceeded)))
		p.answers("a", "pod-terminal")
	}},
	{"5.1 row 6 the controller calls it failed, over a Pod that runs", nil, func(p *play) {
		p.has(object("a", phase("Failed")), ownPod("a"))
		p.answers("a", "sandbox-gone")
	}},
	{"5.1 row 7 a container that was restarted has another file system", []setting{withContainers}, func(p *play) {
		p.has(object("a", of("pool", "p-1")), poolPod("p-1", container("c://1")))
		p.answers("a", "U-p-1 at "+x)
		p.has(poolPod("p-1", container("c://2")))
		p.answers("a", "container-replaced")
	}},
	{"5.1 row 8 a Pod of the Pool has the address of the one before", nil, func(p *play) {
		p.has(object("a", of("pool", "p-1")), poolPod("p-1"))
		p.answers("a", "U-p-1 at "+x)
		p.loses(poolPod("p-1"))
		p.has(poolPod("p-2"), object("a", of("pool", "p-2")))
		p.answers("a", replaced)
	}},
	{"5.1 row 9 a new Pod of the name is no restart of the old", nil, func(p *play) {
		p.has(object("a"), ownPod("a"))
		p.answers("a", pass)
		p.has(ownPod("a", podUID("U2"), on(y)))
		p.answers("a", replaced)
	}},
	{"5.1 row 10 the sandbox's name on a Pool's Pod gives nothing, and takes nothing", nil, func(p *play) {
		const name = "batch-sandbox.sandbox.opensandbox.io/name"
		p.has(object("a", pooled("pool")), object("b", of("pool", "p-1")), poolPod("p-1", mark(name, "a")))
		p.answers("a", "not-assigned")
		p.answers("b", "U-p-1 at "+x)
	}},
	{"5.1 row 13 a Pod that is Ready is not yet anybody's", nil, func(p *play) {
		p.has(object("a", pooled("pool"), status("ready", int64(1))), poolPod("p-1"))
		p.answers("a", "not-assigned")
	}},
}

func TestCases(t *testing.T) {
	for _, s := range allScenes() {
		t.Run(s.name, func(t *testing.T) { s.play(newPlay(t, s.settings...)) })
	}
}

func allScenes() []scene {
	return slices.Concat(identityScenes, addressScenes, nameScenes, reportedScenes)
}

// elsewhere are the numbers that are not played here: the test that proves them, or why
// there is nothing to prove.
var elsewhere = map[string]struct{ test, why string }{
	"6.11": {"", "nothing that stands in a container is evidence of anything here"},
	"6.21": {"", "a node that is cut off is not seen by any watch; docs/threats.md has what is left, and the fence"},
	"6.22": {"authz TestDecide", "hostNetwork"},
	"6.23": {"authz TestDecide", "mirror Pods"},
	"6.25": {"lab TestPoolPartition", "connections are kept per uid"},
	"6.26": {"envoy TestHazards", "no retries, hedges or mirrors are rendered"},
	"6.27": {"lab TestDeleteToDenial", "the window between a deletion and the denial, measured"},
	"6.28": {"envoy TestGolden", "how long a stream may last is rendered; a stream is checked once"},
	"6.29": {"lab TestAcceptance", "WebSockets"},
	"6.30": {"envoy TestHazards", "no body is buffered"},
	"6.31": {"lab TestHostilePod", "a 409 of the Pod's is told from ours"},
	"6.33": {"identity TestParseAddrPort", "a route has no address; a recorded one has brackets"},
	"6.35": {"identity TestParseAddr", "no name is resolved"},
	"6.40": {"", "agent-sandbox"},
	"6.43": {"identity/sandbox TestFreshness", "a watch that tells nothing any more"},
	"6.45": {"identity/sandbox TestConfirm", "versions are compared within one kind"},
	"6.47": {"lab TestMissingKinds", "kinds that are not installed; what samepod may read is proved by the chart's tests"},
	"6.48": {"lab TestCORS", "preflight"},
	"6.49": {"lab TestAcceptance", "control headers of the caller's"},
	"6.50": {"identity/sandbox TestConfirm", "replicas share the pin on the object, and may differ for as long as their watches do"},

	"5.1 row 11": {"", "traffic that goes around the gateway is a matter of NetworkPolicy"},
	"5.1 row 12": {"lab TestAcceptance", "an upgrade is Envoy's to forward, headers and all"},
	"5.1 row 14": {"identity TestLook", "late events are fenced by uid; agent-sandbox"},
	"5.1 row 15": {"", "agent-sandbox"},
	"5.1 row 16": {"", "agent-sandbox"},
	"5.1 row 17": {"", "agent-sandbox"},
	"5.1 row 18": {"lab TestAcceptance", "only samepod says what is dialled"},
	"5.1 row 19": {"", "agent-sandbox"},
	"5.1 row 20": {"", "agent-sandbox"},
}

// TestCasesAreAllThere: every number is played or listed, and what is listed exists.
func TestCasesAreAllThere(t *testing.T) {
	played := map[string]bool{}
	number := regexp.MustCompile(`^(6\.\d+|5\.1 row \d+) `)
	for _, s := range allScenes() {
		match := number.FindStringSubmatch(s.name)
		if match == nil {
			t.Errorf("%q has no number", s.name)
			continue
		}
		played[match[1]] = true
	}
	want := map[string]bool{}
	for n := range 50 {
		want[fmt.Sprintf("6.%d", n+1)] = true
	}
	for n := range 20 {
		want[fmt.Sprintf("5.1 row %d", n+1)] = true
	}
	for n := range want {
		if _, listed := elsewhere[n]; played[n] == listed {
			t.Errorf("%s: played %v, listed %v", n, played[n], listed)
		}
	}
	for n, where := range elsewhere {
		if !want[n] || where.why == "" {
			t.Errorf("%s: no such case, or no reason", n)
		}
		pkg, test, _ := strings.Cut(where.test, " ")
		if where.test != "" && !hasTest(t, pkg, test) {
			t.Errorf("%s: %s has no %s", n, pkg, test)
		}
	}
}

// hasTest reports whether the package of this repository has the test.
func hasTest(t *testing.T, pkg, test string) bool {
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(name string) bool {
		text, err := os.ReadFile(name)
		return err == nil && strings.Contains(string(text), "func "+test+"(")
	})
}
