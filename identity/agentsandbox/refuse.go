package agentsandbox

import (
	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// Refuse says whether a Pod that s controls is not its own yet, or no more
// ([sandbox.Engine].Refuse).
//
// A Pod that still has the label of a warm pool may have no owner who was told of it:
// the label goes up to a second after the Sandbox was adopted. Until then others may
// have had a way to it. And where the controller tracks a Pod by another name, object
// and Pod say two things; the controller mends that at once, in favour of the owner.
func Refuse(s *sandbox.Sandbox, pod identity.Pod) identity.TargetState {
	if _, waits := pod.Marks[warmPoolLabel]; waits {
		return identity.NotAssigned
	}
	if len(s.Pods) == 1 && s.Pods[0] != pod.Name {
		return identity.NotAssigned
	}
	return identity.Bound
}

// Access lets everybody in who may name the Sandbox: agent-sandbox knows no secret of a
// Sandbox. path is what the Pod gets ([sandbox.Engine].Access).
func Access(c identity.Claim, _ *sandbox.Sandbox) (state identity.TargetState, path string) {
	return identity.Bound, c.Path
}

// Keep says what has to be kept of Pods for [Refuse] and for ownership.
func Keep() identity.Keep {
	return identity.Keep{Owners: []string{Kind}, Marks: []string{warmPoolLabel}}
}
