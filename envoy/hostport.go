package envoy

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
)

// HostPort is a DNS name with a port.
type HostPort struct {
	Host string
	Port uint16
}

// ParseHostPort reads "samepod.gateway.svc:9191". It takes no address for a name.
func ParseHostPort(s string) (HostPort, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return HostPort{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return HostPort{}, err
	}
	if h := (HostPort{host, uint16(n)}); h.valid() {
		return h, nil
	}
	return HostPort{}, fmt.Errorf("%q; allowed: a DNS name in lower case, and a port 1 to 65535", s)
}

func (h HostPort) String() string { return net.JoinHostPort(h.Host, strconv.Itoa(int(h.Port))) }

func (h HostPort) valid() bool {
	return len(h.Host) <= 253 && dnsName.MatchString(h.Host) && h.Port != 0 // RFC 1035
}

// dnsName is a name in lower case whose last label is no number: what looks like an
// address is meant to be one.
var dnsName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?\.?$`)
