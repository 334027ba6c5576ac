package opensandbox

import (
	"strings"

	"github.com/samepod/samepod/identity"
)

// pathClaim reads the route of [URIMode] from :path.
//
// Whether a route is signed depends on the sandbox: only one that asks for access has
// signatures, to all others /<expires>/<signature> is a path of their own. So both are
// in the claim, the path with those two segments and the one without.
func pathClaim(path string) (identity.Claim, error) {
	const place = "the path"
	if path == "" {
		return identity.Claim{}, &identity.ClaimError{Fault: identity.ClaimMissing, Detail: "the request has no path"}
	}
	if err := checkPath(path); err != nil {
		return identity.Claim{}, err
	}
	id, rest := segment(path)
	port, rest := segment(rest)
	if !validID(id) {
		return identity.Claim{}, malformed(place, "must begin with /<sandbox-id>/<port>")
	}
	n, err := identity.ParsePort(port)
	if err != nil {
		return identity.Claim{}, malformed(place, "must begin with /<sandbox-id>/<port>; its port %v", err)
	}
	c := identity.Claim{Sandbox: id, Port: n, Path: rooted(rest)}
	expires, tail := segment(rest)
	signature, tail := segment(tail)
	if isExpires(expires) && isSignature(signature) {
		c.Access = identity.Access{Expires: expires, Signature: signature, Path: rooted(tail)}
	}
	return c, nil
}

// segment takes the first segment off a path. The rest begins with '/' or '?', or is
// empty.
func segment(path string) (first, rest string) {
	if path == "" || path[0] != '/' {
		return "", path
	}
	path = path[1:]
	if i := strings.IndexAny(path, "/?"); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// rooted gives a path that has none left its '/'.
func rooted(rest string) string {
	if rest == "" || rest[0] != '/' {
		return "/" + rest
	}
	return rest
}

// checkPath refuses what two readers of a path may read in two ways, such as an Envoy
// that normalizes it after the check: segments "." and "..", "//", '\', and the encoded
// forms of '.', '/' and '\'. The query is nobody's route.
func checkPath(path string) error {
	path, _, _ = strings.Cut(path, "?")
	if path == "" || path[0] != '/' {
		return malformed("the path", "must begin with '/'")
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c <= ' ', c >= 0x7f, c == '\\', c == '#':
			return malformed("the path", `must have only visible ASCII, without '\' and '#'`)
		case c == '%' && encodesSyntax(path[i+1:]):
			return malformed("the path", "must not have '.', '/' or '\\' in percent-encoding, nor a '%%' that encodes nothing")
		}
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		if segment == "." || segment == ".." {
			return malformed("the path", "must not have the segments . and ..")
		}
	}
	if strings.Contains(path, "//") {
		return malformed("the path", "must not have //")
	}
	return nil
}

// encodesSyntax reports whether what follows a '%' is no encoding, or one of a byte that
// means something in a path.
func encodesSyntax(s string) bool {
	if len(s) < 2 || !isHex(s[0]) || !isHex(s[1]) {
		return true
	}
	switch strings.ToLower(s[:2]) {
	case "2e", "2f", "5c", "00", "25":
		return true
	}
	return false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
