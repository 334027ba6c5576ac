package identity

// Target is what a claim means, by everything that is known at one moment: a sandbox,
// in the dialects of engines, and a Pod. It is a value to decide upon. The zero Target
// is nothing, and denies.
type Target struct {
	// State is what the engine's objects say. Only [Bound] leads to the View.
	State TargetState
	// Why says in an operator's words what made the State, where there is more to say.
	Why string
	// Sandbox and SandboxUID are the engine's object; zero in the dialect claim.
	Sandbox    NamespacedName
	SandboxUID UID
	// SandboxKind is the kind of that object, as in [Owner].
	SandboxKind string
	// View is the Pod, with the worst freshness of everything that was read.
	View View
	// Pin is what the sandbox's pin says of the Pod.
	Pin PinState
	// Live says that the API server itself was asked, after the check began.
	Live bool
	// Reread says that the Pod may be handed to another sandbox without any change to
	// the Pod: only a Target that is Live is good enough.
	Reread bool
	// Path is what the Pod must get as :path, or "" for what the request has.
	Path string
	// HintDiffers says that the client remembers another address than the Pod's.
	HintDiffers bool
	// HintStale says that the client must be made to forget that address first: the
	// operator's own cluster may pick a host by it.
	HintStale bool
	// Renew says that the sandbox asks for its life to be prolonged by use.
	Renew bool
}

// TargetState is what the objects of an engine say of a claim.
type TargetState uint8

// The states. In the dialect claim, which knows no engine, every Target is Bound.
const (
	// Unresolved is no answer: the zero value.
	Unresolved TargetState = iota
	// Bound says that the sandbox means exactly the Pod of the View, or that there is
	// none of its own (View.Found is false).
	Bound
	// AccessDenied says that the caller shows no access to the sandbox, or a wrong one.
	AccessDenied
	// AccessUnverifiable says that the sandbox asks for a proof that nobody here can check.
	AccessUnverifiable
	// SandboxUnknown says that there is no such sandbox.
	SandboxUnknown
	// SandboxGone says that it is deleted, being deleted, expired or has ended.
	SandboxGone
	// SandboxReplaced says that another sandbox has its name.
	SandboxReplaced
	// SandboxAmbiguous says that several sandboxes, or several live Pods, answer.
	SandboxAmbiguous
	// SandboxSuspended says that it is paused, suspended, or on its way there or back.
	SandboxSuspended
	// SandboxUnreadable says that its object cannot be understood.
	SandboxUnreadable
	// NotAssigned says that it has no Pod yet.
	NotAssigned
	// Releasing says that its Pod was taken away from it, or is about to be.
	Releasing
	// PodShared says that another sandbox claims the same Pod.
	PodShared
	// PodForeign says that the Pod that it names belongs to something else.
	PodForeign
)

// PinState is what a pin says of a Pod that is otherwise the right one.
type PinState uint8

// The states of a pin. The zero value is a dialect without pins.
const (
	// NoPins says that nothing is pinned in this dialect.
	NoPins PinState = iota
	// PinHolds says that the Pod is the one that was pinned.
	PinHolds
	// PinWanted says that there is no pin, or one that the object proves to be over:
	// one has to be written before the first allow.
	PinWanted
	// PinBroken says that the Pod is another one than was pinned, and nothing proves
	// that this is as it should be.
	PinBroken
	// PinRestarted says that the Pod is the same, but not its container.
	PinRestarted
	// PinRefused says that the pin cannot be believed: it cannot be read, is of another
	// sandbox, or its MAC is wrong.
	PinRefused
)
