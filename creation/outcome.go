package creation

import (
	"fmt"
	"time"

	"github.com/samepod/samepod/identity"
)

// Result says how the creation of a sandbox ended. The zero value is no result.
type Result uint8

const (
	// Good says that the sandbox was there in time.
	Good Result = iota + 1
	// Bad says that it was not.
	Bad
	// Excluded says that it was not, for a reason that has nothing to do with sandboxes.
	Excluded
	// Recovered is no verdict: the sandbox of a Bad one is there after all, which
	// changes nothing for the SLI.
	Recovered
)

var resultNames = [...]string{"", "good", "bad", "excluded", "recovered"}

func (r Result) String() string { return name(resultNames[:], r) }

// Exclusion is why an outcome says nothing about sandboxes.
type Exclusion uint8

const (
	// NotExcluded is that of Good and Bad.
	NotExcluded Exclusion = iota
	// DeletedEarly says that the Pod was deleted before its deadline, and no sandbox
	// had failed.
	DeletedEarly
	// Volume says that a volume was not there, which comes before the sandbox.
	Volume
	// DRA says that a dynamic resource was not there, which comes before the sandbox.
	DRA
	// Admission says that the kubelet did not admit the Pod.
	Admission
	// NodeDown says that the node was not ready when the Pod was bound to it.
	NodeDown
	// Silent says that the kubelet has said nothing at all about the Pod.
	Silent
	// LeftCensored says that the Pod was bound before anybody counted, or that
	// another replica has counted it.
	LeftCensored
)

var exclusionNames = [...]string{"", "deleted_early", "volume", "dra", "admission", "node_down", "silent", "left_censored"}

func (x Exclusion) String() string { return name(exclusionNames[:], x) }

// Exclusions are all of them, the closed set of a label.
func Exclusions() []Exclusion { return all[Exclusion](exclusionNames[:]) }

// Evidence is what an outcome rests on.
type Evidence uint8

const (
	// NoEvidence is that of most exclusions.
	NoEvidence Evidence = iota
	// ByCondition is PodReadyToStartContainers.
	ByCondition
	// ByContainer is a container that has an id.
	ByContainer
	// ByAddress is status.podIP.
	ByAddress
	// ByEvent is an Event that says that creation failed.
	ByEvent
	// ByPhase is a Pod that has ended, without a sandbox.
	ByPhase
	// ByDeadline is a kubelet that has seen the Pod, and nothing since.
	ByDeadline
)

var evidenceNames = [...]string{"", "condition", "container", "podip", "event", "phase", "deadline"}

func (e Evidence) String() string { return name(evidenceNames[:], e) }

// Outcome is how the creation of one sandbox ended.
type Outcome struct {
	identity.NamespacedName
	UID          identity.UID
	Node         string
	NodeVersion  string // empty if the Node is not known
	RuntimeClass string
	Owner        string
	// Generation is 1 for the first sandbox of the uid, and more for one that was
	// made again under it, with a new network namespace and mostly a new address.
	Generation int

	Result    Result
	Exclusion Exclusion
	Evidence  Evidence
	Cause     Cause // of a Bad one
	// Attempts is how many failures events have told; less than there were.
	Attempts int
	// Took is the time from binding, or from the end of the sandbox before, until the
	// sandbox was there. Zero if that is not known.
	Took time.Duration
	// Skewed says that the clocks that told it contradict each other.
	Skewed bool
	At     time.Time // of the verdict, by our clock
}

func name[T ~uint8](names []string, v T) string {
	if int(v) >= len(names) {
		return fmt.Sprintf("unknown(%d)", v)
	}
	return names[v]
}

// all are the values of a closed set, without the zero value.
func all[T ~uint8](names []string) []T {
	var values []T
	for i := 1; i < len(names); i++ {
		values = append(values, T(i))
	}
	return values
}
