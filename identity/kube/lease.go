package kube

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The times of the Lease: a replica that dies is followed within 15 s, well before
// the deadline of a sandbox, so that the next one takes over what was open.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// elect calls lead whenever this replica holds the Lease, until ctx ends. Two
// replicas that count would count everything twice. The context of lead ends when the
// Lease is lost.
func (c *Creation) elect(ctx context.Context, lead func(ctx context.Context, handover time.Time)) error {
	for ctx.Err() == nil {
		if err := c.hold(ctx, lead); err != nil {
			return err
		}
	}
	return nil
}

// hold waits for the Lease and holds it once.
func (c *Creation) hold(ctx context.Context, lead func(ctx context.Context, handover time.Time)) error {
	lock := &lease{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: c.options.Lease.Namespace, Name: c.options.Lease.Name},
		Client:     c.client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.options.Holder},
	}, fault: c.fault}
	finished := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true, Name: "samepod",
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				defer close(finished)
				lead(ctx, lock.handover)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("lease %s: %w", c.options.Lease, err)
	}
	elector.Run(ctx)
	if lock.held {
		<-finished
	}
	return nil
}

// lease remembers until when somebody else has held it, which the elector overwrites:
// a holder renews every two seconds, and when it lets go.
type lease struct {
	resourcelock.Interface

	handover time.Time // zero if nobody has
	held     bool
	fault    func(ctx context.Context, request string, err error)
}

// Get implements [resourcelock.Interface].
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if !apierrors.IsNotFound(err) {
		l.fault(ctx, "get lease", err)
	}
	if err == nil && !l.held {
		l.handover = record.RenewTime.Time
	}
	return record, raw, err
}

// Create implements [resourcelock.Interface].
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	l.fault(ctx, "create lease", err)
	l.held = l.held || err == nil
	return err
}

// Update implements [resourcelock.Interface].
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	if !apierrors.IsConflict(err) { // another replica was faster
		l.fault(ctx, "update lease", err)
	}
	l.held = l.held || err == nil && record.HolderIdentity == l.Identity()
	return err
}
