package envoy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Replica is where samepod listens: one of an address, a DNS name with a port, each
// address of which is a replica, and an absolute path of a unix socket.
type Replica struct {
	Address netip.AddrPort
	Name    HostPort
	Path    string
}

// ParseReplica reads "<ip>:<port>", "<name>:<port>" or "unix:///path".
func ParseReplica(s string) (Replica, error) {
	if path, ok := strings.CutPrefix(s, "unix://"); ok {
		return Replica{Path: path}, nil
	}
	if address, err := netip.ParseAddrPort(s); err == nil {
		return Replica{Address: address}, nil
	}
	name, err := ParseHostPort(s)
	if err != nil {
		return Replica{}, fmt.Errorf("%q; allowed: <ip>:<port>, <name>:<port> with a DNS name in lower case, or unix:///path", s)
	}
	return Replica{Name: name}, nil
}

func (r Replica) String() string {
	switch {
	case r.Path != "":
		return "unix://" + r.Path
	case r.Name != HostPort{}:
		return r.Name.String()
	}
	return r.Address.String()
}

func (r Replica) validate() error {
	const mostPath = 107 // bytes of sun_path on Linux, but for its end
	places := 0
	for _, given := range []bool{r.Address.IsValid(), r.Name != HostPort{}, r.Path != ""} {
		if given {
			places++
		}
	}
	switch {
	case places != 1:
		return problem("samepod", "allowed: one of <ip>:<port>, <name>:<port> and unix:///path")
	case r.Name != HostPort{} && !r.Name.valid():
		return problem("samepod", "%q; allowed: a DNS name in lower case, and a port 1 to 65535", r.Name)
	case r.Path != "" && (!strings.HasPrefix(r.Path, "/") || !plainText.MatchString(r.Path) || len(r.Path) > mostPath):
		return problem("samepod", "%q; allowed: an absolute path of at most %d bytes of printable ASCII", r.Path, mostPath)
	}
	return nil
}

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

// Enabled reports whether Envoy uses TLS.
func (t ReplicaTLS) Enabled() bool { return t.CASecret != "" }

// IsURI reports whether the name is a SPIFFE ID.
func (t ReplicaTLS) IsURI() bool { return strings.Contains(t.Name, "://") }

// validateReplicas judges where samepod is, and how it is spoken to.
func (p Params) validateReplicas() error {
	if len(p.Replicas) == 0 {
		return problem("samepod", "missing; allowed: <ip>:<port>, <name>:<port> or unix:///path")
	}
	for i, r := range p.Replicas {
		if err := r.validate(); err != nil {
			return err
		}
		if slices.Contains(p.Replicas[:i], r) {
			return problem("samepod", "%v: occurs twice", r)
		}
		if r.Path != "" && len(p.Replicas) > 1 {
			return problem("samepod", "%v: beside others; allowed: one unix socket alone, since its samepod is a part of this machine", r)
		}
	}
	return p.ReplicaTLS.validate(p.Replicas)
}

func (t ReplicaTLS) validate(replicas []Replica) error {
	switch {
	case t == ReplicaTLS{}:
		return nil
	case t.CASecret == "" && t.ClientSecret != "":
		return problem("samepod-tls-client-secret", "without effect; there is no --samepod-tls-ca-secret")
	case t.CASecret == "":
		return problem("samepod-tls-name", "without effect; there is no --samepod-tls-ca-secret")
	case t.Name == "":
		return problem("samepod-tls-name", "missing; without it whoever has a certificate of the CA may answer for samepod")
	case !dnsName.MatchString(t.Name) && !spiffeID.MatchString(t.Name):
		return problem("samepod-tls-name", "%q; allowed: a DNS name in lower case, or spiffe://<trust domain>/<path>", t.Name)
	case replicas[0].Path != "":
		return problem("samepod-tls-ca-secret", "without effect; samepod does not use TLS on %v", replicas[0])
	}
	for _, f := range []struct{ param, path string }{{"samepod-tls-ca-secret", t.CASecret}, {"samepod-tls-client-secret", t.ClientSecret}} {
		if f.path != "" && !isPath(f.path) {
			return problem(f.param, "%q; %s", f.path, allowedPath)
		}
	}
	return nil
}
