// Package agentsandbox reads kubernetes-sigs/agent-sandbox: what its Sandbox objects
// say, and what its clients send to its routers.
//
// A Sandbox controls its one Pod by ownerReference; nothing else about it is evidence:
// not the Pod's name, not the hash label, not status.podIPs, which go on naming a Pod
// that has failed. Read object.go (the object), refuse.go (the Pod), route.go (the
// request).
package agentsandbox
