package authz

import (
	"fmt"
	"net/http"
)

// Reason is why a check ended as it did. The set is closed, and one word is
// everything: metric label, log value, response header, problem type and row of
// docs/reasons.md. The zero Reason is [Internal], which denies.
//
// There is nothing here that Envoy answers by itself; those answers are rendered
// by package envoy.
type Reason uint8

// The reasons, in the order of docs/reasons.md. Only SamePod allows.
const (
	Internal Reason = iota
	SamePod

	// 409: positive evidence that it is not, or not provably, the same Pod.

	PodGone
	PodReplaced
	PodTerminal
	PodTerminating
	IPMoved
	IPAmbiguous
	ContainerReplaced
	SandboxGone
	SandboxReplaced
	SandboxAmbiguous
	PodShared
	Unverifiable

	// 404: no such sandbox, and a live read agrees.

	UnknownSandbox

	// 403: outside of what the operator allows.

	AddressNotAllowed
	PortNotAllowed
	TargetNotAllowed

	// 401: secure access or signature missing or wrong.

	AccessDenied

	// 400: the request does not say, or says two things.

	ClaimMissing
	ClaimMalformed
	ClaimConflict

	// 503: we cannot know, or not yet. It is not a no.

	NotSynced
	ViewStale
	PodNotReady
	NotAssigned
	SandboxSuspended
	HintStale
	Overloaded

	reasonEnd
)

// Reasons returns every Reason.
func Reasons() []Reason {
	all := make([]Reason, reasonEnd)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

// String returns the word of r.
func (r Reason) String() string { return r.row().word }

// Status returns the HTTP status that a caller gets. It is 0 for [SamePod]: the
// answer is then the Pod's.
func (r Reason) Status() int { return r.row().status }

// Title is one short sentence for people. It is the same for every occurrence
// (RFC 9457, 3.1.3).
func (r Reason) Title() string { return r.row().title }

// Detail says to the caller, who may be the user of an SDK, what happened and
// what to do about it. It never tells anything about another Pod.
func (r Reason) Detail() string { return r.row().detail }

func (r Reason) row() reasonRow {
	if r >= reasonEnd {
		panic(fmt.Sprintf("authz: no such reason: %d", r))
	}
	return reasonRows[r]
}

type reasonRow struct {
	word   string
	status int
	title  string
	detail string
}

var reasonRows = [reasonEnd]reasonRow{
	SamePod: {"same-pod", 0, "The same Pod", "The address is still held by the Pod that the request means."},

	PodGone:           {"pod-gone", http.StatusConflict, "The Pod is gone", "The Pod that the request names does not exist any more. Nothing was forwarded. Ask the platform for a new sandbox or for its present Pod."},
	PodReplaced:       {"pod-replaced", http.StatusConflict, "The Pod was replaced", "A different Pod has taken the name of the Pod that the request means; what the old one held is lost. Nothing was forwarded."},
	PodTerminal:       {"pod-terminal", http.StatusConflict, "The Pod has ended", "The containers of the Pod have exited and will not run again. Nothing was forwarded."},
	PodTerminating:    {"pod-terminating", http.StatusConflict, "The Pod is being deleted", "The Pod is being deleted and may have lost its address already. Nothing was forwarded."},
	IPMoved:           {"ip-moved", http.StatusConflict, "The address is no longer the Pod's", "The Pod lives, but does not hold the recorded address any more. Nothing was forwarded. Look its address up again."},
	IPAmbiguous:       {"ip-ambiguous", http.StatusConflict, "The address is held more than once", "More than one live Pod holds the address at this moment, so nobody can tell which one would answer. Nothing was forwarded."},
	ContainerReplaced: {"container-replaced", http.StatusConflict, "The container was replaced", "The Pod is the same, but its container was started anew since it was pinned. Nothing was forwarded."},
	SandboxGone:       {"sandbox-gone", http.StatusConflict, "The sandbox is gone", "The sandbox is deleted, being deleted, expired or has ended. Nothing was forwarded."},
	SandboxReplaced:   {"sandbox-replaced", http.StatusConflict, "The sandbox was replaced", "A different sandbox has taken the name of the sandbox that the request means. Nothing was forwarded."},
	SandboxAmbiguous:  {"sandbox-ambiguous", http.StatusConflict, "The sandbox is not unique", "More than one sandbox or Pod answers to what the request names. Nothing was forwarded."},
	PodShared:         {"pod-shared", http.StatusConflict, "The Pod is claimed twice", "Two sandboxes claim the same Pod at this moment. Nothing was forwarded."},
	Unverifiable:      {"unverifiable", http.StatusConflict, "The Pod cannot be verified", "The Pod shares its node's network, mirrors a static Pod, or its record cannot be read, so its address proves nothing. Nothing was forwarded."},

	UnknownSandbox: {"unknown-sandbox", http.StatusNotFound, "No such sandbox", "There is no sandbox of that name. Nothing was forwarded."},

	AddressNotAllowed: {"address-not-allowed", http.StatusForbidden, "The address is not allowed", "The address lies outside of what the operator allows. Nothing was forwarded."},
	PortNotAllowed:    {"port-not-allowed", http.StatusForbidden, "The port is not allowed", "The port lies outside of what the operator allows. Nothing was forwarded."},
	TargetNotAllowed:  {"target-not-allowed", http.StatusForbidden, "The Pod is not allowed", "The Pod lies outside of what the operator allows through this gateway, or of what the caller may name. Nothing was forwarded."},

	AccessDenied: {"access-denied", http.StatusUnauthorized, "Access denied", "The sandbox requires an access token or signature, and the request has none or a wrong one. Nothing was forwarded."},

	ClaimMissing:   {"claim-missing", http.StatusBadRequest, "The request does not say which Pod it means", "A field that names the Pod is missing. Nothing was forwarded."},
	ClaimMalformed: {"claim-malformed", http.StatusBadRequest, "The request names the Pod in a form that is not accepted", "A field that names the Pod is malformed. Nothing was forwarded."},
	ClaimConflict:  {"claim-conflict", http.StatusBadRequest, "The request says two things", "A field that names the Pod occurs twice, or two fields contradict each other. Nothing was forwarded."},

	NotSynced:        {"not-synced", http.StatusServiceUnavailable, "Not ready yet", "The view of the cluster is not complete yet. Nothing was forwarded; try again."},
	ViewStale:        {"view-stale", http.StatusServiceUnavailable, "The view of the cluster is too old", "The view of the cluster is older than the operator allows, so the Pod cannot be verified now. Nothing was forwarded; try again."},
	PodNotReady:      {"pod-not-ready", http.StatusServiceUnavailable, "The Pod is not ready", "The Pod does not run yet, or has no address yet. Nothing was forwarded; try again."},
	NotAssigned:      {"not-assigned", http.StatusServiceUnavailable, "The sandbox has no Pod yet", "No Pod is assigned to the sandbox yet. Nothing was forwarded; try again."},
	SandboxSuspended: {"sandbox-suspended", http.StatusServiceUnavailable, "The sandbox is suspended", "The sandbox is paused or suspended. Nothing was forwarded; resume it, then try again."},
	HintStale:        {"hint-stale", http.StatusServiceUnavailable, "The cached address is old", "The address that the client remembered is no longer the sandbox's. Nothing was forwarded; look it up again."},
	Overloaded:       {"overloaded", http.StatusServiceUnavailable, "Too many checks are waiting", "The Pod could not be verified in time. Nothing was forwarded; try again."},
	Internal:         {"internal", http.StatusServiceUnavailable, "The check failed", "The check itself failed, so the Pod could not be verified. Nothing was forwarded; try again."},
}
