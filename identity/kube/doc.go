// Package kube is the source that watches a Kubernetes API server: for Pods, and for
// what engines keep their sandboxes in. It is the only importer of client-go.
//
// client.go says where the API server is, and gives each watch connections of its own;
// watch.go lists and watches; store.go writes what arrives into the index, in the API
// server's order and before the next event is read; guard.go ends a watch that is
// silent or speaks nonsense. They serve every kind of object; what differs is in kind.go,
// feed.go (where it goes), pod.go (which parts of a Pod are read) and resource.go (the
// kinds of CRDs, which come and go). live.go asks the API server itself.
//
// There is no informer, and no store of Pods beside the index: client-go's
// Reflector, which is the half of an informer that lists and watches, writes
// straight into it. An informer hands events to its handlers through a queue, so
// a bookmark (the API server's word that nothing else happened) can be seen while
// the events before it still wait; here it is seen after they are applied, and
// the age of the index is then never younger than the index. The Reflector also
// tells a list from an event, which an informer's handlers cannot on a relist.
//
// Freshness is passive: the age since the last event or bookmark. It proves
// nothing about how far the API server itself is behind, so it is called
// unproven wherever it is shown.
//
// The creation SLI is apart from all that (creation.go, creation_watch.go,
// creation_object.go): it has informers of its own, since a verdict may wait for what
// is in a queue, and runs only in the replica that holds a Lease (lease.go).
package kube
