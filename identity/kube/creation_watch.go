package kube

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/samepod/samepod/creation"
)

// informer is one list and watch.
type informer struct {
	name    string
	list    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch   func(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
	object  runtime.Object
	trim    cache.TransformFunc
	handler cache.ResourceEventHandlerFuncs
}

// controller calls the handler for one object at a time, in order, and has synced
// when it has done so for the whole first list.
func (c *Creation) controller(ctx context.Context, i informer) cache.Controller {
	logger := klog.FromContext(ctx)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := i.list(ctx, o)
			c.fault(ctx, "list "+i.name, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			w, err := i.watch(ctx, o)
			c.fault(ctx, "watch "+i.name, err)
			return w, err
		},
	}
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		Logger: &logger, ListerWatcher: cache.ToListWatcherWithWatchListSemantics(lw, c.client),
		ObjectType: i.object, Transform: i.trim, Handler: i.handler,
	})
	return controller
}

func (c *Creation) pods(namespace string, tracker *creation.Tracker) (informer, *word) {
	client, heard := c.client.CoreV1().Pods(namespace), &word{}
	mine := func(p *corev1.Pod) bool {
		return c.options.InScope(p.Namespace) && (c.options.Keep.Selected == nil || c.options.Keep.Selected(p.Labels))
	}
	see := func(p *corev1.Pod) {
		if mine(p) {
			tracker.Pod(creationPod(p))
		}
		heard.heard()
	}
	gone := func(p *corev1.Pod) {
		if mine(p) {
			tracker.Gone(creationPod(p))
		}
	}
	// When a Pod went whose deletion was missed is not known, nor whether it had its
	// sandbox until then: it may have gone at once, and nobody failed.
	missed := func(p *corev1.Pod) {
		if p.DeletionTimestamp == nil {
			p = p.DeepCopy()
			p.DeletionTimestamp = &p.CreationTimestamp
		}
		gone(p)
	}
	i := informer{name: "pods", object: &corev1.Pod{}, trim: trimCreation}
	i.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) }
	i.watch = func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
		w, err := client.Watch(ctx, o)
		if err != nil {
			return nil, err
		}
		return apiwatch.Filter(w, func(e apiwatch.Event) (apiwatch.Event, bool) {
			if e.Type == apiwatch.Bookmark && !endsList(e.Object) {
				heard.heard()
			}
			return e, true
		}), nil
	}
	i.handler = cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { see(o.(*corev1.Pod)) },
		UpdateFunc: func(old, o any) {
			// A name that another Pod has after a break of the watch: the deletion was missed.
			if before, now := old.(*corev1.Pod), o.(*corev1.Pod); before.UID != now.UID {
				missed(before)
			}
			see(o.(*corev1.Pod))
		},
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				missed(tombstone.Obj.(*corev1.Pod))
			} else {
				gone(o.(*corev1.Pod))
			}
			heard.heard()
		},
	}
	return i, heard
}

// endsList reports whether a bookmark ends a streaming list, which is applied only
// then.
func endsList(o runtime.Object) bool {
	p, ok := o.(*corev1.Pod)
	return ok && p.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}

// events are those of one reason: the API server selects, since of all Events these
// are few.
func (c *Creation) events(namespace, reason string, tracker *creation.Tracker) informer {
	client := c.client.CoreV1().Events(namespace)
	selector := fields.Set{"involvedObject.kind": "Pod", "reason": reason}.String()
	see := func(o any) { tracker.Event(creationEvent(o.(*corev1.Event))) }
	return informer{
		name: "events " + reason,
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return client.List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.FieldSelector = selector
			return client.Watch(ctx, o)
		},
		object: &corev1.Event{}, trim: trimCreation,
		handler: cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }},
	}
}

func (c *Creation) nodes(tracker *creation.Tracker) informer {
	client := c.client.CoreV1().Nodes()
	see := func(o any) { tracker.Node(creationNode(o.(*corev1.Node), c.options.NodeVersionLabel)) }
	return informer{
		name: "nodes",
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		watch: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			return client.Watch(ctx, o)
		},
		object: &corev1.Node{}, trim: trimCreation,
		handler: cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }, DeleteFunc: func(o any) {
			if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			tracker.NodeGone(o.(*corev1.Node).Name)
		}},
	}
}

// word is when a watch of Pods was heard last, be it by a bookmark that says that
// nothing has happened.
type word struct{ at atomic.Pointer[time.Time] }

func (w *word) heard() {
	now := time.Now()
	w.at.Store(&now)
}

// applied is how long what came out of the socket before a word may take to be told.
const applied = 2 * time.Second

func oldest(words []*word) time.Time {
	var first time.Time
	for i, w := range words {
		at := w.at.Load()
		if at == nil {
			return time.Time{}
		}
		if i == 0 || at.Before(first) {
			first = *at
		}
	}
	return first.Add(-applied)
}
