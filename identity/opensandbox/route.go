package opensandbox

import (
	"fmt"
	"strings"

	"github.com/samepod/samepod/identity"
)

// Mode is where a route stands in a request.
type Mode uint8

// The modes of the ingress. Its server's mode "wildcard" is HeaderMode here: the route
// stands in Host.
const (
	// HeaderMode reads the header OpenSandbox-Ingress-To; without it OPEN-SANDBOX-INGRESS,
	// which is deprecated; without that Host. Of each, the first label of a name of DNS is
	// the route: <id>-<port>, or <id>-<port>-<expires>-<signature>.
	HeaderMode Mode = iota
	// URIMode reads the path: /<id>/<port>/<rest>, or /<id>/<port>/<expires>/<signature>/<rest>.
	// The Pod gets /<rest>.
	URIMode
)

var modeNames = [...]string{"header", "uri"}

func (m Mode) String() string {
	if int(m) >= len(modeNames) {
		return fmt.Sprintf("Mode(%d)", m)
	}
	return modeNames[m]
}

// ParseMode reads a mode by the word that the ingress has for it.
func ParseMode(text string) (Mode, error) {
	for i, name := range modeNames {
		if text == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("%q; allowed: header, uri", text)
}

// Headers that are read, in lower case as Envoy sends them. The Pod must get none of
// them: the ingress removes all but the old one. Names with '_' are other headers, as
// they are to the ingress.
const (
	RouteHeader    = "opensandbox-ingress-to"
	OldRouteHeader = "open-sandbox-ingress"
	TokenHeader    = "opensandbox-secure-access"
	RenewHeader    = "opensandbox-access-renew"
)

// Routes reads routes, in the ingress's order of precedence, and says what a request
// claims. An id has dashes of its own, so a route is split from the right.
//
// It takes less than the ingress, which guesses: an empty or repeated header, a port
// with a sign, with leading zeros or above 65535 (the ingress dials 99999 and +80), an
// id that no object can have, and what [URIMode] refuses of a path are malformed. It
// takes more in Host alone, which is folded to lower case and may have a port, as HTTP
// has it.
type Routes struct {
	Mode Mode
}

// Claim is what the request claims. The error is a [*identity.ClaimError]; it never
// repeats what it complains about, since a signed route lets its bearer in.
func (r Routes) Claim(req identity.Request) (identity.Claim, error) {
	var c identity.Claim
	var err error
	if r.Mode == URIMode {
		c, err = pathClaim(req.Path())
	} else {
		c, err = labelClaim(req)
	}
	if err != nil {
		return identity.Claim{}, err
	}
	token, present, err := req.Header(TokenHeader)
	if err != nil {
		return identity.Claim{}, err
	}
	if token = strings.TrimSpace(token); present && token == "" {
		return identity.Claim{}, malformed("header "+TokenHeader, "must not be empty")
	}
	c.Access.Token = identity.Secret(token)
	c.HidesHost = true // a signed route in it lets its bearer in; the ingress hides it too
	renew, _, err := req.Header(RenewHeader)
	if err != nil {
		return identity.Claim{}, err
	}
	c.NoRenewal = renew == "skip" // that word, in lower case, as for the ingress
	return c, nil
}

// labelClaim reads the route of [HeaderMode].
func labelClaim(req identity.Request) (identity.Claim, error) {
	for _, name := range [...]string{RouteHeader, OldRouteHeader} {
		value, present, err := req.Header(name)
		if err != nil {
			return identity.Claim{}, err
		}
		if present {
			return parseLabel("header "+name, firstLabel(value))
		}
	}
	host := req.Host()
	if host == "" {
		return identity.Claim{}, &identity.ClaimError{Fault: identity.ClaimMissing, Detail: "neither header " + RouteHeader + " nor Host is in the request"}
	}
	label, _, _ := strings.Cut(firstLabel(host), ":")
	return parseLabel("Host", strings.Map(lower, label))
}

// lower folds the letters that names of DNS have, and no others: U+212A is no k.
func lower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

// firstLabel cuts a scheme off, and all but the first label of the name.
func firstLabel(s string) string {
	label, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://"), ".")
	return label
}

// parseLabel reads <id>-<port> or <id>-<port>-<expires>-<signature>. No text is both: a
// signature is no port.
func parseLabel(place, label string) (identity.Claim, error) {
	const rule = "must begin with <sandbox-id>-<port>, or <sandbox-id>-<port>-<expires>-<signature>"
	var access identity.Access
	rest := label
	if before, signature, ok := cutLast(rest); ok && isSignature(signature) {
		if before, expires, ok := cutLast(before); ok && isExpires(expires) {
			access.Expires, access.Signature = expires, signature
			rest = before
		}
	}
	id, port, ok := cutLast(rest)
	if !ok || !validID(id) {
		return identity.Claim{}, malformed(place, rule)
	}
	n, err := identity.ParsePort(port)
	if err != nil {
		return identity.Claim{}, malformed(place, "%s; its port %v", rule, err)
	}
	return identity.Claim{Sandbox: id, Port: n, Access: access}, nil
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// validID reports whether an object can have this name, or this value of a label.
func validID(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && i+1 < len(s) && (c == '-' || c == '.' || c == '_'):
		default:
			return false
		}
	}
	return true
}

func malformed(place, format string, args ...any) error {
	return &identity.ClaimError{Fault: identity.ClaimMalformed, Detail: place + " " + fmt.Sprintf(format, args...)}
}
