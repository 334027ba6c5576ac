package sandbox

import (
	"net/netip"
	"time"

	"github.com/samepod/samepod/identity"
)

// Sandbox is what is kept of an engine's object. Sources build it once per event and
// nobody writes to it, or to the arrays behind its slices, afterwards.
type Sandbox struct {
	identity.NamespacedName
	UID identity.UID
	// Version is metadata.resourceVersion: versions of one kind can be compared
	// (KEP-5504), and a write can ask for one.
	Version string
	// Kind is what the object is called as a controller of Pods, as in
	// [identity.Owner]: its kind and group.
	Kind string
	// Names are what callers may call it besides its name.
	Names []string

	// Pool is the Pool whose Pods it is given. A sandbox without one has Pods that it
	// controls itself.
	Pool string
	// Pods are the names of the Pods of the Pool that are its own now: given to it,
	// and not taken back in any step of the way. Each is there once.
	Pods []string
	// Released says that it was given Pods that it has no more.
	Released bool
	// Unassigned says that it is not anybody's yet: it waits in a warm pool, or for a
	// Pool to be chosen.
	Unassigned bool

	Deleting bool
	// Ended says that the engine calls it finished: it will not run again.
	Ended bool
	// Expires is when its time is over, whether or not the engine has noticed; zero is never.
	Expires time.Time
	// Suspended says that it is paused or suspended, or on its way there.
	Suspended bool
	// Resuming says that it is on its way back, or that the engine takes something else
	// for that: it is suspended as long as no Pod of its own runs.
	Resuming bool
	// Generation moves on with every legitimate change of its Pod: a pause and a resume.
	Generation int64

	// Published are the addresses that the engine tells others, in its order. One that
	// cannot be read is invalid.
	Published []netip.Addr
	// Token is the secret that callers must show; empty for none.
	Token identity.Secret
	// Renew says that it asks for its life to be prolonged by use.
	Renew bool
	// Pin is its pin; the zero Pin is none. PinFault says why one cannot be believed.
	Pin      Pin
	PinFault string
	// Malformed says what of the object cannot be understood. Such a sandbox means no Pod.
	Malformed string
}

// gone reports whether the sandbox has come to its end at this time.
func (s *Sandbox) gone(now time.Time) bool {
	return s.Deleting || s.Ended || !s.Expires.IsZero() && !now.Before(s.Expires)
}

// Recycle is what a Pool does with a Pod between two sandboxes.
type Recycle uint8

// The strategies. The zero value is one that is not known, which is taken for the worst.
const (
	RecycleUnknown Recycle = iota
	RecycleDelete          // a new Pod: uid, address and containers change
	RecycleRestart         // new containers in the same Pod: uid and address stay
	RecycleNoop            // nothing changes
)

// Pool is what is kept of a Pool.
type Pool struct {
	identity.NamespacedName
	UID     identity.UID
	Recycle Recycle
}
