package identity

import (
	"log/slog"
	"net/netip"
	"unicode/utf8"
)

// Claim is what a request says it wants: a Pod, or a sandbox of an engine. It is
// comparable, and the zero Claim is refused.
type Claim struct {
	// Pod is the Pod that is named, and UID the uid that it must have. UID is empty
	// only if AnyUID is set, which accepts whatever Pod has the name: a rebuilt one
	// too. Only an explicit setting makes such a claim.
	Pod    NamespacedName
	UID    UID
	AnyUID bool

	// Sandbox is what the caller calls the sandbox, in the dialects of engines; Pod and
	// UID are empty then. Namespace is where it is, or "" for any namespace in scope.
	// SandboxUID is the uid that the engine's object must have, or "" for any.
	Sandbox    string
	Namespace  string
	SandboxUID UID
	// Access is what the caller shows to be let in, where the sandbox asks for that.
	Access Access
	// Path is what the Pod must get as :path, or "" for what the request has. Where the
	// sandbox asks for a signature that stands in the path it is Access.Path.
	Path string
	// HidesHost says that the Pod must not get :authority as the caller sent it, since
	// that may let its bearer in: it gets its own address.
	HidesHost bool
	// NoRenewal says that this use must not prolong the life of the sandbox.
	NoRenewal bool
	// Hint is the address that a client remembers of itself, without a claim to be
	// right; invalid for none.
	Hint netip.Addr

	// Recorded is the address that the caller remembers, or invalid. Where it is
	// valid it is the address to dial, and the Pod must still hold it.
	Recorded netip.AddrPort
	// Port is the port to dial; that of Recorded where there is one.
	Port uint16
	// Authorized says that the caller may name this Pod or sandbox, as far as samepod
	// was told to look.
	Authorized bool
}

// Access is what a caller shows to be let into a sandbox. The zero Access is nothing.
type Access struct {
	// Token is the sandbox's own secret.
	Token Secret
	// Expires and Signature are of a signed route, as they are written in it, and Path
	// is what the Pod must get as :path if they are part of the path.
	Expires, Signature string
	Path               string
}

// Secret is a text that no log shows.
type Secret string

// LogValue implements [slog.LogValuer].
func (Secret) LogValue() slog.Value { return slog.StringValue("(secret)") }

// String hides the text from fmt.
func (Secret) String() string { return "(secret)" }

// GoString hides the text from fmt's %#v.
func (Secret) GoString() string { return "(secret)" }

// Request is what a dialect reads of a request.
type Request interface {
	// Host is :authority, and Path is :path with the query, as the caller sent them.
	Host() string
	Path() string
	// Header is the value of a header by its name in lower case, which is present
	// exactly once or not at all; anything else is a [*ClaimError].
	Header(name string) (value string, present bool, err error)
}

// ClaimFault is what is wrong with a request that makes no claim.
type ClaimFault uint8

// The faults, each a reason of package authz.
const (
	ClaimMissing ClaimFault = iota
	ClaimMalformed
	ClaimConflict
)

// ClaimError is a request that cannot be understood. Detail tells the caller the
// place, the value and the rule.
type ClaimError struct {
	Fault  ClaimFault
	Detail string
}

func (e *ClaimError) Error() string { return e.Detail }

// Shorten keeps a hostile value from filling an answer or a log.
func Shorten(text string) string {
	const most = 100 // bytes
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
