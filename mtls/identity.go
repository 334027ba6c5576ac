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
// certificate, each with those of its own kind: a CA that lets anybody choose a DNS
// name need not look at one that reads like a SPIFFE ID. The common name says
// nothing: whoever asks a CA for a certificate may often choose it.
type Identities struct {
	any       bool
	spiffeIDs []string
	dnsNames  []string
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
	var i Identities
	for _, text := range texts {
		_, notAddress := netip.ParseAddr(text)
		isSPIFFE := spiffeID.MatchString(text) && len(text) <= 2048 && !strings.Contains(text+"/", "/./") && !strings.Contains(text+"/", "/../")
		isDNS := dnsName.MatchString(text) && len(text) <= 253 && notAddress != nil
		switch {
		case isSPIFFE:
			i.spiffeIDs = append(i.spiffeIDs, text)
		case isDNS:
			i.dnsNames = append(i.dnsNames, text)
		default:
			return Identities{}, fmt.Errorf("%q; allowed: spiffe://<trust domain>/<path>, a DNS name in lower case without wildcards, or %q alone for every certificate of the client CA", text, AnyIdentity)
		}
	}
	return i, nil
}

func (i Identities) String() string {
	if i.any {
		return "every certificate of the client CA"
	}
	return strings.Join(slices.Concat(i.spiffeIDs, i.dnsNames), ", ")
}

// identityError is a client whose certificate is good and whose name is not listed.
type identityError struct{ names []string }

func (e *identityError) Error() string {
	return fmt.Sprintf("the client is %q, which is not among the client identities", e.names)
}

// admit says why a client with this verified certificate may not connect. One with
// two URIs has no SPIFFE ID (X.509-SVID 2): each of its readers might take another.
func (i Identities) admit(cert *x509.Certificate) error {
	isListed := func(name string) bool { return slices.Contains(i.dnsNames, strings.ToLower(name)) }
	switch {
	case i.any:
		return nil
	case len(cert.URIs) == 1 && slices.Contains(i.spiffeIDs, cert.URIs[0].String()):
		return nil
	case slices.ContainsFunc(cert.DNSNames, isListed):
		return nil
	}
	const most = 4 // of a certificate that may have thousands
	names := namesOf(cert)
	return &identityError{names[:min(len(names), most)]}
}

// namesOf are the names of a certificate, each with its kind, to be read by people.
func namesOf(cert *x509.Certificate) []string {
	names := make([]string, 0, len(cert.DNSNames)+len(cert.URIs))
	for _, u := range cert.URIs {
		names = append(names, "URI:"+u.String())
	}
	for _, n := range cert.DNSNames {
		names = append(names, "DNS:"+n)
	}
	return names
}
