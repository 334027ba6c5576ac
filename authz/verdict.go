package authz

import (
	"net/netip"

	"github.com/samepod/samepod/identity"
)

// Claim is what a request says it wants. It is comparable, and the zero Claim is
// refused.
type Claim struct {
	// Pod is the Pod that is named.
	Pod identity.NamespacedName
	// UID is the uid that the Pod must have. It is empty only if AnyUID is set.
	UID identity.UID
	// AnyUID accepts whatever Pod has the name: a rebuilt one too. Only an
	// explicit setting makes such a claim.
	AnyUID bool
	// Recorded is the address that the caller remembers, or invalid. Where it is
	// valid it is the address to dial, and the Pod must still hold it.
	Recorded netip.AddrPort
	// Port is the port to dial; that of Recorded where there is one.
	Port uint16
	// Authorized says that the caller may name this Pod, as far as samepod was
	// told to look.
	Authorized bool
}

// Verdict is the outcome of a check. The zero Verdict denies.
type Verdict struct {
	Reason Reason
	// Upstream is the one address that may be dialled, and UID the uid of the Pod
	// that holds it. They are set if and only if Reason is [SamePod].
	Upstream netip.AddrPort
	UID      identity.UID
	// Detail replaces the reason's own text for the caller where there is more to
	// say: which field of the request is wrong, and how.
	Detail string
	// rule is which of the operator's rules denied, for the log, where the reason
	// alone does not tell.
	rule string
}

func deny(r Reason) Verdict { return Verdict{Reason: r} }

// decide is the product: is the address that we are about to dial still held by
// the Pod that is meant? The order of its questions is a promise
// (docs/reasons.md): whether we can know, whether the Pod may be named and the
// port dialled, whether it is the Pod, whether it is the address.
//
// Confirmation of a denial by a live read, when it comes, belongs around this
// function: read, then decide again on the new view.
func (p *Policy) decide(c Claim, v identity.View) Verdict {
	pod := &v.Pod
	switch {
	case v.Freshness == identity.NotSynced:
		return deny(NotSynced)
	case v.Freshness != identity.Fresh:
		return deny(ViewStale)

	case !c.Authorized:
		return Verdict{Reason: TargetNotAllowed, rule: "claim.allowed"}
	case !p.Scope.Contains(c.Pod.Namespace):
		return Verdict{Reason: TargetNotAllowed, rule: "scope.namespaces"}
	case v.Found && !pod.Selected:
		return Verdict{Reason: TargetNotAllowed, rule: "scope.selector"}
	case !p.Ports.Contains(c.Port):
		return Verdict{Reason: PortNotAllowed, rule: "ports"}

	case !v.Found:
		return deny(PodGone)
	case !c.AnyUID && pod.UID != c.UID:
		return deny(PodReplaced)
	case pod.HostNetwork, pod.Mirror, pod.Malformed != "", pod.UID == "":
		return deny(Unverifiable)
	case pod.Terminal():
		return deny(PodTerminal)
	case pod.Terminating:
		return deny(PodTerminating)
	case pod.Phase != identity.PhaseRunning, len(pod.IPs) == 0, p.RequireReady && !pod.Ready:
		return deny(PodNotReady)

	case p.Addresses.refuses(v.Addr, v.Node) != "":
		return Verdict{Reason: AddressNotAllowed, rule: p.Addresses.refuses(v.Addr, v.Node)}
	case !v.Holds:
		return deny(IPMoved)
	case v.Others > 0:
		return deny(IPAmbiguous)
	}
	return Verdict{Reason: SamePod, Upstream: netip.AddrPortFrom(v.Addr, c.Port), UID: pod.UID}
}
