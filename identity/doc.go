// Package identity answers one question: which Pod holds this address now?
//
// Two flows meet in [Index] and nowhere else. A source (a Kubernetes watch, a
// file) writes Pods into it through a [Feed], which also says how old the
// source's word is. A check reads one [View] of it: the Pod that the check
// names, the address that it is about, and everybody else who holds that
// address, all read under one lock.
//
// Read name.go and addr.go (the values), pod.go (what is kept of a Pod), feed.go
// and freshness.go (how fresh), index.go (who holds what), history.go (who held what).
//
// The package imports the standard library and golang-lru. It knows neither
// Kubernetes' types nor Envoy's.
package identity
