package opensandbox

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// Access says whether the claim shows what the sandbox asks for, and what the Pod gets
// as :path, as the ingress does (OSEP-0011, components/ingress/pkg/signature).
//
// A sandbox asks if it has a token. A token that is shown must be that one: a wrong one
// is denied, whatever the route is signed with. Without one the route must be signed by
// one of the keys, and not be over; there is no second use that would end it. Of the
// signature 32 bits are written in a route, so how often a caller may guess is a matter
// of the gateway.
func (k Keys) Access(c identity.Claim, s *sandbox.Sandbox) (state identity.TargetState, path string) {
	if s.Token == "" {
		return identity.Bound, c.Path
	}
	if c.Access.Signature != "" {
		c.Path = c.Access.Path
	}
	switch {
	case c.Access.Token != "":
		if subtle.ConstantTimeCompare([]byte(c.Access.Token), []byte(s.Token)) != 1 {
			return identity.AccessDenied, ""
		}
	case c.Access.Signature == "":
		return identity.AccessDenied, ""
	case len(k.secrets) == 0:
		return identity.AccessUnverifiable, ""
	case !k.signed(c):
		return identity.AccessDenied, ""
	}
	return identity.Bound, c.Path
}

// signed reports whether one of the keys signed the claim's route, and its time is not
// over. The last character of a signature names the key.
func (k Keys) signed(c identity.Claim) bool {
	a := c.Access
	if !isSignature(a.Signature) || !isExpires(a.Expires) {
		return false
	}
	secret := k.secrets[a.Signature[8]]
	if secret == nil {
		return false
	}
	text := fmt.Appendf(nil, "v1\nshort\n%s\n%d\n%s\n", c.Sandbox, c.Port, a.Expires)
	var signed []byte
	for _, part := range [][]byte{secret, text} {
		signed = binary.BigEndian.AppendUint32(signed, uint32(len(part))) //nolint:gosec // a file's key and a request's route are short
		signed = append(signed, part...)
	}
	sum := sha256.Sum256(signed)
	want := hex.EncodeToString(sum[:4])
	expires, err := strconv.ParseUint(a.Expires, 36, 64)
	now := time.Now().Unix()
	return err == nil && now >= 0 && uint64(now) <= expires && subtle.ConstantTimeCompare([]byte(want), []byte(a.Signature[:8])) == 1
}

// isSignature reports whether s has the form of a signature: 8 hex digits and the id of
// a key.
func isSignature(s string) bool {
	if len(s) != 9 {
		return false
	}
	for i := range 8 {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return isLowerAlnum(s[8])
}

// isExpires reports whether s is a time in seconds since 1970 in base 36, without leading
// zeros.
func isExpires(s string) bool {
	if s == "" || len(s) > 13 || len(s) > 1 && s[0] == '0' {
		return false
	}
	for i := range len(s) {
		if !isLowerAlnum(s[i]) {
			return false
		}
	}
	_, err := strconv.ParseUint(s, 36, 64)
	return err == nil
}
