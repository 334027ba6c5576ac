package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/samepod/samepod/creation"
	"github.com/samepod/samepod/identity"
)

// CreationOptions say what the creation SLI watches, and who counts.
type CreationOptions struct {
	Options // all but Bound
	// InScope says whether Pods of a namespace are counted.
	InScope func(namespace string) bool
	// Lease is the object on which replicas agree who counts, and Holder this one's name
	// there, which no other and no earlier process may have.
	Lease  identity.NamespacedName
	Holder string
	// NodeVersionLabel is a label of Nodes to split by; empty for their
	// containerRuntimeVersion.
	NodeVersionLabel string
	// Begin is called when this replica is the one to count. Until handover another
	// one has; zero if none is known.
	Begin func(handover time.Time) *creation.Tracker
	// Counting says that it does so, its watches having begun, or does not any more.
	Counting func(is bool)
}

// Creation tells a [creation.Tracker] what the API server says, while this replica
// is the one that counts. It has watches of its own: of Pods, of the few reasons of
// Events that matter, and of Nodes.
type Creation struct {
	options    CreationOptions
	namespaces []string
	client     kubernetes.Interface

	mu     sync.Mutex
	faults map[string]string // the last one of each kind of request, since all is tried again for ever
}

// NewCreation prepares; it connects to nothing yet.
func NewCreation(o CreationOptions) (*Creation, error) {
	config, err := restConfig(o.Options)
	if err != nil {
		return nil, err
	}
	client, _, err := newClient(config)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", config.Host, err)
	}
	return newCreation(o, client), nil
}

func newCreation(o CreationOptions, client kubernetes.Interface) *Creation {
	c := &Creation{options: o, namespaces: slices.Clone(o.Namespaces), client: client, faults: map[string]string{}}
	if len(c.namespaces) == 0 {
		c.namespaces = []string{metav1.NamespaceAll}
	}
	return c
}

// Run counts whenever it may, until ctx ends, through every error. It then returns nil.
func (c *Creation) Run(ctx context.Context) error {
	logger := logr.FromSlogHandler(quiet{c.options.Log.Handler()})
	return c.elect(klog.NewContext(ctx, logger), func(ctx context.Context, handover time.Time) {
		c.feed(ctx, c.options.Begin(handover))
	})
}

// fault logs why nothing comes of a kind of request, once.
func (c *Creation) fault(ctx context.Context, request string, err error) {
	said := ""
	if err != nil {
		said = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults[request] != said && said != "" && ctx.Err() == nil {
		c.options.Log.Warn("the creation of sandboxes is not counted", "request", request, "err", said)
	}
	c.faults[request] = said
}

// feed tells the tracker everything until ctx ends. Nodes come first, so that what is
// known of a Pod's node is known when the Pod is.
func (c *Creation) feed(ctx context.Context, tracker *creation.Tracker) {
	var group errgroup.Group
	defer func() { _ = group.Wait() }()
	start := func(i informer) bool {
		controller := c.controller(ctx, i)
		group.Go(func() error { controller.RunWithContext(ctx); return nil })
		return cache.WaitForCacheSync(ctx.Done(), controller.HasSynced)
	}
	if !start(c.nodes(tracker)) {
		return
	}
	var words []*word
	for _, namespace := range c.namespaces {
		for _, reason := range creation.Reasons() {
			if !start(c.events(namespace, reason, tracker)) {
				return
			}
		}
		pods, heard := c.pods(namespace, tracker)
		words = append(words, heard)
		if !start(pods) {
			return
		}
	}
	c.options.Log.Info("counting the creation of sandboxes")
	c.options.Counting(true)
	defer c.options.Log.Info("not counting any more; another replica may")
	defer c.options.Counting(false)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tracker.Tick(oldest(words))
		}
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
	mine := func(p *corev1.Pod) bool { return c.options.InScope(p.Namespace) && c.options.Selected(p.Labels) }
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
				gone(before)
			}
			see(o.(*corev1.Pod))
		},
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			gone(o.(*corev1.Pod))
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
