package kube

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samepod/samepod/identity"
)

// Feed is where a watch writes objects as T: an [identity.Feed] takes Pods, and the feeds
// of package sandbox what engines have. The rules of [identity.Feed] hold.
type Feed[T any] interface {
	Replace(objects []T, asOf time.Time)
	Apply(object T, at time.Time)
	Delete(name identity.NamespacedName, uid identity.UID, at time.Time)
	Renew(at time.Time)
	Fail(err error) (news bool)
	Status() identity.FeedStatus
}

// sink is a feed that takes objects as the API server sends them.
type sink interface {
	replace(objects []metav1.Object, asOf time.Time)
	apply(object metav1.Object, at time.Time)
	Delete(name identity.NamespacedName, uid identity.UID, at time.Time)
	Renew(at time.Time)
	Fail(err error) (news bool)
	Status() identity.FeedStatus
}

// decoded is a sink before a feed of T.
type decoded[T any] struct {
	Feed[T]
	decode func(metav1.Object) T
}

func (d decoded[T]) replace(objects []metav1.Object, asOf time.Time) {
	all := make([]T, len(objects))
	for i, o := range objects {
		all[i] = d.decode(o)
	}
	d.Replace(all, asOf)
}

func (d decoded[T]) apply(object metav1.Object, at time.Time) { d.Apply(d.decode(object), at) }
