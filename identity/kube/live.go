package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

const (
	// liveTimeout bounds one call, whatever the caller's context allows.
	liveTimeout = 5 * time.Second
	// patience is how long an API server must have been silent, to everybody, before a
	// call that ran out of time makes the connections suspect. A read takes some
	// milliseconds.
	patience = 100 * time.Millisecond
)

// LiveKind is a kind of sandboxes that [Live] reads.
type LiveKind struct {
	Resource
	// Decode is as for [Watch].
	Decode func(object map[string]any) sandbox.Sandbox
	// Queries are the questions that find whatever of this kind the claim may mean.
	Queries func(identity.Claim) []sandbox.Query
}

// Live asks the API server, and implements [sandbox.Live]. Every read is a quorum read,
// without a resourceVersion, and uses connections of its own. Make one with [NewLive].
type Live struct {
	kinds            []LiveKind
	namespaces       []string
	keep             identity.Keep
	objects          engineClient
	pods             corev1client.PodsGetter
	closeConnections func()
	budget           *rate.Limiter             // of questions of [Live.Find]
	answered         atomic.Pointer[time.Time] // when the API server last answered any call
}

var _ sandbox.Live = (*Live)(nil)

// NewLive makes a Live for these kinds. Sandboxes are looked for in the scope, which is
// every namespace if it is nil. Of o it takes what says where the API server is, and
// Keep. It connects to nothing yet.
func NewLive(o Options, kinds []LiveKind, scope []string) (*Live, error) {
	config, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	config, closeConnections := ownConnections(config)
	objects, err := newEngineClient(config)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", config.Host, err)
	}
	pods, err := podClient(config)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", config.Host, err)
	}
	l := &Live{kinds: kinds, namespaces: scope, keep: o.Keep, objects: objects, pods: pods, closeConnections: closeConnections, budget: rate.NewLimiter(questionsPerSecond, 2*questionsPerSecond)}
	l.answered.Store(&time.Time{})
	return l, nil
}

// Get implements [sandbox.Live].
func (l *Live) Get(ctx context.Context, kind string, name identity.NamespacedName) (s sandbox.Sandbox, found bool, err error) {
	k, err := l.kind(kind)
	if err != nil {
		return s, false, err
	}
	object, err := ask(ctx, l, k, func(ctx context.Context, version string) (*unstructured.Unstructured, error) {
		return l.objects.objects(k.Resource, version, name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	})
	switch {
	case none(err):
		return s, false, nil
	case err != nil:
		return s, false, mapped(err)
	}
	return k.Decode(object.Object), true, nil
}

// Annotate implements [sandbox.Live].
func (l *Live) Annotate(ctx context.Context, s sandbox.Sandbox, text string) (sandbox.Sandbox, error) {
	k, err := l.kind(s.Kind)
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	annotations := map[string]*string{sandbox.PinAnnotation: nil} // null removes
	if text != "" {
		annotations[sandbox.PinAnnotation] = &text
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": s.UID, "resourceVersion": s.Version, "annotations": annotations,
	}})
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	object, err := ask(ctx, l, k, func(ctx context.Context, version string) (*unstructured.Unstructured, error) {
		return l.objects.objects(k.Resource, version, s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	})
	switch {
	case none(err): // deleted since
		return sandbox.Sandbox{}, fmt.Errorf("%w: %w", sandbox.ErrConflict, err)
	case err != nil:
		return sandbox.Sandbox{}, mapped(err)
	}
	return k.Decode(object.Object), nil
}

// Pod implements [sandbox.Live].
func (l *Live) Pod(ctx context.Context, name identity.NamespacedName) (p identity.Pod, found bool, err error) {
	err = l.call(ctx, func(ctx context.Context) error {
		pod, err := l.pods.Pods(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		p, _ = object(pod).Pod(l.keep) // what is wrong with it stands in p, and the watch logs it
		return nil
	})
	switch {
	case none(err):
		return p, false, nil
	case err != nil:
		return p, false, mapped(err)
	}
	return p, true, nil
}

func (l *Live) kind(owner string) (LiveKind, error) {
	for _, k := range l.kinds {
		if k.Owner() == owner {
			return k, nil
		}
	}
	return LiveKind{}, fmt.Errorf("kind %q: not one that is read", owner)
}

// call makes one call, and closes the connections if they may be the cause that it is
// not answered.
func (l *Live) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	began := time.Now()
	err := do(ctx)
	now := time.Now()
	switch {
	case err == nil || ctx.Err() == nil:
		l.answered.Store(&now)
	case now.Sub(began) >= patience && l.answered.Load().Before(began):
		l.closeConnections()
	}
	return err
}

// ask makes one call in the first version of k that is served.
func ask[A any](ctx context.Context, l *Live, k LiveKind, question func(ctx context.Context, version string) (A, error)) (answer A, err error) {
	err = l.call(ctx, func(ctx context.Context) error {
		return l.objects.try(ctx, k.Resource, func(version string) (err error) {
			answer, err = question(ctx, version)
			return err
		})
	})
	return answer, err
}

// none reports that the API server says that there is no such object, or no such kind.
func none(err error) bool {
	return errors.Is(err, errMissing) || apierrors.IsNotFound(err) && !unserved(err)
}

// mapped says in package sandbox's words what an error means there.
func mapped(err error) error {
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w: %w", sandbox.ErrConflict, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %w", sandbox.ErrForbidden, err)
	}
	return err
}
