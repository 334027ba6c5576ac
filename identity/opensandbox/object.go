package opensandbox

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

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
	o := sandbox.Read(object)
	s := o.Sandbox(Kind, pinKey)
	s.Expires = o.Time("spec", "expireTime")
	s.Ended, s.Suspended = phase(o)
	s.Generation = resumed(o, s.Name)
	allocate(o, &s)
	s.Published = published(sandbox.Field[string](o, "metadata", "annotations", annotationEndpoints))
	adopt(o, &s)
	s.Malformed = o.Fault()
	return s
}

// Adopt adds to a sandbox of another engine what OpenSandbox's server writes on any
// object that it makes: the id by which callers call it, its token, and whether it asks
// for its life to be prolonged. Such are the Sandboxes of agents.x-k8s.io that it makes
// where it is told to.
func Adopt(s *sandbox.Sandbox, object map[string]any) {
	o := sandbox.Read(object)
	adopt(o, s)
	if s.Malformed == "" {
		s.Malformed = o.Fault()
	}
}

// adopt reads what OpenSandbox's server, and not a controller, writes.
func adopt(o sandbox.Object, s *sandbox.Sandbox) {
	bare, _ := strings.CutPrefix(s.Name, legacyPrefix)
	for _, id := range [...]string{bare, sandbox.Field[string](o, "metadata", "labels", labelID)} {
		if id != "" && id != s.Name && !slices.Contains(s.Names, id) {
			s.Names = append(s.Names, id)
		}
	}
	s.Token = identity.Secret(strings.TrimSpace(sandbox.Field[string](o, "metadata", "annotations", annotationToken)))
	s.Renew = strings.TrimSpace(sandbox.Field[string](o, "metadata", "annotations", annotationRenew)) != ""
}

// phase reads spec.pause and status.phase.
//
// The controller never leaves Failed by itself, although a Pod may come back. Of a pause
// that it has not taken up yet only spec.pause tells; of one that failed spec.pause goes
// on telling, while the sandbox runs. The difference is whether this generation was
// observed.
func phase(o sandbox.Object) (ended, suspended bool) {
	observed := o.Integer("status", "pauseObservedGeneration")
	seen := observed > 0 && observed >= o.Integer("metadata", "generation")
	pause := sandbox.Field[bool](o, "spec", "pause")
	switch sandbox.Field[string](o, "status", "phase") {
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
