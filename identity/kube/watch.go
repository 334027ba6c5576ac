package kube

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/samepod/samepod/identity"
)

// Run lists and watches until ctx ends, through every error. It then returns nil.
func (s *Source) Run(ctx context.Context) error {
	var group errgroup.Group
	for _, w := range s.watches {
		group.Go(func() error {
			w.run(ctx)
			return nil
		})
	}
	return group.Wait()
}

// watch follows the Pods of one namespace, or of all, into one feed.
type watch struct {
	pods             corev1client.PodInterface
	feed             *identity.Feed
	selected         func(labels map[string]string) bool
	closeConnections func()
	silence          time.Duration // after which a watch is taken for dead
	initialSilence   time.Duration // the same for a streaming list
	log              *slog.Logger

	// Written and read by one goroutine at a time: the Reflector's, and the one
	// that it waits for while it lists.
	asked  time.Time // when the list that is under way was asked for
	newest string    // the newest resourceVersion that this process has seen
}

func (w *watch) run(ctx context.Context) {
	logger := logr.FromSlogHandler(w.log.Handler())
	lw := &cache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.watch}
	reflector := cache.NewReflectorWithOptions(lw, &corev1.Pod{}, (*store)(w), cache.ReflectorOptions{
		Name:   w.feed.Status().Name,
		Logger: &logger,
		// An API server that is down answers at once and many times; one that is
		// back is to be found soon, since every check is denied meanwhile.
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 5, Cap: 5 * time.Second},
	})
	reflector.RunWithContext(klog.NewContext(ctx, logger))
}

// listTimeout bounds a list, or a page of one. The largest clusters list in
// seconds; an API server that takes the request and is silent would be waited for without
// end.
const listTimeout = time.Minute

// list is asked where the API server has no streaming lists, or fails at one.
func (w *watch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" {
		// "Any version will do": the API server may answer from a cache of any age,
		// in which Pods live that are long gone (kubernetes#59848). Ask for a
		// consistent read instead.
		options.ResourceVersion = ""
	}
	if options.Continue == "" {
		w.asked = time.Now()
	}
	bounded, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	pods, err := w.pods.List(bounded, options)
	if err != nil {
		if bounded.Err() != nil {
			w.closeConnections()
		}
		w.fail(ctx, fmt.Errorf("list: %w", err))
		return nil, err
	}
	return pods, nil
}

// watch opens a watch, or a streaming list followed by a watch.
func (w *watch) watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	g := &guard{watch: w, out: make(chan apiwatch.Event), stopped: make(chan struct{}), spoken: time.Now()}
	if g.initial = options.SendInitialEvents != nil && *options.SendInitialEvents; g.initial {
		w.asked = g.spoken
		g.silence = w.initialSilence
	} else {
		// A watch that continues an old one says nothing until something happens or
		// a minute has passed. If the last word is old already, a list gives a new
		// one at once.
		age := w.feed.Status().Age
		if age > w.silence/2 {
			return nil, apierrors.NewResourceExpired("the last word is too old to continue from; list again")
		}
		g.spoken = g.spoken.Add(-age)
		g.silence = w.silence
	}
	if err := g.open(ctx, options); err != nil {
		return nil, err
	}
	go g.run(ctx)
	return g, nil
}

// fail tells the feed why there is no news. A clean stop is no failure.
func (w *watch) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.feed.Fail(err)
	w.log.Warn("no news from the API server", "err", err)
}
