package identity

import (
	"errors"
	"fmt"
	"net/netip"
)

// ParseAddr reads an address of an API object into its one canonical form:
// IPv4-mapped IPv6 addresses are unmapped, so that ::ffff:10.0.0.1 and 10.0.0.1
// are one key. A zone is refused: no Pod address has one, and Envoy before 1.39
// crashes on it (CVE-2026-73549).
func ParseAddr(s string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, errors.New("not an IP address")
	}
	if addr.Zone() != "" {
		return netip.Addr{}, errors.New("an IP address of a Pod has no zone")
	}
	return addr.Unmap(), nil
}

// ParseAddrPort reads an address and port that somebody claims. Only the
// canonical text is taken, the one that [netip.AddrPort.String] gives for an
// unmapped address without a zone: two readers of "10.0.0.1:080" or
// "[::ffff:10.0.0.1]:80" may disagree on what it means, and then one of them
// verifies what the other does not dial.
func ParseAddrPort(s string) (netip.AddrPort, error) {
	ap, err := netip.ParseAddrPort(s)
	var canonical [64]byte
	switch {
	case err != nil:
		return netip.AddrPort{}, errors.New("must be <ip>:<port>, an IPv6 address in brackets")
	case ap.Addr().Zone() != "":
		return netip.AddrPort{}, errors.New("the address must have no zone")
	case ap.Addr().Is4In6():
		return netip.AddrPort{}, fmt.Errorf("the address must not be IPv4-mapped; canonical is %q", netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()))
	case ap.Addr().IsUnspecified():
		return netip.AddrPort{}, errors.New("the address must not be unspecified")
	case ap.Port() == 0:
		return netip.AddrPort{}, errors.New("the port must be 1 to 65535")
	case string(ap.AppendTo(canonical[:0])) != s:
		return netip.AddrPort{}, fmt.Errorf("must be in canonical form, which is %q", ap)
	}
	return ap, nil
}

var errPort = errors.New("must be a port: 1 to 65535 in decimal, without sign or leading zero")

// ParsePort reads a port that somebody claims: decimal, 1 to 65535, no sign, no
// leading zero.
func ParsePort(s string) (uint16, error) {
	if s == "" || len(s) > 5 || s[0] == '0' {
		return 0, errPort
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, errPort
		}
		n = n*10 + int(s[i]-'0')
	}
	if n > 65535 {
		return 0, errPort
	}
	return uint16(n), nil
}
