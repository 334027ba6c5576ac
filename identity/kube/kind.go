package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// kind is what differs between watches: which objects are asked for, in which
// namespace, and what they look like.
type kind struct {
	name  string // as in "what is no Pod"
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
	is    func(object any) bool // an object of this kind, and a metav1.Object
	trim  cache.TransformFunc   // drops what nobody reads
}

// object is o as an object of this kind, or nil. It is named if it can be kept: a
// bookmark has no name.
func (k kind) object(o any) (object metav1.Object, named bool) {
	if !k.is(o) {
		return nil, false
	}
	object = o.(metav1.Object)
	return object, object.GetNamespace() != "" && object.GetName() != "" && object.GetUID() != ""
}
