package identity

import (
	"errors"
	"fmt"
	"strings"
)

// NamespacedName names a Pod. A name is not an identity: a Pod that is deleted
// and built again under the same name is another Pod (see [UID]).
type NamespacedName struct {
	Namespace string
	Name      string
}

// String returns the form that [ParseNamespacedName] reads.
func (n NamespacedName) String() string { return n.Namespace + "/" + n.Name }

// IsZero reports whether n names nothing.
func (n NamespacedName) IsZero() bool { return n == NamespacedName{} }

// ParseNamespacedName reads "<namespace>/<pod>": a DNS label (RFC 1123, at most
// 63 bytes) and a DNS subdomain (at most 253 bytes), as Kubernetes requires of
// the names of Namespaces and Pods. Nothing is trimmed, folded or defaulted.
func ParseNamespacedName(s string) (NamespacedName, error) {
	namespace, name, found := strings.Cut(s, "/")
	if !found {
		return NamespacedName{}, errors.New("must be <namespace>/<pod>")
	}
	if err := checkNamespace(namespace); err != nil {
		return NamespacedName{}, err
	}
	if err := checkPodName(name); err != nil {
		return NamespacedName{}, err
	}
	return NamespacedName{namespace, name}, nil
}

// NewNamespacedName is [ParseNamespacedName] for parts that arrive apart, as
// they do in API objects.
func NewNamespacedName(namespace, name string) (NamespacedName, error) {
	if err := errors.Join(checkNamespace(namespace), checkPodName(name)); err != nil {
		return NamespacedName{}, err
	}
	return NamespacedName{namespace, name}, nil
}

func checkNamespace(s string) error {
	if len(s) > 63 || strings.Contains(s, ".") || !isSubdomain(s) {
		return errors.New("the namespace must be a DNS label: 1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends")
	}
	return nil
}

func checkPodName(s string) error {
	if len(s) > 253 || !isSubdomain(s) {
		return errors.New("the Pod name must be a DNS subdomain: 1 to 253 of a-z, 0-9, '-' and '.', with a letter or digit at both ends of every part")
	}
	return nil
}

// isSubdomain reports whether s has the form of a DNS subdomain (RFC 1123),
// whatever its length.
func isSubdomain(s string) bool {
	edge := true // the next byte begins a part, or s ends one
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			edge = false
		case c == '-' && !edge:
			if i+1 == len(s) || s[i+1] == '.' {
				return false
			}
		case c == '.' && !edge:
			edge = true
		default:
			return false
		}
	}
	return !edge
}

// UID is metadata.uid: what tells a Pod from another of the same name. It is
// opaque and compared byte for byte.
type UID string

const maxUIDLength = 128

// ParseUID reads a uid. Kubernetes gives UUIDs and, to mirror Pods, hashes;
// neither is required here, but the uid travels in a header, so it must be 1 to
// 128 of A-Z, a-z, 0-9, '.', '_' and '-'.
func ParseUID(s string) (UID, error) {
	if s == "" || len(s) > maxUIDLength {
		return "", fmt.Errorf("a uid has 1 to %d characters", maxUIDLength)
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return "", errors.New("a uid has only A-Z, a-z, 0-9, '.', '_' and '-'")
		}
	}
	return UID(s), nil
}
