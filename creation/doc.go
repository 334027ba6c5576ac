// Package creation measures one thing: of the Pods that were bound to a node, how
// many had a sandbox (the CRI's: network and, with gVisor, a running sentry) in
// time. The rate of these is the SLI pod_sandbox_creation_success_rate, which is
//
//	good / (good + bad)
//
// One Pod uid is one unit, however often the kubelet tries. The kubelet tries again
// for ever, so one Pod that never starts makes hundreds of failed attempts an hour,
// and a rate of attempts says "78 %" where one Pod of a thousand is affected.
//
// A [Tracker] is told facts ([Pod], [Event], [Node]) and gives one [Outcome] for
// each generation of each Pod: good, bad, or excluded with the reason why it says
// nothing about sandboxes. [Metrics] counts outcomes for Prometheus, and a [Ledger]
// remembers them by time for the question "and since the upgrade?".
//
// Read fact.go (what is told), outcome.go and cause.go (what is said), judge.go (the
// rules), tracker.go and sandbox.go (when they are asked), evidence.go (events).
//
// The package knows neither Kubernetes' types nor where facts come from.
package creation
