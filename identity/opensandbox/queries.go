package opensandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// Queries are the questions that find every BatchSandbox which a claim may mean.
func Queries(c identity.Claim) []sandbox.Query { return queries(c.Sandbox, c.Sandbox) }

// AgentSandboxQueries are the same for the Sandboxes of agents.x-k8s.io that OpenSandbox's
// server makes where it is told to: it names them by [AgentSandboxName].
func AgentSandboxQueries(c identity.Claim) []sandbox.Query {
	return queries(c.Sandbox, AgentSandboxName(c.Sandbox))
}

func queries(id, name string) []sandbox.Query {
	var all []sandbox.Query
	for _, n := range []string{name, id, legacyPrefix + id} {
		if _, err := identity.NewNamespacedName("default", n); err == nil && !slices.Contains(all, sandbox.Query{Name: n}) {
			all = append(all, sandbox.Query{Name: n})
		}
	}
	if len(id) <= mostLabel && validID(id) {
		all = append(all, sandbox.Query{Label: labelID, Value: id})
	}
	return all
}

// mostLabel is the longest label, and the longest value of one.
const mostLabel = 63

// AgentSandboxName is what OpenSandbox's server calls the Sandbox of agents.x-k8s.io that
// it makes for an id (agent_sandbox_provider.py, _to_dns1035_label, and agent_sandbox_
// provider.go, toDNS1035Label): a label of DNS that begins with a letter.
func AgentSandboxName(id string) string {
	const prefix = "sandbox"
	sum := sha256.Sum256([]byte(id))
	suffix := hex.EncodeToString(sum[:4])
	name := hyphenated(id)
	switch {
	case name == "":
		name = prefix + "-" + suffix
	case name[0] < 'a' || name[0] > 'z':
		name = prefix + "-" + name
	}
	if len(name) > mostLabel {
		name = strings.TrimRight(name[:mostLabel-len(suffix)-1], "-") + "-" + suffix
	}
	return name
}

// hyphenated is s in lower case, with one hyphen for all that is no letter or digit, and
// none at its ends.
func hyphenated(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.TrimRight(b.String(), "-")
}
