package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
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

// watch follows the objects of one kind in one namespace, or in all, into one feed.
type watch struct {
	kind             kind
	store            *store
	feed             sink
	closeConnections func()
	silence          time.Duration // after which a watch is taken for dead
	initialSilence   time.Duration // the same for a streaming list
	pauses           wait.Backoff  // between attempts
	log              *slog.Logger

	current *guard // the last one; the Reflector forgets to stop one whose list it refuses
}

// pauses are those between attempts. An API server that is down answers at once and many
// times; one that is back is to be found soon, since every check is denied meanwhile.
// With the jitter none is longer than 10 s.
var pauses = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 5, Cap: 5 * time.Second}

// run ends soon after ctx does. The Reflector may take longer, in a pause between
// two attempts; it then changes nothing any more.
func (w *watch) run(ctx context.Context) {
	w.store.fail = func(err error) { w.fail(ctx, err) }
	logger := logr.FromSlogHandler(quiet{w.log.Handler()})
	lw := &cache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.watch}
	reflector := cache.NewReflectorWithOptions(lw, nil, w.store, cache.ReflectorOptions{ // of any type: the guard has looked
		Name:            w.feed.Status().Name,
		TypeDescription: w.kind.name,
		Logger:          &logger,
		Backoff:         &w.pauses,
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		reflector.RunWithContext(klog.NewContext(ctx, logger))
	}()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		case <-time.After(time.Second):
		}
	}
}

// listTimeout bounds a list, or a page of one. The largest clusters list in
// seconds; an API server that takes the request and is silent would be waited for without
// end.
const listTimeout = time.Minute

// list is asked where the API server has no streaming lists, or fails at one.
func (w *watch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	w.stopCurrent()
	consistent(&options)
	if options.Continue == "" {
		w.store.asked = time.Now()
	}
	bounded, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	objects, err := w.kind.list(bounded, options)
	switch {
	case err == nil:
		return objects, nil
	case errors.Is(err, errMissing):
		w.missing(err)
		return nil, err
	case bounded.Err() != nil:
		w.closeConnections()
	}
	w.fail(ctx, fmt.Errorf("list: %w", err))
	return nil, err
}

// missing says that there are no objects, because there is no such kind: the word of
// the API server itself. It is asked again as after an error, so the word is renewed,
// and a CRD that is installed is found, within 10 s.
func (w *watch) missing(why error) {
	news := w.feed.Status().Fault != why.Error() // a list ends a fault, also this one
	w.store.none()
	w.feed.Fail(why)
	if news {
		w.log.Warn("nothing to watch", "err", why)
	}
}

// consistent makes a list a quorum read. The Reflector asks for "any version" at
// first, which an API server may answer from a cache of any age, in which Pods live
// that are long gone (kubernetes#59848), and later for "not older than what was
// seen", which may still be behind. Lists are rare, and made when in doubt.
func consistent(options *metav1.ListOptions) {
	options.ResourceVersion = ""
	if options.SendInitialEvents == nil {
		options.ResourceVersionMatch = ""
	}
}

// watch opens a watch, or a streaming list followed by a watch.
func (w *watch) watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	w.stopCurrent()
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	switch {
	case initial:
		consistent(&options)
		w.store.asked = time.Now()
	case w.store.listed:
		// What a list said is watched on from, however long it took.
		w.store.listed = false
	case w.feed.Status().Age > w.silence/2:
		// A watch that continues an old one says nothing until something happens or
		// a minute has passed. The last word is old already; a list gives a new one
		// at once.
		err := apierrors.NewResourceExpired("the last word is too old to continue from; listing again")
		w.fail(ctx, err)
		return nil, err
	}
	g := newGuard(w, initial)
	if err := g.open(ctx, options); err != nil {
		return nil, err
	}
	w.current = g
	go g.run(ctx)
	return g, nil
}

func (w *watch) stopCurrent() {
	if w.current != nil {
		w.current.Stop()
		w.current = nil
	}
}

// fail tells the feed why there is no news, and the log, once. A clean stop is no
// failure.
func (w *watch) fail(ctx context.Context, err error) {
	if ctx.Err() == nil && w.feed.Fail(err) {
		w.log.Warn("no news from the API server", "err", err)
	}
}
