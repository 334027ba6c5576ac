package authz

import (
	"errors"
	"fmt"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/samepod/samepod/identity"
)

// Route makes the claims of an engine's dialect: parse reads what callers of that
// engine send. allowed, unless it is nowhere, is where a value stands that must equal
// the sandbox that is named: what a verified token says that the caller may name. That
// is <namespace>/<sandbox> where claims have a namespace: a name alone would be a
// tenant's own in the namespace of another.
func Route(parse func(identity.Request) (identity.Claim, error), allowed Source) func(*authv3.AttributeContext) (identity.Claim, error) {
	return func(attrs *authv3.AttributeContext) (identity.Claim, error) {
		c, err := parse((*routed)(attrs))
		if err != nil {
			return identity.Claim{}, err
		}
		c.Authorized = true
		if !allowed.IsZero() {
			name, present, err := allowed.value(attrs)
			c.Authorized = err == nil && present && name != "" && name == named(c)
		}
		return c, nil
	}
}

// named is the sandbox of a claim, as far as the claim names it.
func named(c identity.Claim) string {
	if c.Namespace == "" || c.Sandbox == "" {
		return c.Sandbox
	}
	return c.Namespace + "/" + c.Sandbox
}

// routed is a request as the dialects of engines read it.
type routed authv3.AttributeContext

var _ identity.Request = (*routed)(nil)

func (r *routed) http() *authv3.AttributeContext_HttpRequest {
	return (*authv3.AttributeContext)(r).GetRequest().GetHttp()
}

// Host implements [identity.Request].
func (r *routed) Host() string { return r.http().GetHost() }

// Path implements [identity.Request].
func (r *routed) Path() string { return r.http().GetPath() }

// Header implements [identity.Request].
func (r *routed) Header(name string) (value string, present bool, err error) {
	value, present, err = header(r.http(), name)
	switch {
	case errors.Is(err, errRepeated):
		return "", true, &identity.ClaimError{Fault: identity.ClaimConflict, Detail: fmt.Sprintf("header %s %v", name, err)}
	case err != nil:
		return "", true, &identity.ClaimError{Fault: identity.ClaimMalformed, Detail: fmt.Sprintf("header %s %v", name, err)}
	}
	return value, present, nil
}
