package kube

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// initialSilence is how long a streaming list may pause before it is given up for
// an ordinary one. Some servers, and proxies before them, never send its end
// (k9s#4186), and client-go would wait for it for ever.
const initialSilence = 20 * time.Second

// guard passes a watch's events on, and ends the watch in the two cases in which
// client-go would trust it for ever:
//
// It is silent. The API server sends a bookmark every minute, so a watch that says
// nothing for longer hangs, whatever its connection says (OpenSandbox#1533,
// client-go#856). The connections are closed and the Pods are listed anew.
//
// It sends what is no Pod. client-go logs that and goes on, and if it was a
// deletion the Pod stays for ever (kubernetes#76624). The Pods are listed anew.
type guard struct {
	watch   *watch
	in      apiwatch.Interface
	cancel  context.CancelFunc // ends in
	out     chan apiwatch.Event
	stopped chan struct{}
	stop    sync.Once

	initial bool // a streaming list that has not ended
	spoken  time.Time
	silence time.Duration
}

// ResultChan implements watch.Interface.
func (g *guard) ResultChan() <-chan apiwatch.Event { return g.out }

// Stop implements watch.Interface.
func (g *guard) Stop() { g.stop.Do(func() { close(g.stopped) }) }

// open starts the watch. Its answer may be as long in coming as its events: some
// proxies hold the headers back until the first event.
func (g *guard) open(ctx context.Context, options metav1.ListOptions) error {
	bounded, cancel := context.WithCancel(ctx)
	silent := time.AfterFunc(time.Until(g.spoken.Add(g.silence)), cancel)
	in, err := g.watch.pods.Watch(bounded, options)
	inTime := silent.Stop()
	if err == nil && inTime {
		g.in, g.cancel = in, cancel
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
	case g.initial && apierrors.IsInvalid(err): // a server without streaming lists
	default:
		g.watch.fail(ctx, fmt.Errorf("watch: %w", err))
	}
	return err
}

func (g *guard) run(ctx context.Context) {
	defer close(g.out)
	defer g.cancel()
	defer g.in.Stop()
	silent := time.NewTimer(time.Until(g.spoken.Add(g.silence)))
	defer silent.Stop()
	for {
		select {
		case <-g.stopped:
			return
		case event, ok := <-g.in.ResultChan():
			if !ok {
				return
			}
			g.spoken = time.Now()
			event, last := g.check(ctx, event)
			if !g.send(event) || last {
				return
			}
			silent.Reset(g.silence)
		case <-silent.C:
			g.watch.closeConnections()
			g.send(g.end(ctx, g.silent()))
			return
		}
	}
}

func (g *guard) silent() error {
	return fmt.Errorf("watch: silent for %v", time.Since(g.spoken).Round(time.Millisecond))
}

func (g *guard) send(event apiwatch.Event) bool {
	select {
	case g.out <- event:
		return true
	case <-g.stopped:
		return false
	}
}

// check returns the event to pass on, and whether the watch ends with it.
func (g *guard) check(ctx context.Context, event apiwatch.Event) (_ apiwatch.Event, last bool) {
	pod, isPod := event.Object.(*corev1.Pod)
	switch event.Type {
	case apiwatch.Added, apiwatch.Modified, apiwatch.Deleted:
		if !isPod || pod == nil || pod.Name == "" || pod.UID == "" {
			return g.end(ctx, fmt.Errorf("watch: a %s event of what is no Pod: %T", event.Type, event.Object)), true
		}
	case apiwatch.Bookmark:
		if isPod && pod.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			g.initial, g.silence = false, g.watch.silence
		}
	case apiwatch.Error:
		g.watch.fail(ctx, fmt.Errorf("watch: %w", apierrors.FromObject(event.Object)))
	default:
		return g.end(ctx, fmt.Errorf("watch: an event of unknown type %q", event.Type)), true
	}
	return event, false
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
