package authz

import (
	"errors"
	"fmt"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/samepod/samepod/identity"
)

// Mapping is the dialect "claim": the caller, or the gateway's control plane,
// says which Pod it means, and the Mapping says where in the request that stands.
type Mapping struct {
	// Target is <namespace>/<pod>. Required.
	Target Source
	// UID is the uid of the Pod. Required unless UIDOptional.
	UID Source
	// UIDOptional accepts a request without a uid. Such a request also accepts a
	// Pod that was rebuilt under the name.
	UIDOptional bool
	// Recorded is the <ip>:<port> that the caller remembers of the Pod. Optional.
	Recorded Source
	// Port is the port, for callers that remember no address. One of Recorded and
	// Port must be in the request.
	Port Source
	// Allowed, if set, is a value that must equal Target: what a verified token
	// says that the caller may name.
	Allowed Source
}

// DefaultMapping reads the headers x-samepod-target, -expect-pod-uid, -recorded
// and -port.
func DefaultMapping() Mapping {
	return Mapping{
		Target:   Source{Header: "x-samepod-target"},
		UID:      Source{Header: "x-samepod-expect-pod-uid"},
		Recorded: Source{Header: "x-samepod-recorded"},
		Port:     Source{Header: "x-samepod-port"},
	}
}

// Sources returns every Source of m that is somewhere.
func (m Mapping) Sources() []Source {
	var all []Source
	for _, s := range []Source{m.Target, m.UID, m.Recorded, m.Port, m.Allowed} {
		if !s.IsZero() {
			all = append(all, s)
		}
	}
	return all
}

// refuse is the verdict on a claim that could not be read.
func refuse(err error) Verdict {
	e, ok := errors.AsType[*identity.ClaimError](err)
	if !ok {
		return Verdict{}
	}
	reason := ClaimMissing
	switch e.Fault {
	case identity.ClaimMissing:
	case identity.ClaimMalformed:
		reason = ClaimMalformed
	case identity.ClaimConflict:
		reason = ClaimConflict
	}
	return Verdict{Reason: reason, Detail: e.Detail}
}

// Claim reads the claim of a request. Nothing is guessed: a field that is not in
// its one accepted form is an error, even where another field would do.
func (m Mapping) Claim(attrs *authv3.AttributeContext) (identity.Claim, error) {
	var c identity.Claim
	var err error
	if c.Pod, _, err = field(attrs, m.Target, true, identity.ParseNamespacedName); err != nil {
		return identity.Claim{}, err
	}
	var uid bool
	if c.UID, uid, err = field(attrs, m.UID, !m.UIDOptional, identity.ParseUID); err != nil {
		return identity.Claim{}, err
	}
	c.AnyUID = !uid
	var recorded, port bool
	if c.Recorded, recorded, err = field(attrs, m.Recorded, false, identity.ParseAddrPort); err != nil {
		return identity.Claim{}, err
	}
	if c.Port, port, err = field(attrs, m.Port, false, identity.ParsePort); err != nil {
		return identity.Claim{}, err
	}
	switch {
	case recorded && port && c.Recorded.Port() != c.Port:
		return identity.Claim{}, &identity.ClaimError{Fault: identity.ClaimConflict, Detail: fmt.Sprintf("%s says port %d, %s says port %d", m.Recorded, c.Recorded.Port(), m.Port, c.Port)}
	case recorded:
		c.Port = c.Recorded.Port()
	case !port:
		return identity.Claim{}, &identity.ClaimError{Fault: identity.ClaimMissing, Detail: fmt.Sprintf("neither %s nor %s is in the request, so no port is known", m.Recorded, m.Port)}
	}
	c.Authorized = true
	if !m.Allowed.IsZero() {
		allowed, _, err := field(attrs, m.Allowed, false, identity.ParseNamespacedName)
		c.Authorized = err == nil && allowed == c.Pod
	}
	return c, nil
}

// field reads and parses one field. The value is present, or absent and zero.
func field[T any](attrs *authv3.AttributeContext, s Source, required bool, parse func(string) (T, error)) (value T, present bool, err error) {
	text, present, err := s.value(attrs)
	switch {
	case errors.Is(err, errRepeated):
		return value, true, &identity.ClaimError{Fault: identity.ClaimConflict, Detail: fmt.Sprintf("%s %v", s, err)}
	case err != nil:
		return value, true, &identity.ClaimError{Fault: identity.ClaimMalformed, Detail: fmt.Sprintf("%s %v", s, err)}
	case !present && required:
		return value, false, &identity.ClaimError{Fault: identity.ClaimMissing, Detail: fmt.Sprintf("%s is not in the request", s)}
	case !present:
		return value, false, nil
	case text == "":
		return value, true, &identity.ClaimError{Fault: identity.ClaimMalformed, Detail: fmt.Sprintf("%s is empty", s)}
	}
	if value, err = parse(text); err != nil {
		return value, true, &identity.ClaimError{Fault: identity.ClaimMalformed, Detail: fmt.Sprintf("%s is %q: %v", s, identity.Shorten(text), err)}
	}
	return value, true, nil
}
