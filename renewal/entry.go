package renewal

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// What a check writes about a sandbox that asks for renewal, and Envoy repeats in the
// entry: dynamic metadata of the ext_authz filter. Only an allow has it.
const (
	metadataNamespace = "envoy.filters.http.ext_authz"
	renewKey          = "samepod_renew"      // "true"
	sandboxKey        = "samepod_sandbox"    // <namespace>/<name> of the sandbox object
	idKey             = "samepod_sandbox_id" // the engine's id
	upstreamKey       = "samepod_upstream"   // <ip>:<port> of the Pod
)

// errIdle is about an entry that shows no sandbox in use that asks for renewal.
var errIdle = errors.New("no sandbox in use")

var (
	namespaceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	idForm        = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)
)

// fromEntry returns what an entry says at this time: the intent for a sandbox that
// asks for renewal and is in use, errIdle, or what is wrong with the entry. Who can
// connect can write entries, so their texts go no further than the forms above allow.
func fromEntry(e *accesslogv3.HTTPAccessLogEntry, now time.Time) (Intent, error) {
	written := e.GetCommonProperties().GetMetadata().GetFilterMetadata()[metadataNamespace].GetFields()
	if text(written[renewKey]) != "true" || !inUse(e) {
		return Intent{}, errIdle
	}
	namespace, name, _ := strings.Cut(text(written[sandboxKey]), "/")
	id := text(written[idKey])
	switch {
	case !namespaceForm.MatchString(namespace) || !idForm.MatchString(name):
		return Intent{}, fmt.Errorf("%s: %.300q; allowed: <namespace>/<name>", sandboxKey, text(written[sandboxKey]))
	case !idForm.MatchString(id):
		return Intent{}, fmt.Errorf("%s: %.300q; allowed: letters, digits and ._-, at most 253", idKey, id)
	}
	pod, err := netip.ParseAddrPort(text(written[upstreamKey]))
	if err != nil {
		return Intent{}, fmt.Errorf("%s: %.300q; allowed: <ip>:<port>", upstreamKey, text(written[upstreamKey]))
	}
	return Intent{Sandbox: Sandbox{Namespace: namespace, ID: id}, Port: pod.Port(), ObservedAt: now}, nil
}

// inUse reports whether the Pod has answered the request, other than with a 5xx, or is
// still working on it.
//
// A first byte from upstream is the proof that a status is the Pod's: Envoy's own
// answers, such as the 409 of a refused address, come without one. Envoy tells of a
// request that has no status yet only while it runs, from time to time; one that ended
// without any was reset, and nobody knows what for.
func inUse(e *accesslogv3.HTTPAccessLogEntry) bool {
	sent := e.GetCommonProperties().GetTimeToFirstUpstreamTxByte() != nil
	answered := e.GetCommonProperties().GetTimeToFirstUpstreamRxByte() != nil
	status := e.GetResponse().GetResponseCode().GetValue()
	if status == 0 {
		return sent && !answered && e.GetCommonProperties().GetAccessLogType() == accesslogv3.AccessLogType_DownstreamPeriodic
	}
	return answered && status < http.StatusInternalServerError
}

func text(v *structpb.Value) string { return v.GetStringValue() }
