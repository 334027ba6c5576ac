package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	config, _ = ownConnections(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
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
