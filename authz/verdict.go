package authz

import (
	"net/netip"

	"github.com/samepod/samepod/identity"
)

// Verdict is the outcome of a check. The zero Verdict denies.
type Verdict struct {
	Reason Reason
	// Upstream is the one address that may be dialled, and UID the uid of the Pod
	// that holds it. They are set if and only if Reason is [SamePod].
	Upstream netip.AddrPort
	UID      identity.UID
	// Path is what the Pod gets as :path, or "" for what the caller sent.
	Path string
	// OwnHost says that the Pod gets Upstream as :authority, and not what the caller sent.
	OwnHost bool
	// Sandbox is the engine's object as <namespace>/<name>, SandboxID what the caller
	// calls it, and Renew says that it asks for its life to be prolonged by use: for
	// Envoy's access log.
	Sandbox   identity.NamespacedName
	SandboxID string
	Renew     bool
	// Detail replaces the reason's own text for the caller where there is more to
	// say: which field of the request is wrong, and how.
	Detail string
	// rule is which of the operator's rules denied, for the log, where the reason
	// alone does not tell.
	rule string
	// confirm says that the API server itself must be asked before this is an answer.
	confirm bool
}

func deny(r Reason) Verdict { return Verdict{Reason: r} }

// decide is the product: is the address that we are about to dial still held by
// the Pod that is meant? The order of its questions is a promise
// (docs/reasons.md): whether we can know, whether the caller may name it, what the
// engine's objects say, whether the Pod may be reached and the port dialled, whether it
// is the Pod, whether it is the address.
//
// Where what was watched is not enough the Verdict asks for confirmation, and denies:
// the server reads, then decides again on what it then knows.
func (p *Policy) decide(c identity.Claim, t identity.Target) Verdict {
	if v := p.open(c, t); v.Reason != SamePod {
		return v
	}
	return p.same(c, t)
}

// open asks what comes before the Pod: whether it is known and may be reached at all.
// [SamePod] goes on; it is no allow yet, for it has no address.
func (p *Policy) open(c identity.Claim, t identity.Target) Verdict {
	v := &t.View
	switch {
	case v.Freshness == identity.NotSynced:
		return deny(NotSynced)
	case v.Freshness != identity.Fresh:
		return deny(ViewStale)

	case !c.Authorized:
		return Verdict{Reason: TargetNotAllowed, rule: "claim.allowed"}
	case c.Namespace != "" && !p.Scope.Contains(c.Namespace):
		return Verdict{Reason: TargetNotAllowed, rule: "scope.namespaces"}
	case t.State == identity.SandboxUnknown:
		return Verdict{Reason: UnknownSandbox, confirm: !t.Live}
	case sandboxReason(t.State) != SamePod:
		return Verdict{Reason: sandboxReason(t.State), rule: t.Why}

	case !p.Scope.Contains(namespace(c, t)):
		return Verdict{Reason: TargetNotAllowed, rule: "scope.namespaces"}
	case v.Found && !v.Pod.Selected:
		return Verdict{Reason: TargetNotAllowed, rule: "scope.selector"}
	case !p.Ports.Contains(c.Port):
		return Verdict{Reason: PortNotAllowed, rule: "ports"}
	}
	return deny(SamePod)
}

// same asks whether it is the Pod, and then whether it is the address.
func (p *Policy) same(c identity.Claim, t identity.Target) Verdict {
	v, pod := &t.View, &t.View.Pod
	switch {
	case podReason(t.State) != SamePod:
		return Verdict{Reason: podReason(t.State), rule: t.Why}
	case !v.Found:
		return deny(PodGone)
	case c.Sandbox == "" && !c.AnyUID && pod.UID != c.UID, t.Pin == identity.PinBroken:
		return deny(PodReplaced)
	case pod.HostNetwork, pod.Mirror, pod.Malformed != "", pod.UID == "":
		return deny(Unverifiable)
	case t.Pin == identity.PinRefused:
		return Verdict{Reason: Unverifiable, rule: "pin: " + t.Why}
	case pod.Terminal():
		return deny(PodTerminal)
	case pod.Terminating:
		return deny(PodTerminating)
	case t.Pin == identity.PinRestarted:
		return deny(ContainerReplaced)
	case pod.Phase != identity.PhaseRunning, len(pod.IPs) == 0, p.RequireReady && !pod.Ready:
		return deny(PodNotReady)

	case p.Addresses.refuses(v.Addr, v.Node) != "":
		return Verdict{Reason: AddressNotAllowed, rule: p.Addresses.refuses(v.Addr, v.Node)}
	case t.HintStale:
		return deny(HintStale)
	case !v.Holds:
		return deny(IPMoved)
	case v.Others > 0:
		return deny(IPAmbiguous)
	case t.Pin == identity.PinWanted, t.Reread && !t.Live:
		return Verdict{Reason: Overloaded, confirm: true}
	}
	allow := Verdict{Reason: SamePod, Upstream: netip.AddrPortFrom(v.Addr, c.Port), UID: pod.UID, Path: t.Path, OwnHost: c.HidesHost}
	if c.Sandbox != "" {
		allow.Sandbox, allow.SandboxID, allow.Renew = t.Sandbox, c.Sandbox, t.Renew && !c.NoRenewal
	}
	return allow
}

// namespace is where the Pod is that the claim names, or that its sandbox means.
func namespace(c identity.Claim, t identity.Target) string {
	if c.Sandbox == "" {
		return c.Pod.Namespace
	}
	return t.Sandbox.Namespace
}

// sandboxReason is what a state of the engine's objects means before anything is asked
// about the Pod; [SamePod] goes on.
func sandboxReason(s identity.TargetState) Reason {
	switch s {
	case identity.AccessDenied:
		return AccessDenied
	case identity.SandboxGone:
		return SandboxGone
	case identity.SandboxReplaced:
		return SandboxReplaced
	case identity.SandboxAmbiguous:
		return SandboxAmbiguous
	case identity.SandboxSuspended:
		return SandboxSuspended
	case identity.NotAssigned:
		return NotAssigned
	case identity.PodShared:
		return PodShared
	case identity.Bound, identity.SandboxUnreadable, identity.Releasing, identity.PodForeign:
		return SamePod
	case identity.Unresolved, identity.AccessUnverifiable, identity.SandboxUnknown:
	}
	return Internal
}

// podReason is the same, of states that tell that the Pod is not the sandbox's.
func podReason(s identity.TargetState) Reason {
	switch s {
	case identity.Bound:
		return SamePod
	case identity.Releasing:
		return PodGone
	case identity.PodForeign:
		return PodReplaced
	case identity.SandboxUnreadable:
		return Unverifiable
	default:
		return Internal
	}
}
