// Package node says why Pod sandboxes do not start on a node, from what is on its
// disk and in its logs.
//
// It reads a node, or a copy of its files: what containerd is really configured
// with (containerd.go), every path component by component (walk.go), the failing
// predicate itself on the running kernel (proof.go), versions (version.go), and
// logs, by signatures with causes before symptoms (signature.go, log.go). Checks are
// a table (check.go). explain.go joins a Pod's events and conditions with the logs.
//
// What cannot be known is said to be unknown, never to be right.
package node
