package opensandbox

import (
	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// Queries are the questions that find every object which a claim may mean: BatchSandboxes,
// and the Sandboxes of agents.x-k8s.io that OpenSandbox's server makes where it is told
// to. Those are named by an id in which a DNS label allows less; the server labels
// whatever it makes with the id itself, so that no name has to be guessed.
//
// They find what an Index knows by the claim's name, and nothing else.
func Queries(c identity.Claim) []sandbox.Query {
	id := c.Sandbox
	var all []sandbox.Query
	for _, name := range [...]string{id, legacyPrefix + id} {
		if _, err := identity.NewNamespacedName("default", name); err == nil {
			all = append(all, sandbox.Query{Name: name})
		}
	}
	if len(id) <= mostLabel && validID(id) {
		all = append(all, sandbox.Query{Label: labelID, Value: id})
	}
	return all
}

// mostLabel is the longest value of a label.
const mostLabel = 63
