package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/samepod/samepod/identity"
)

const (
	// initialSilence is how long a streaming list may pause before it is given up
	// for an ordinary one.
	initialSilence = 20 * time.Second
	// standstill is how long this process may not have run before what it hears next
	// is taken for old. The machine slept, the process was frozen or starved, and
	// what waits in the socket may have been said at its beginning.
	standstill = 5 * time.Second
)

// guard passes a watch's events on, and ends the watch where client-go would trust
// it for ever, or ask for it again without a pause:
//
// It is silent. The API server sends a bookmark every minute, so a watch that says
// nothing for longer hangs, whatever its connection says (OpenSandbox#1533,
// client-go#856). The connections are closed and the objects are listed anew.
//
// It sends what is no object of the kind, or goes back in time. client-go logs that and
// goes on, and if it was a deletion the object stays for ever (kubernetes#76624). The
// objects are listed anew.
//
// It is a streaming list that does not end, or breaks off (k9s#4186). An ordinary
// list is asked for.
//
// This process stood still. What it hears now is of unknown age; the objects are
// listed anew.
type guard struct {
	watch   *watch
	in      apiwatch.Interface
	cancel  context.CancelFunc // ends in
	out     chan apiwatch.Event
	stopped chan struct{}
	stop    sync.Once

	initial bool          // a streaming list that has not ended
	ends    time.Time     // when it must have
	silence time.Duration // after which the watch is taken for dead
	spoken  time.Time     // when the API server last said anything
	awake   time.Time     // when this goroutine last ran
	version string        // of the last event, if not initial
}

func newGuard(w *watch, initial bool) *guard {
	now := time.Now()
	g := &guard{watch: w, out: make(chan apiwatch.Event), stopped: make(chan struct{}), initial: initial, silence: w.silence, spoken: now, awake: now}
	if initial {
		g.silence, g.ends = w.initialSilence, now.Add(w.silence)
	}
	return g
}

// ResultChan implements watch.Interface.
func (g *guard) ResultChan() <-chan apiwatch.Event { return g.out }

// Stop implements watch.Interface.
func (g *guard) Stop() { g.stop.Do(func() { close(g.stopped) }) }

// open starts the watch. Its answer may be as long in coming as its events: some
// proxies hold the headers back until the first event.
func (g *guard) open(ctx context.Context, options metav1.ListOptions) error {
	bounded, cancel := context.WithCancel(ctx)
	silent := time.AfterFunc(g.silence, cancel)
	in, err := g.watch.kind.watch(bounded, options)
	inTime := silent.Stop()
	if err == nil && inTime {
		g.in, g.cancel, g.version = in, cancel, options.ResourceVersion
		return nil
	}
	cancel()
	if err == nil {
		in.Stop()
	}
	switch {
	case !inTime:
		g.watch.closeConnections()
		err = g.silent()
		g.watch.fail(ctx, err)
		return g.status(err)
	case g.initial && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || unserved(err)):
		// A list follows at once. It works, where there are just no streaming lists, or
		// tells in its own words.
	default:
		g.watch.fail(ctx, fmt.Errorf("watch: %w", err))
	}
	return err
}

func (g *guard) run(ctx context.Context) {
	defer close(g.out)
	defer g.cancel()
	defer g.in.Stop()
	heartbeat := time.NewTicker(min(g.silence/4, standstill/5))
	defer heartbeat.Stop()
	for {
		var (
			event apiwatch.Event
			open  bool
		)
		select {
		case <-ctx.Done():
			return
		case <-g.stopped:
			return
		case <-heartbeat.C:
			if why := g.overdue(); why != nil {
				g.send(g.end(ctx, why))
				return
			}
			continue
		case event, open = <-g.in.ResultChan():
		}
		why := g.overdue()
		if why == nil {
			why = g.wrong(event, open)
		}
		switch {
		case why != nil:
			g.send(g.end(ctx, why))
			return
		case !open:
			return
		case event.Type == apiwatch.Error:
			g.watch.fail(ctx, fmt.Errorf("watch: %w", apierrors.FromObject(event.Object)))
		}
		g.spoken = time.Now()
		heard := g.spoken
		g.watch.store.heard.Store(&heard)
		if !g.send(event) {
			return
		}
	}
}

func (g *guard) send(event apiwatch.Event) bool {
	select {
	case g.out <- event:
		return true
	case <-g.stopped:
		return false
	}
}

// overdue says why what comes next, or does not come, must not be trusted. It must
// be asked at least every heartbeat.
func (g *guard) overdue() error {
	now := time.Now()
	stood := identity.Age(g.awake, now)
	g.awake = now
	switch {
	case stood > standstill:
		return fmt.Errorf("watch: this process stood still for %v", stood.Round(time.Millisecond))
	case identity.Age(g.spoken, now) > g.silence:
		g.watch.closeConnections()
		return g.silent()
	case g.initial && now.After(g.ends):
		return errors.New("watch: the streaming list does not end")
	}
	return nil
}

func (g *guard) silent() error {
	return fmt.Errorf("watch: silent for %v", time.Since(g.spoken).Round(time.Millisecond))
}

// wrong says what is wrong with an event, or with the end of the stream.
func (g *guard) wrong(event apiwatch.Event, open bool) error {
	if !open {
		if g.initial {
			return errors.New("watch: the streaming list broke off")
		}
		return nil // an ordinary end; the Reflector watches on from where it was
	}
	kind := g.watch.kind
	object, named := kind.object(event.Object)
	switch event.Type {
	case apiwatch.Error:
		return nil
	case apiwatch.Added, apiwatch.Modified, apiwatch.Deleted:
		if !named {
			return fmt.Errorf("watch: a %s event of what is no %s: %T", event.Type, kind.name, event.Object)
		}
	case apiwatch.Bookmark:
		if object == nil {
			return fmt.Errorf("watch: a bookmark of what is no %s: %T", kind.name, event.Object)
		}
	default:
		return fmt.Errorf("watch: an event of unknown type %q", event.Type)
	}
	return g.advance(event.Type, object)
}

// advance holds the events to the order of their versions. Those of a streaming
// list have none among each other.
func (g *guard) advance(event apiwatch.EventType, object metav1.Object) error {
	if g.initial {
		if event != apiwatch.Bookmark || object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
			return nil
		}
		g.initial, g.silence, g.version = false, g.watch.silence, ""
	}
	version := object.GetResourceVersion()
	if g.version != "" {
		order, err := resourceversion.CompareResourceVersion(version, g.version)
		if err != nil || order < 0 {
			return fmt.Errorf("watch: an event of version %q after one of version %q", version, g.version)
		}
	}
	g.version = version
	return nil
}

// end makes the event with which the Reflector gives this watch up.
func (g *guard) end(ctx context.Context, why error) apiwatch.Event {
	g.watch.fail(ctx, why)
	status := g.status(why).Status()
	return apiwatch.Event{Type: apiwatch.Error, Object: &status}
}

// status is why, in the words that make the Reflector do the right thing. On a
// watch that is "expired": list again. On a streaming list it is "invalid": this
// server cannot do that, use an ordinary list.
func (g *guard) status(why error) *apierrors.StatusError {
	if g.initial {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: why.Error()}}
	}
	return apierrors.NewResourceExpired(why.Error())
}
