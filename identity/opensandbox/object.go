package opensandbox

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// What the objects are called (kubernetes/apis/sandbox/v1alpha1).
const (
	Group        = "sandbox.opensandbox.io"
	Version      = "v1alpha1"
	Resource     = "batchsandboxes"
	PoolResource = "pools"

	// Kind and PoolKind are the objects as controllers of Pods, as in [identity.Owner].
	Kind     = "BatchSandbox." + Group
	PoolKind = "Pool." + Group
)

// Versions are the versions of [Group] that are understood, the newest first.
func Versions() []string { return []string{"v1alpha1"} }

// Unread are the fields of a BatchSandbox that may be large and that nobody here reads,
// each as a path. The containers of its template are read: they tell of a resume.
func Unread() [][]string {
	return [][]string{
		{"spec", "shardPatches"}, {"spec", "taskTemplate"}, {"spec", "shardTaskPatches"},
		{"spec", "template", "metadata"}, {"spec", "template", "spec", "initContainers"}, {"spec", "template", "spec", "volumes"},
		{"status", "conditions"},
	}
}

// UnreadOfPools are the same of a Pool.
func UnreadOfPools() [][]string { return [][]string{{"spec", "template"}} }

// Keys of BatchSandboxes (kubernetes/internal/controller/apis.go, kubernetes/pkg/utils/
// endpoints.go, server/opensandbox_server/services/constants.py and extensions/keys.py).
const (
	labelID               = "opensandbox.io/id"
	annotationToken       = "opensandbox.io/secure-access-token"
	annotationRenew       = "opensandbox.io/access-renew-extend-seconds"
	annotationEndpoints   = "sandbox.opensandbox.io/endpoints"
	annotationAllocStatus = "sandbox.opensandbox.io/alloc-status"
	annotationRelease     = "sandbox.opensandbox.io/alloc-release"
	annotationReleased    = "sandbox.opensandbox.io/alloc-released"
)

// anyPool is spec.poolRef of a sandbox for which the controller has yet to choose.
const anyPool = "*"

// legacyPrefix was before the id in the names of older sandboxes.
const legacyPrefix = "sandbox-"

// Decode says what a BatchSandbox means, as the API gives it in JSON. Unknown fields
// are skipped. A field that cannot be understood, and on which identity hangs, makes it
// Malformed; an address that cannot be read is an invalid entry of Published. pinKey is
// the key of [sandbox.ParsePin].
func Decode(object map[string]any, pinKey []byte) sandbox.Sandbox {
	o := reader{object: object}
	s := sandbox.Sandbox{Kind: Kind, Version: get[string](&o, "metadata", "resourceVersion")}
	s.NamespacedName, s.UID = o.identity()
	s.Deleting = o.has("metadata", "deletionTimestamp")
	s.Expires = o.time("spec", "expireTime")
	s.Ended, s.Suspended = o.phase()
	s.Generation = o.resumed(s.Name)
	o.allocation(&s)

	s.Published = published(get[string](&o, "metadata", "annotations", annotationEndpoints))
	o.server(&s)
	if o.has("metadata", "annotations", sandbox.PinAnnotation) {
		pin, err := sandbox.ParsePin(get[string](&o, "metadata", "annotations", sandbox.PinAnnotation), pinKey)
		if err != nil {
			s.PinFault = err.Error()
		}
		s.Pin = pin
	}
	s.Malformed = o.fault
	return s
}

// Adopt adds to a sandbox of another engine what OpenSandbox's server writes on any
// object that it makes: the id by which callers call it, its token, and whether it asks
// for its life to be prolonged. Such are the Sandboxes of agents.x-k8s.io that it makes
// where it is told to.
func Adopt(s *sandbox.Sandbox, object map[string]any) {
	o := reader{object: object}
	o.server(s)
	if s.Malformed == "" {
		s.Malformed = o.fault
	}
}

// server reads what OpenSandbox's server, and not a controller, writes.
func (o *reader) server(s *sandbox.Sandbox) {
	bare, _ := strings.CutPrefix(s.Name, legacyPrefix)
	for _, id := range [...]string{bare, get[string](o, "metadata", "labels", labelID)} {
		if id != "" && id != s.Name && !slices.Contains(s.Names, id) {
			s.Names = append(s.Names, id)
		}
	}
	s.Token = identity.Secret(strings.TrimSpace(get[string](o, "metadata", "annotations", annotationToken)))
	s.Renew = strings.TrimSpace(get[string](o, "metadata", "annotations", annotationRenew)) != ""
}

// phase reads spec.pause and status.phase.
//
// The controller never leaves Failed by itself, although a Pod may come back. Of a pause
// that it has not taken up yet only spec.pause tells; of one that failed spec.pause goes
// on telling, while the sandbox runs. The difference is whether this generation was
// observed.
func (o *reader) phase() (ended, suspended bool) {
	phase := get[string](o, "status", "phase")
	observed := o.integer("status", "pauseObservedGeneration")
	seen := observed > 0 && observed >= o.integer("metadata", "generation")
	pause := get[bool](o, "spec", "pause")
	switch phase {
	case "Failed":
		return true, false
	case "Pausing", "Paused", "Resuming":
		return false, true
	}
	return false, pause && !seen
}

// published reads the annotation of addresses. It is no evidence: it has the addresses
// of Pods that ended, is not cleared, and is written apart from everything else.
func published(text string) []netip.Addr {
	if text == "" {
		return nil
	}
	var entries []any
	if json.Unmarshal([]byte(text), &entries) != nil {
		return []netip.Addr{{}}
	}
	addrs := make([]netip.Addr, len(entries))
	for i, entry := range entries {
		if text, ok := entry.(string); ok {
			addrs[i], _ = identity.ParseAddr(text)
		}
	}
	return addrs
}

// reader reads fields of an object, and remembers the first that it cannot understand.
type reader struct {
	object map[string]any
	fault  string
}

func (o *reader) notef(path []string, format string, args ...any) {
	if o.fault == "" {
		o.fault = strings.Join(path, ".") + ": " + fmt.Sprintf(format, args...)
	}
}

// find returns the value at path; nil if it, or one above it, is missing or null.
func (o *reader) find(path ...string) any {
	var value any = o.object
	for i, key := range path {
		if value == nil {
			return nil
		}
		fields, ok := value.(map[string]any)
		if !ok {
			o.notef(path[:i], "must be an object, is a %T", value)
			return nil
		}
		value = fields[key]
	}
	return value
}

// has reports whether there is something at path.
func (o *reader) has(path ...string) bool { return o.find(path...) != nil }

// get returns the value at path; zero if it is missing, null or, which is a fault, of
// another type.
func get[T any](o *reader, path ...string) T {
	var zero T
	value := o.find(path...)
	if value == nil {
		return zero
	}
	if typed, ok := value.(T); ok {
		return typed
	}
	o.notef(path, "must be a %T, is a %T", zero, value)
	return zero
}

// integer reads a whole number, which some readers of JSON give as a float64.
func (o *reader) integer(path ...string) int64 {
	if f, ok := o.find(path...).(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f)
	}
	return get[int64](o, path...)
}

// identity reads what the object is.
func (o *reader) identity() (identity.NamespacedName, identity.UID) {
	namespace, name, uid := get[string](o, "metadata", "namespace"), get[string](o, "metadata", "name"), get[string](o, "metadata", "uid")
	if _, err := identity.NewNamespacedName(namespace, name); err != nil {
		o.notef([]string{"metadata"}, "%v", err)
	}
	if _, err := identity.ParseUID(uid); err != nil {
		o.notef([]string{"metadata", "uid"}, "%v", err)
	}
	return identity.NamespacedName{Namespace: namespace, Name: name}, identity.UID(uid) // whatever they are: a later delete must find them
}

// time reads a time of the API; zero if there is none.
func (o *reader) time(path ...string) time.Time {
	text := get[string](o, path...)
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		o.notef(path, "%.100q is not a time", text)
	}
	return at
}
