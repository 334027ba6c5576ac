package envoy

import "regexp"

// TLS is how Envoy speaks TLS to Pods. Paths are those of Envoy's machine.
type TLS struct {
	// CA is a file of the authorities that vouch for Pods. Empty is no TLS.
	CA string
	// Name is the DNS name that a Pod's certificate must have, and the name that is
	// asked for (SNI). With PodUIDPrefix it is the latter only, and may be empty.
	Name string
	// PodUIDPrefix makes a URI of the uid of the verified Pod, which the certificate
	// must have as a subject alternative name: spiffe://example.org/pod/ for instance.
	// Whoever else has the address by then fails the handshake, before a byte of the
	// request is sent.
	PodUIDPrefix string
	// Cert and Key are files with Envoy's own certificate, for Pods that ask for one.
	Cert, Key string
}

var uriPrefix = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:[A-Za-z0-9._~:/-]{1,200}$`)

func (t TLS) validate() error {
	if t.PodUIDPrefix != "" && !uriPrefix.MatchString(t.PodUIDPrefix) {
		return problem("upstream-tls-uid-prefix", "%q; allowed: the beginning of a URI, such as spiffe://example.org/pod/", t.PodUIDPrefix)
	}
	if t.CA == "" { // the filters need the prefix alone
		for _, of := range []struct{ param, value string }{{"name", t.Name}, {"cert", t.Cert}, {"key", t.Key}} {
			if of.value != "" {
				return problem("upstream-tls-"+of.param, "%q; without effect, there is no upstream-tls-ca", of.value)
			}
		}
		return nil
	}
	for _, of := range []struct{ param, value string }{{"ca", t.CA}, {"cert", t.Cert}, {"key", t.Key}} {
		if of.value != "" && !plainText.MatchString(of.value) {
			return problem("upstream-tls-"+of.param, "%q; allowed: a path in printable ASCII", of.value)
		}
	}
	switch {
	case t.Name == "" && t.PodUIDPrefix == "":
		return problem("upstream-tls-name", "missing; without it, or upstream-tls-uid-prefix, every certificate of the authority is good for every Pod")
	case t.Name != "" && !dnsName.MatchString(t.Name):
		return problem("upstream-tls-name", "%q; allowed: a DNS name in lower case", t.Name)
	case (t.Cert == "") != (t.Key == ""):
		return problem("upstream-tls-cert", "%q, and upstream-tls-key is %q; allowed: both or none", t.Cert, t.Key)
	}
	return nil
}
