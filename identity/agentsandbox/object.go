package agentsandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

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
	r := reader{object: object}
	s := sandbox.Sandbox{
		NamespacedName: identity.NamespacedName{
			Namespace: field[string](&r, "metadata", "namespace"),
			Name:      field[string](&r, "metadata", "name"),
		},
		UID:        identity.UID(field[string](&r, "metadata", "uid")),
		Version:    field[string](&r, "metadata", "resourceVersion"),
		Kind:       Kind,
		Unassigned: r.waits(),
		Deleting:   field[any](&r, "metadata", "deletionTimestamp") != nil,
		Expires:    r.time("spec", "shutdownTime"),
		Suspended:  r.suspended(),
	}
	r.check("kind", field[string](&r, "kind"), func(kind string) error {
		if kind != "Sandbox" {
			return errors.New("must be Sandbox")
		}
		return nil
	})
	r.check("apiVersion", field[string](&r, "apiVersion"), checkVersion)
	r.check("metadata.name", s.String(), func(string) error {
		_, err := identity.NewNamespacedName(s.Namespace, s.Name)
		return err
	})
	r.check("metadata.uid", string(s.UID), func(uid string) error {
		_, err := identity.ParseUID(uid)
		return err
	})
	if pod := field[string](&r, "metadata", "annotations", podNameAnnotation); pod != "" {
		s.Pods = []string{pod}
	}
	for _, ip := range field[[]any](&r, "status", "podIPs") {
		text, _ := ip.(string)
		addr, err := identity.ParseAddr(text)
		if err != nil {
			addr = netip.Addr{}
		}
		s.Published = append(s.Published, addr)
	}
	r.conditions(&s)
	if field[any](&r, "metadata", "annotations", sandbox.PinAnnotation) != nil {
		var err error
		if s.Pin, err = sandbox.ParsePin(field[string](&r, "metadata", "annotations", sandbox.PinAnnotation), pinKey); err != nil {
			s.PinFault = err.Error()
		}
	}
	s.Malformed = r.fault
	return s
}

func checkVersion(text string) error {
	version, found := strings.CutPrefix(text, Group+"/")
	if !found || !slices.Contains(Versions(), version) {
		return fmt.Errorf("must be %s/ and one of %v", Group, Versions())
	}
	return nil
}

// waits reports whether a warm pool has the Sandbox: nobody has claimed it yet.
func (r *reader) waits() bool {
	if _, labelled := field[map[string]any](r, "metadata", "labels")[warmPoolLabel]; labelled {
		return true
	}
	for i := range field[[]any](r, "metadata", "ownerReferences") {
		owner := r.item(i, "metadata", "ownerReferences")
		group, _, _ := strings.Cut(field[string](&owner, "apiVersion"), "/")
		if field[string](&owner, "kind") == "SandboxWarmPool" && group == "extensions."+Group {
			return true
		}
		r.take(owner)
	}
	return false
}

// suspended reads spec.operatingMode, and what v1alpha1 had for it: spec.replicas, 0 or
// 1, which is 1 where it is left out.
func (r *reader) suspended() bool {
	mode := field[string](r, "spec", "operatingMode")
	r.check("spec.operatingMode", mode, func(mode string) error {
		if mode != "" && mode != "Running" && mode != "Suspended" {
			return errors.New("must be Running or Suspended")
		}
		return nil
	})
	stopped := false
	switch n := field[any](r, "spec", "replicas").(type) {
	case nil:
	case int64:
		stopped = n != 1
	case float64:
		stopped = n != 1
	default:
		r.note("spec.replicas", fmt.Sprint(n), errors.New("must be a number"))
	}
	return mode == "Suspended" || stopped
}

func (r *reader) conditions(s *sandbox.Sandbox) {
	for i := range field[[]any](r, "status", "conditions") {
		c := r.item(i, "status", "conditions")
		switch field[string](&c, "type") {
		case "Finished":
			s.Ended = field[string](&c, "status") == "True"
		case "Suspended":
			if at := c.time("lastTransitionTime"); !at.IsZero() {
				s.Generation = at.Unix()
			}
		}
		r.take(c)
	}
}

// Queries find the Sandbox that a claim means. It has no other name: OpenSandbox's server
// labels those that it makes with an id, but its callers are of another dialect, and whoever
// may label a Sandbox here would make another's name ambiguous.
func Queries(c identity.Claim) []sandbox.Query { return []sandbox.Query{{Name: c.Sandbox}} }

// reader reads fields of an object, and remembers what was wrong first.
type reader struct {
	object map[string]any
	fault  string
}

// field is a field as the API's JSON has it; the zero T where there is none.
func field[T any](r *reader, path ...string) (value T) {
	var node any = r.object
	for i, key := range path {
		m, ok := node.(map[string]any)
		if !ok {
			r.note(strings.Join(path[:i], "."), fmt.Sprint(node), errors.New("must be an object"))
			return value
		}
		if node = m[key]; node == nil {
			return value
		}
	}
	value, ok := node.(T)
	if !ok {
		r.note(strings.Join(path, "."), fmt.Sprint(node), fmt.Errorf("must be %T, is %T", value, node))
	}
	return value
}

// time is a field in the form of metav1.Time; zero where there is none.
func (r *reader) time(path ...string) time.Time {
	text := field[string](r, path...)
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	r.note(strings.Join(path, "."), text, err)
	return at
}

// item is an item of a list of objects; [reader.take] brings back what was wrong in it.
func (r *reader) item(i int, path ...string) reader {
	object, ok := field[[]any](r, path...)[i].(map[string]any)
	if !ok {
		r.note(fmt.Sprintf("%s[%d]", strings.Join(path, "."), i), "", errors.New("must be an object"))
	}
	return reader{object: object}
}

func (r *reader) take(item reader) {
	if r.fault == "" {
		r.fault = item.fault
	}
}

func (r *reader) check(path, value string, rule func(string) error) { r.note(path, value, rule(value)) }

func (r *reader) note(path, value string, err error) {
	if err != nil && r.fault == "" {
		r.fault = (&identity.FieldError{Field: path, Value: shorten(value), Err: err}).Error()
	}
}
