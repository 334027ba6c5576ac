package authz

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Addresses is the set of addresses that may be dialled. The zero value is every
// address that a live Pod holds, minus the special ones.
//
// Special addresses are never a Pod's, and dialling them is what an attacker who
// can write a Pod's status, or an operator's typing error, would use the gateway
// for: itself, its node, the cloud's credentials. They stay closed until a CIDR
// names them: until one lies within a special range, as 127.0.0.0/16 does.
// 0.0.0.0/0 opens none of them.
type Addresses struct{ prefixes []netip.Prefix }

// specialRanges are closed unless named. The address of any node is a range of
// its own.
var specialRanges = []struct {
	netip.Prefix
	what string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local and cloud metadata"},
	{netip.MustParsePrefix("168.63.129.16/32"), "Azure's wire server"},
	{netip.MustParsePrefix("100.100.100.200/32"), "Alibaba Cloud's metadata"},
	{netip.MustParsePrefix("192.0.0.192/32"), "Oracle Cloud's metadata"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcast"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("::/96"), "IPv4-compatible"},
	{netip.MustParsePrefix("64:ff9b::/96"), "NAT64: any IPv4 address behind a translator"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "AWS's metadata"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "Google Cloud's metadata"},
}

// ParseAddresses reads CIDRs in canonical form.
func ParseAddresses(cidrs []string) (Addresses, error) {
	var a Addresses
	for _, text := range cidrs {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return Addresses{}, fmt.Errorf("%q; allowed: a CIDR such as 10.0.0.0/8 or fd00::/8", text)
		}
		if p != p.Masked() || p.String() != text {
			return Addresses{}, fmt.Errorf("%q; canonical is %q", text, p.Masked())
		}
		if slices.Contains(a.prefixes, p) {
			return Addresses{}, fmt.Errorf("%q: listed twice", text)
		}
		a.prefixes = append(a.prefixes, p)
	}
	return a, nil
}

// refuses says why addr may not be dialled, or "" where it may; node says that it is
// the address of a node.
func (a Addresses) refuses(addr netip.Addr, node bool) string {
	if !addr.IsValid() || addr.Zone() != "" || addr.Is4In6() {
		return "not canonical" // no source and no parser gives such an address
	}
	if node && !a.opens(addr, netip.PrefixFrom(addr, addr.BitLen())) {
		return "node address"
	}
	for _, special := range specialRanges {
		if special.Contains(addr) && !a.opens(addr, special.Prefix) {
			return special.what
		}
	}
	for _, p := range a.prefixes {
		if p.Contains(addr) {
			return ""
		}
	}
	if len(a.prefixes) > 0 {
		return "addresses.cidrs"
	}
	return ""
}

// opens reports whether a CIDR within the closed range contains addr.
func (a Addresses) opens(addr netip.Addr, closed netip.Prefix) bool {
	for _, p := range a.prefixes {
		if p.Contains(addr) && p.Bits() >= closed.Bits() && closed.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

// Prefixes returns the CIDRs as they were written; none means any Pod's address.
func (a Addresses) Prefixes() []netip.Prefix { return slices.Clone(a.prefixes) }

// String is the effective set, for the log.
func (a Addresses) String() string {
	set := "every address that a live Pod holds"
	if len(a.prefixes) > 0 {
		texts := make([]string, len(a.prefixes))
		for i, p := range a.prefixes {
			texts[i] = p.String()
		}
		set = strings.Join(texts, ", ")
	}
	var closed []string
	for _, special := range specialRanges {
		if !slices.ContainsFunc(a.prefixes, func(p netip.Prefix) bool {
			return p.Bits() >= special.Bits() && special.Contains(p.Addr())
		}) {
			closed = append(closed, fmt.Sprintf("%s (%s)", special.Prefix, special.what))
		}
	}
	return set + "; except node addresses, " + strings.Join(closed, ", ")
}
