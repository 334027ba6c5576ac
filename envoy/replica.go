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
