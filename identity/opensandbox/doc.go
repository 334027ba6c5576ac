// Package opensandbox reads OpenSandbox: which of its sandboxes a request means, what
// its objects say of the Pod, and whether the caller may enter.
//
// It answers as OpenSandbox's own ingress does where that is a matter of routes, and
// not at all as the ingress does where that is a matter of addresses: nothing here
// believes the published endpoints. What is read is
// github.com/opensandbox-group/OpenSandbox, components/ingress and
// kubernetes/internal/controller, at 3bb6fad (2026-06).
//
// In reading order: route.go and path.go (a request becomes a claim), object.go and pool.go (an
// object becomes a value), allocation.go and resumed.go (the two traps of it), refuse.go
// (what a Pod says itself), access.go and keys.go (who may enter), queries.go (how to
// ask the API server).
package opensandbox
