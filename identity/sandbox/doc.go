// Package sandbox answers what an engine's objects say: which Pod does this sandbox
// mean now?
//
// An engine (OpenSandbox, agent-sandbox) has objects, each a [Sandbox] here, whatever
// they are called there. A source writes them into an [Index] through a [Feed]; a check
// asks [Index.Target], which joins the sandbox with its Pod out of package identity.
// [Index.Confirm] asks the API server itself, where what was watched is not enough, and
// writes the [Pin] against which "still the same Pod" is measured from then on.
//
// Read sandbox.go and pin.go (the values), feed.go and index.go (what is known),
// target.go (what it means), confirm.go and shared.go (the reads
// and the pin).
//
// The package knows no engine, no Kubernetes client and no Envoy: what is particular to
// an engine is in [Engine].
package sandbox
