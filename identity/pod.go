package identity

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
)

// Phase is status.phase of a Pod. The zero value is PhaseUnknown: a Pod about
// which nothing is said is not running.
type Phase uint8

// The phases of the Kubernetes API (core/v1 PodPhase).
const (
	PhaseUnknown Phase = iota
	PhasePending
	PhaseRunning
	PhaseSucceeded
	PhaseFailed
)

var phaseNames = [...]string{"Unknown", "Pending", "Running", "Succeeded", "Failed"}

func (p Phase) String() string {
	if int(p) >= len(phaseNames) {
		return fmt.Sprintf("Phase(%d)", p)
	}
	return phaseNames[p]
}

// parsePhase reads a phase as the API writes it. The empty string is a Pod that
// no kubelet has seen, and therefore PhaseUnknown.
func parsePhase(s string) (Phase, error) {
	if s == "" {
		return PhaseUnknown, nil
	}
	if i := slices.Index(phaseNames[:], s); i >= 0 {
		return Phase(i), nil //nolint:gosec // an index of five names
	}
	return PhaseUnknown, fmt.Errorf("must be one of %v", phaseNames)
}

// Pod is what is kept of a Pod: the facts that a verdict needs, and no others.
// A field is added together with its reader. Sources build it once per event and
// nobody writes to it, or to the arrays behind its slices, afterwards.
type Pod struct {
	NamespacedName
	UID   UID
	Phase Phase
	// IPs are status.podIPs, parsed by [ParseAddr]; the first is the primary one.
	IPs []netip.Addr
	// HostIPs are status.hostIPs: addresses of the node, which are nobody's Pod.
	HostIPs []netip.Addr
	// Ready is the Pod's Ready condition. It is about the application, not about
	// who holds the address.
	Ready bool
	// Terminating says that metadata.deletionTimestamp is set. The CNI may give
	// the address away before the object is gone.
	Terminating bool
	// HostNetwork says that the Pod shares the addresses of its node.
	HostNetwork bool
	// Mirror says that the Pod is the API's reflection of a static Pod
	// (annotation kubernetes.io/config.mirror), whose uid the kubelet may reuse.
	Mirror bool
	// Selected says that the operator's selector matches the Pod's labels.
	Selected bool
	// Owner is the controller of the Pod, if it is of a kind in [Keep.Owners].
	Owner Owner
	// Container is the id of the running first container of the spec, if
	// [Keep.Containers] asks for it.
	Container string
	// Marks are the labels and annotations in [Keep.Marks] that the Pod has.
	Marks map[string]string
	// Malformed says what in the object could not be understood. Such a Pod is
	// never the same Pod, but holds those of its addresses that could be read.
	Malformed string
}

// Owner is the object that controls a Pod (metadata.ownerReferences, the one with
// controller: true). The uid is what counts: a name is taken again.
type Owner struct {
	Kind string // with its group, such as BatchSandbox.sandbox.opensandbox.io
	Name string // in the Pod's namespace
	UID  UID
}

// Terminal reports whether the Pod has ended: its containers run no more and
// will not run again, although the object and its status.podIP may stay.
func (p *Pod) Terminal() bool { return p.Phase == PhaseSucceeded || p.Phase == PhaseFailed }

// holds reports whether the Pod is a holder of its addresses: whether it makes
// them ambiguous for anyone else.
//
// A terminal Pod holds nothing, even while its status still shows the address:
// the CNI released it (kubernetes#109414, #98611). A terminating Pod is denied
// itself but does not spoil the address for its successor (kubernetes#135266). A
// host-network Pod has addresses of its node. A Pending Pod with an address has
// been given it already.
func (p *Pod) holds() bool { return !p.Terminal() && !p.Terminating && !p.HostNetwork }

// nodeAddrs are the addresses of the node, as far as this Pod tells: what it
// reports as such, and its own ones if it uses the node's network.
func (p *Pod) nodeAddrs() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for _, addr := range p.HostIPs {
			if !yield(addr) {
				return
			}
		}
		if !p.HostNetwork {
			return
		}
		for _, addr := range p.IPs {
			if !yield(addr) {
				return
			}
		}
	}
}

// owner is the key of what controls the Pod.
func (p *Pod) owner() ownerKey { return ownerKey{p.Namespace, p.Owner.UID} }

// primary is the address that is dialled when the claim records none.
func (p *Pod) primary() netip.Addr {
	if len(p.IPs) == 0 {
		return netip.Addr{}
	}
	return p.IPs[0]
}
