package envoy

import (
	"regexp"
	"strings"
)

// ReplicaTLS is how Envoy and samepod know each other. The zero value is plaintext.
type ReplicaTLS struct {
	// CASecret and ClientSecret are files on Envoy's machine, as [CASecret] and
	// [ClientSecret] render them. Without the second Envoy shows no certificate.
	CASecret, ClientSecret string
	// Name is what the certificate of every replica must say: exactly a DNS name or
	// a SPIFFE ID. The CA alone would let whoever has a certificate of it answer for
	// samepod.
	Name string
}

// UpstreamTLS is how Envoy speaks TLS to Pods. The zero value is without.
type UpstreamTLS struct {
	// CASecret and ClientSecret are as in [ReplicaTLS].
	CASecret, ClientSecret string
	// Name is what the certificate of every Pod must say: exactly a DNS name or a
	// SPIFFE ID. With PodUIDPrefix a DNS name is only asked for (SNI).
	Name string
	// PodUIDPrefix makes a URI of the uid of the verified Pod, which the certificate
	// must have: spiffe://example.org/pod/ for instance. Whoever else has the address
	// by then fails the handshake, before a byte of the request is sent.
	PodUIDPrefix string
}

var (
	spiffeID  = regexp.MustCompile(`^spiffe://[a-z0-9._-]{1,255}(/[A-Za-z0-9._-]+)+$`)
	uriPrefix = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:[A-Za-z0-9._~:/-]{1,200}$`)
)

// isDNSName reports whether a certificate may say this name. It never says the dot at
// the end, which is allowed where a name is looked up.
func isDNSName(name string) bool {
	return len(name) <= 253 && dnsName.MatchString(name) && !strings.HasSuffix(name, ".")
}

// isSPIFFEID reports whether a certificate may say this ID (SPIFFE-ID 2).
func isSPIFFEID(name string) bool {
	return len(name) <= 2048 && spiffeID.MatchString(name) && !hasDots(name)
}

// hasDots reports whether a path goes to itself or up, which no SPIFFE ID may.
func hasDots(uri string) bool {
	return strings.Contains(uri+"/", "/./") || strings.Contains(uri+"/", "/../")
}

func isURI(name string) bool { return strings.Contains(name, "://") }

func (t ReplicaTLS) validate(replicas []Replica) error {
	if t.CASecret != "" && replicas[0].Path != "" {
		return problem("samepod-tls-ca-secret", "without effect; samepod does not use TLS on %v", replicas[0])
	}
	return validateTLS("samepod-tls-", "samepod", t.CASecret, t.ClientSecret, t.Name, false)
}

func (t UpstreamTLS) validate() error {
	if t.PodUIDPrefix != "" && (!uriPrefix.MatchString(t.PodUIDPrefix) || hasDots(t.PodUIDPrefix)) {
		return problem("upstream-tls-uid-prefix", "%q; allowed: the beginning of a URI, such as spiffe://example.org/pod/", t.PodUIDPrefix)
	}
	if t.PodUIDPrefix != "" && isURI(t.Name) {
		return problem("upstream-tls-name", "%q; allowed with --upstream-tls-uid-prefix: a DNS name, which is asked for (SNI)", t.Name)
	}
	return validateTLS("upstream-tls-", "a Pod", t.CASecret, t.ClientSecret, t.Name, t.PodUIDPrefix != "")
}

func validateTLS(param, whom, ca, client, name string, named bool) error {
	for _, f := range []struct{ of, path string }{{"ca-secret", ca}, {"client-secret", client}} {
		if f.path != "" && !isPath(f.path) {
			return problem(param+f.of, "%q; %s", f.path, allowedPath)
		}
	}
	switch {
	case ca == "" && client != "":
		return problem(param+"client-secret", "without effect; there is no --%sca-secret", param)
	case ca == "" && name != "":
		return problem(param+"name", "without effect; there is no --%sca-secret", param)
	case ca != "" && name == "" && !named:
		return problem(param+"name", "missing; without it whoever has a certificate of the CA may answer for %s", whom)
	case name != "" && !isDNSName(name) && !isSPIFFEID(name):
		return problem(param+"name", "%q; allowed: a DNS name in lower case without a dot at its end, or spiffe://<trust domain>/<path>", name)
	}
	return nil
}

// socket is a transport socket as the template sees it.
type socket struct {
	Oldest                 string // version of TLS
	ALPN                   string // empty leaves it to Envoy, which asks for what it speaks
	SNI                    string
	SANType, Match, SAN    string
	CASecret, ClientSecret string
}

// Socket is the one to samepod. Both sides are ours, and speak what is newest.
func (t ReplicaTLS) Socket() socket {
	s := socket{Oldest: "TLSv1_3", ALPN: "h2", CASecret: t.CASecret, ClientSecret: t.ClientSecret}
	return s.named(t.Name)
}

// Socket is the one to a Pod.
func (t UpstreamTLS) Socket() socket {
	s := socket{Oldest: "TLSv1_2", CASecret: t.CASecret, ClientSecret: t.ClientSecret}.named(t.Name)
	if t.PodUIDPrefix != "" {
		s.SANType, s.Match, s.SAN = "URI", "prefix", t.PodUIDPrefix // and whose it must be is in the filter state
	}
	return s
}

func (s socket) named(name string) socket {
	s.SANType, s.Match, s.SAN = "DNS", "exact", name
	if isURI(name) {
		s.SANType = "URI"
	} else {
		s.SNI = name
	}
	return s
}
