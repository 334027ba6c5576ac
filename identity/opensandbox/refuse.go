package opensandbox

import (
	"encoding/json"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// Keys of Pods.
const (
	labelPool         = "sandbox.opensandbox.io/pool-name"
	annotationRestart = "sandbox.opensandbox.io/restart-record"
)

// Keep says what has to be kept of Pods for [Refuse] and for ownership.
func Keep() identity.Keep {
	return identity.Keep{Owners: []string{Kind, PoolKind}, Marks: []string{labelPool, annotationRestart}}
}

// Refuse says that a Pod of a Pool is not, or no longer, the sandbox's by what stands on
// the Pod, which must have been kept by [Keep]: another Pool's name, or that it is being
// restarted, or was, in order to be taken away from this very sandbox. The record of a
// restart stays on the Pod, so that of another sandbox is the usual thing to find.
//
// A Pod that the sandbox controls itself is not asked: a pause copies the marks of a
// Pool's Pod into the template. Newer versions also put the sandbox's name on a Pool's
// Pod while it is given away; they write and remove it apart from the allocation, so
// nothing is made of it.
func Refuse(s *sandbox.Sandbox, p identity.Pod) identity.TargetState {
	if s.Pool == "" {
		return identity.Bound
	}
	if pool, ok := p.Marks[labelPool]; ok && pool != s.Pool {
		return identity.PodForeign
	}
	text, ok := p.Marks[annotationRestart]
	if !ok {
		return identity.Bound
	}
	var record struct {
		ID string `json:"id"`
	}
	switch err := json.Unmarshal([]byte(text), &record); {
	case err != nil:
		return identity.SandboxUnreadable
	case record.ID == s.Name:
		return identity.Releasing
	}
	return identity.Bound
}
