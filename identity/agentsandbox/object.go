package agentsandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// What the objects are called (api/v1beta1 and api/v1alpha1 of agent-sandbox).
const (
	Group    = "agents.x-k8s.io"
	Resource = "sandboxes"
	// Kind is a Sandbox as a controller of Pods, as in [identity.Owner].
	Kind = "Sandbox." + Group

	warmPoolLabel     = Group + "/warm-pool-sandbox" // nobody's yet; taken away at adoption
	podNameAnnotation = Group + "/pod-name"          // which Pod the controller tracks, if it does
)

// Versions are the versions of [Group] that are understood, the newest first.
func Versions() []string { return []string{"v1beta1", "v1alpha1"} }

// Unread are the fields that may be large and that nobody here reads, each as a path.
func Unread() [][]string {
	return [][]string{{"spec", "podTemplate"}, {"spec", "volumeClaimTemplates"}}
}

// Decode says what a Sandbox means, in any of [Versions] and as the API's JSON has it.
// What cannot be understood is Malformed: such a Sandbox means no Pod. pinKey is for
// the MAC of pins, empty for none.
//
// Whether it is suspended is what spec says alone: the condition Suspended may linger
// (NVIDIA/OpenShell#2932). That condition is the proof of a suspension that was: its
// lastTransitionTime is the Generation, in seconds. It moves only while spec says
// Suspended, and with the first report of a controller, which is before the first Pod.
// Pods has the name that the controller tracks, if it does; see [Refuse].
func Decode(object map[string]any, pinKey []byte) sandbox.Sandbox {
	o := sandbox.Read(object)
	s := o.Sandbox(Kind, pinKey)
	checkKind(o)
	s.Unassigned = waits(o)
	s.Expires = o.Time("spec", "shutdownTime")
	s.Suspended = suspended(o)
	if pod := sandbox.Field[string](o, "metadata", "annotations", podNameAnnotation); pod != "" {
		s.Pods = []string{pod}
	}
	for _, ip := range sandbox.Field[[]any](o, "status", "podIPs") {
		text, _ := ip.(string)
		addr, err := identity.ParseAddr(text)
		if err != nil {
			addr = netip.Addr{}
		}
		s.Published = append(s.Published, addr)
	}
	conditions(o, &s)
	s.Malformed = o.Fault()
	return s
}

func checkKind(o sandbox.Object) {
	if kind := sandbox.Field[string](o, "kind"); kind != "Sandbox" {
		o.Note(errors.New("must be Sandbox"), kind, "kind")
	}
	text := sandbox.Field[string](o, "apiVersion")
	if version, found := strings.CutPrefix(text, Group+"/"); !found || !slices.Contains(Versions(), version) {
		o.Note(fmt.Errorf("must be %s/ and one of %v", Group, Versions()), text, "apiVersion")
	}
}

// waits reports whether a warm pool has the Sandbox: nobody has claimed it yet.
func waits(o sandbox.Object) bool {
	if _, labelled := sandbox.Field[map[string]any](o, "metadata", "labels")[warmPoolLabel]; labelled {
		return true
	}
	for owner := range o.Items("metadata", "ownerReferences") {
		group, _, _ := strings.Cut(sandbox.Field[string](owner, "apiVersion"), "/")
		if sandbox.Field[string](owner, "kind") == "SandboxWarmPool" && group == "extensions."+Group {
			return true
		}
	}
	return false
}

// suspended reads spec.operatingMode, and what v1alpha1 had for it: spec.replicas, 0 or
// 1, which is 1 where it is left out.
func suspended(o sandbox.Object) bool {
	mode := sandbox.Field[string](o, "spec", "operatingMode")
	if mode != "" && mode != "Running" && mode != "Suspended" {
		o.Note(errors.New("must be Running or Suspended"), mode, "spec", "operatingMode")
	}
	stopped := o.Has("spec", "replicas") && o.Integer("spec", "replicas") != 1
	return mode == "Suspended" || stopped
}

func conditions(o sandbox.Object, s *sandbox.Sandbox) {
	for c := range o.Items("status", "conditions") {
		switch sandbox.Field[string](c, "type") {
		case "Finished":
			s.Ended = sandbox.Field[string](c, "status") == "True"
		case "Suspended":
			if at := c.Time("lastTransitionTime"); !at.IsZero() {
				s.Generation = at.Unix()
			}
		}
	}
}

// Queries find the Sandbox that a claim means. It has no other name: OpenSandbox's server
// labels those that it makes with an id, but its callers are of another dialect, and whoever
// may label a Sandbox here would make another's name ambiguous.
func Queries(c identity.Claim) []sandbox.Query {
	return []sandbox.Query{{Name: c.Sandbox}}
}
