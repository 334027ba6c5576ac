package mtls

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Identities are the clients that may connect: exact SPIFFE IDs and exact DNS
// names. The zero value admits nobody.
//
// They are compared with the subject alternative names of the client's
// certificate. Its common name says nothing: whoever asks a CA for a certificate
// may often choose it.
type Identities struct {
	any   bool
	exact []string
}

// AnyIdentity is the text that admits every certificate of the client CA.
const AnyIdentity = "*"

var (
	spiffeID = regexp.MustCompile(`^spiffe://[a-z0-9._-]{1,255}(/[A-Za-z0-9._-]+)+$`)
	dnsName  = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?$`)
)

// ParseIdentities reads "spiffe://domain/path" and DNS names in lower case, or "*"
// alone. Patterns are refused: a list that is meant to be exact is exact.
func ParseIdentities(texts []string) (Identities, error) {
	if slices.Contains(texts, AnyIdentity) {
		if len(texts) > 1 {
			return Identities{}, fmt.Errorf("%q beside others; it admits every certificate of the client CA, so they are without effect", AnyIdentity)
		}
		return Identities{any: true}, nil
	}
	for _, text := range texts {
		_, notAddress := netip.ParseAddr(text)
		isSPIFFE := spiffeID.MatchString(text) && len(text) <= 2048 && !strings.Contains(text+"/", "/./") && !strings.Contains(text+"/", "/../")
		isDNS := dnsName.MatchString(text) && len(text) <= 253 && notAddress != nil
		if !isSPIFFE && !isDNS {
			return Identities{}, fmt.Errorf("%q; allowed: spiffe://<trust domain>/<path>, a DNS name in lower case without wildcards, or %q alone for every certificate of the client CA", text, AnyIdentity)
		}
	}
	return Identities{exact: slices.Clone(texts)}, nil
}

// IsAny reports whether every certificate of the client CA is admitted.
func (i Identities) IsAny() bool { return i.any }

func (i Identities) String() string {
	if i.any {
		return "every certificate of the client CA"
	}
	return strings.Join(i.exact, ", ")
}

// identityError is a client whose certificate is good and whose name is not listed.
type identityError struct{ names []string }

func (e *identityError) Error() string {
	return fmt.Sprintf("the client is %q, which is not among the client identities", e.names)
}

// admit says why a client with this verified certificate may not connect.
func (i Identities) admit(cert *x509.Certificate) error {
	if i.any {
		return nil
	}
	names := namesOf(cert)
	if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(i.exact, n) }) {
		return nil
	}
	const most = 4 // of a certificate that may have thousands
	return &identityError{names[:min(len(names), most)]}
}

// namesOf are the names that count. A certificate with two URIs is no SPIFFE ID
// (X.509-SVID 2): each of its readers might take another.
func namesOf(cert *x509.Certificate) []string {
	names := make([]string, 0, len(cert.DNSNames)+1)
	for _, n := range cert.DNSNames {
		names = append(names, strings.ToLower(n))
	}
	if len(cert.URIs) == 1 {
		names = append(names, cert.URIs[0].String())
	}
	return names
}
