package creation

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/samepod/samepod/identity"
)

// Status is the status of a condition. The zero value is that of a condition that
// the object does not have, or about which nothing is known.
type Status uint8

// The statuses of the Kubernetes API (meta/v1 ConditionStatus).
const (
	Absent Status = iota
	False
	True
)

// Condition is what is read of a condition.
type Condition struct {
	Status
	// Since is lastTransitionTime: whole seconds, by the clock of whoever wrote it.
	Since time.Time
}

// Pod is what the SLI reads of a Pod object. Nobody writes to it afterwards.
type Pod struct {
	identity.NamespacedName
	UID          identity.UID
	Node         string // spec.nodeName
	RuntimeClass string // spec.runtimeClassName
	Owner        string // uid of the controller in metadata.ownerReferences
	// Mirror says that the Pod reflects a static one, which nobody schedules.
	Mirror      bool
	HostNetwork bool
	// Terminal says that status.phase is Succeeded or Failed, Reason is
	// status.reason.
	Terminal bool
	Reason   string
	// Deleted is when the deletion was asked for: deletionTimestamp less the grace
	// period. Zero for a Pod that is not being deleted.
	Deleted time.Time

	Scheduled Condition // PodScheduled
	// Sandbox is PodReadyToStartContainers, beta and on from Kubernetes 1.29.
	Sandbox Condition
	// Acknowledged is status.startTime: the kubelet has seen the Pod.
	Acknowledged time.Time
	// Container says that some container has, or had, an id. Begun is the earliest
	// start of one, zero if none is told.
	Container bool
	Begun     time.Time
	IP        netip.Addr // status.podIP
}

// Event is what is read of an Event about a Pod.
type Event struct {
	UID     string // of the Event object, which is updated and not written again
	Pod     identity.UID
	Reason  string
	Message string
	Count   int // how often it has happened, as far as is told
	// At is when it happened last.
	At time.Time
}

// Node is what is read of a Node.
type Node struct {
	Name  string
	Ready Condition
	// Version is what outcomes are split by, such as
	// status.nodeInfo.containerRuntimeVersion. It comes from an operator's cluster, and
	// is not a closed set.
	Version string
}

// Reasons are those of the Events that a [Tracker] reads; it ignores all others.
//
// SandboxChanged is not among them: the kubelet also says it of a first sandbox
// whose creation failed half-way, so it does not tell a re-creation.
func Reasons() []string {
	return []string{failedSandbox, "FailedMount", "FailedAttachVolume", "FailedPrepareDynamicResources"}
}

const failedSandbox = "FailedCreatePodSandBox"

// blockedBy is what the reason of an Event says about the time before the sandbox.
func blockedBy(reason string) Exclusion {
	switch reason {
	case "FailedMount", "FailedAttachVolume":
		return Volume
	case "FailedPrepareDynamicResources":
		return DRA
	}
	return NotExcluded
}

// refusals are reasons of Pods that a kubelet did not admit, or gave up for the
// node's sake before they had a sandbox.
var refusals = []string{
	"UnexpectedAdmissionError", "NodeAffinity", "NodeName", "NodePorts", "TopologyAffinityError", "SysctlForbidden", "AppArmor",
	"Evicted", "Preempting", "NodeShutdown",
}

func (p *Pod) refused() bool {
	return p.Terminal && (slices.Contains(refusals, p.Reason) || strings.HasPrefix(p.Reason, "OutOf"))
}

// bound is when the Pod was bound to its node: when the scheduler said so, else
// when the kubelet saw it.
func (p *Pod) bound() (time.Time, bool) {
	switch {
	case p.Node == "" || p.Scheduled.Status != True:
		return time.Time{}, false
	case !p.Scheduled.Since.IsZero():
		return p.Scheduled.Since, true
	}
	return p.Acknowledged, !p.Acknowledged.IsZero()
}

// created says that the Pod's first sandbox exists, or did, by what, and since when
// as far as that is told; zero if it is not.
//
// The condition becomes False again when the Pod ends, and a True can be missed
// between two updates, so what can only follow a sandbox is evidence too: a
// container, and an address. The kubelet gives a Pod of the host network the node's
// address before there is a sandbox, so that one is none.
func (p *Pod) created() (since time.Time, by Evidence) {
	switch {
	case p.Sandbox.Status == True:
		return p.Sandbox.Since, ByCondition
	case p.Container:
		return p.Begun, ByContainer
	case p.IP.IsValid() && !p.HostNetwork:
		return time.Time{}, ByAddress
	}
	return time.Time{}, NoEvidence
}
