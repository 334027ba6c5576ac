// Package lab is the proving ground: real Envoys, a real etcd and kube-apiserver,
// and Pods that are HTTP servers on loopback addresses of their own, which behave
// like execd where it matters and remember what they executed.
//
// cache.go and install.go get the binaries; process.go runs them; envoy.go,
// samepod.go, authzserver.go and kube.go are the parts by name; pod.go and
// addresses.go are the Pods and who gives them addresses; invariant.go holds what
// must be true of every request.
//
// It is used by tests and by the demo. Nothing of the service imports it.
// Linux is assumed: all of 127.0.0.0/8 is loopback.
package lab
