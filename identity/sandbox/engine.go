package sandbox

import (
	"context"
	"errors"

	"github.com/samepod/samepod/identity"
)

// Engine is what is particular to an engine, and how the operator wants it.
type Engine struct {
	// InScope reports whether sandboxes of this namespace may be named. Others are not
	// seen: a name that is taken again out of scope is not ambiguous.
	InScope func(namespace string) bool
	// PoolKind is what a Pool is called as a controller of Pods; "" for none.
	PoolKind string
	// Access says whether the claim shows what the sandbox asks for, and which :path
	// the Pod then gets ("" for the request's own). It is asked for every sandbox.
	Access func(identity.Claim, *Sandbox) (state identity.TargetState, path string)
	// Refuse says that this Pod is not s's by its own marks; [identity.Bound] if it may be.
	Refuse func(*Sandbox, identity.Pod) identity.TargetState
	// Assert says that a cluster of the operator's picks the host: the address that the
	// engine publishes must be the Pod's.
	Assert bool
	// Pins is how pins are kept.
	Pins PinPolicy
	// Live asks the API server.
	Live Live
}

// PinPolicy is how pins are kept. The zero value pins nothing.
type PinPolicy struct {
	// Enabled pins; without it derived identity is all there is: whatever Pod the
	// engine's objects mean now.
	Enabled bool
	// Annotate keeps pins as [PinAnnotation], shared by replicas; without it, and where
	// that is forbidden and not Required, they are in memory.
	Annotate bool
	// Required refuses to let through what could not be pinned in an annotation.
	Required bool
	// Follow accepts a new Pod in the place of the pinned one, and pins it.
	Follow bool
	// Containers pins the first container too.
	Containers bool
	// Key is for the MAC; empty for none.
	Key []byte
}

// Live asks the API server, by reads that are as new as the call (quorum reads, without
// a resourceVersion), on connections that no watch uses.
type Live interface {
	// Get reads a sandbox; found is false if it does not exist.
	Get(ctx context.Context, kind string, name identity.NamespacedName) (s Sandbox, found bool, err error)
	// Find reads every sandbox in scope that a claim may mean.
	Find(ctx context.Context, c identity.Claim) ([]Sandbox, error)
	// Pod reads a Pod; found is false if it does not exist.
	Pod(ctx context.Context, name identity.NamespacedName) (p identity.Pod, found bool, err error)
	// Annotate sets [PinAnnotation] on exactly this version of s (uid and Version), and
	// removes it for "". The error is [ErrConflict] if s has changed, [ErrForbidden] if
	// samepod may not.
	Annotate(ctx context.Context, s Sandbox, text string) (Sandbox, error)
}

var (
	// ErrConflict says that the object was changed since it was read.
	ErrConflict = errors.New("the sandbox was changed meanwhile")
	// ErrForbidden says that the API server refuses this to samepod.
	ErrForbidden = errors.New("the API server forbids it")
	// ErrBusy says that too many reads are under way.
	ErrBusy = errors.New("too many live reads are under way")
)
