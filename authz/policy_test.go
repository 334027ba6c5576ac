package authz

import (
	"net/netip"
	"strings"
	"testing"
)

// TestAddresses: an address that no Pod should have is opened only by a CIDR that
// lies within its range. Classes are judged after unmapping (CVE-2024-24790);
// a mapped address is no canonical one and never allowed.
func TestAddresses(t *testing.T) {
	for _, tc := range []struct {
		cidrs string
		addr  string
		node  bool
		want  bool
	}{
		{"", "10.0.0.1", false, true},
		{"", "fd00::1", false, true},
		{"", "100.64.0.1", false, true},
		{"", "0.0.0.0", false, false},
		{"", "0.0.0.1", false, false},
		{"", "127.0.0.1", false, false},
		{"", "127.255.255.255", false, false},
		{"", "169.254.169.254", false, false},
		{"", "169.254.0.1", false, false},
		{"", "168.63.129.16", false, false},
		{"", "100.100.100.200", false, false},
		{"", "224.0.0.1", false, false},
		{"", "255.255.255.255", false, false},
		{"", "::", false, false},
		{"", "::1", false, false},
		{"", "fe80::1", false, false},
		{"", "fe80::1%eth0", false, false},
		{"", "fd00::1%eth0", false, false},
		{"", "ff02::1", false, false},
		{"", "fd00:ec2::254", false, false},
		{"", "fd00:ec2::123", false, false},
		{"", "fd20:ce::254", false, false},
		{"", "::a00:1", false, false},
		{"", "64:ff9b::a9fe:a9fe", false, false},
		{"", "::ffff:10.0.0.1", false, false},
		{"", "::ffff:127.0.0.1", false, false},
		{"", "::ffff:169.254.169.254", false, false},
		{"", "10.0.0.1", true, false},

		{"10.0.0.0/8", "10.0.0.1", false, true},
		{"10.0.0.0/8", "192.168.0.1", false, false},
		{"10.0.0.0/8", "fd00::1", false, false},
		{"10.0.0.0/8 fd00::/8", "fd00::1", false, true},
		{"10.0.0.0/8", "127.0.0.1", false, false},
		{"0.0.0.0/0", "10.0.0.1", false, true},
		{"0.0.0.0/0", "127.0.0.1", false, false},
		{"0.0.0.0/0", "169.254.169.254", false, false},
		{"0.0.0.0/0 ::/0", "::1", false, false},
		{"127.0.0.0/8", "127.0.0.1", false, true},
		{"127.7.0.0/16", "127.7.0.5", false, true},
		{"127.7.0.0/16", "127.8.0.5", false, false},
		{"127.7.0.0/16", "10.0.0.1", false, false},
		{"169.254.0.0/16", "169.254.169.254", false, true},
		{"169.254.1.0/24", "169.254.169.254", false, false},
		{"126.0.0.0/7", "127.0.0.1", false, false},

		{"10.0.0.0/8", "10.0.0.1", true, false}, // the node's own address, within the Pods' range (VPC CNI)
		{"10.0.0.0/8 10.0.0.1/32", "10.0.0.1", true, true},
		{"10.0.0.1/32", "10.0.0.2", true, false},
	} {
		a, err := ParseAddresses(strings.Fields(tc.cidrs))
		if err != nil {
			t.Fatal(err)
		}
		if got := a.refuses(netip.MustParseAddr(tc.addr), tc.node) == ""; got != tc.want {
			t.Errorf("[%s] allows %s (node %v) = %v, want %v", tc.cidrs, tc.addr, tc.node, got, tc.want)
		}
	}
	if (Addresses{}).refuses(netip.Addr{}, false) == "" {
		t.Error("the zero address is allowed")
	}
}

func TestParseAddresses(t *testing.T) {
	for _, tc := range []struct{ in, wantErr string }{
		{"10.0.0.0/8", ""},
		{"10.0.0.1/32", ""},
		{"fd00::/8", ""},
		{"10.0.0.1/8", `"10.0.0.1/8"; canonical is "10.0.0.0/8"`},
		{"FD00::/8", `canonical is "fd00::/8"`},
		{"10.0.0.0", `"10.0.0.0"; allowed: a CIDR such as 10.0.0.0/8`},
		{"10.0.0.0/33", "allowed: a CIDR"},
		{"::ffff:10.0.0.0/104", "allowed: a CIDR"},
		{"fe80::%eth0/64", "allowed: a CIDR"},
		{"pods", "allowed: a CIDR"},
		{"10.0.0.0/8 10.0.0.0/8", "listed twice"},
	} {
		_, err := ParseAddresses(strings.Fields(tc.in))
		if got := errText(err); tc.wantErr == "" && err != nil || !strings.Contains(got, tc.wantErr) {
			t.Errorf("ParseAddresses(%s) = %q, want %q", tc.in, got, tc.wantErr)
		}
	}
}

func TestAddressesString(t *testing.T) {
	for _, tc := range []struct{ cidrs, has, lacks string }{
		{"", "every address that a live Pod holds; except node addresses, 0.0.0.0/8 (this network), 127.0.0.0/8 (loopback)", "10.0.0.0/8"},
		{"10.0.0.0/8 127.0.0.0/8", "10.0.0.0/8, 127.0.0.0/8; except node addresses", "(loopback), 169"},
	} {
		if got := must(ParseAddresses(strings.Fields(tc.cidrs))).String(); !strings.Contains(got, tc.has) || strings.Contains(got, tc.lacks) {
			t.Errorf("[%s] is %q", tc.cidrs, got)
		}
	}
}

func TestPorts(t *testing.T) {
	for _, tc := range []struct {
		in, wantErr string
		has, lacks  uint16
		text        string
	}{
		{"44772", "", 44772, 44773, "44772"},
		{"44772 8000-8010", "", 8010, 8011, "44772, 8000-8010"},
		{"8000-8000", "", 8000, 8001, "8000"},
		{"1-65535", "", 65535, 0, "any"},
		{"", "empty", 0, 0, ""},
		{"0", `"0"; allowed: a port 1 to 65535`, 0, 0, ""},
		{"80-79", `"80-79"; allowed`, 0, 0, ""},
		{"0-80", "allowed", 0, 0, ""},
		{"80-", "allowed", 0, 0, ""},
		{"-80", "allowed", 0, 0, ""},
		{"080", "allowed", 0, 0, ""},
		{"http", `"http"; allowed`, 0, 0, ""},
		{"1-2-3", "allowed", 0, 0, ""},
		{"80 80", `"80": is in "80" already`, 0, 0, ""},
		{"80-90 85", `"85": is in "80-90" already`, 0, 0, ""},
		{"85 80-90", `"80-90": is in "85" already`, 0, 0, ""},
	} {
		p, err := ParsePorts(strings.Fields(tc.in))
		if tc.wantErr != "" {
			if !strings.Contains(errText(err), tc.wantErr) {
				t.Errorf("ParsePorts(%q) = %q, want %q", tc.in, errText(err), tc.wantErr)
			}
			continue
		}
		if err != nil || !p.Contains(tc.has) || p.Contains(tc.lacks) || p.String() != tc.text {
			t.Errorf("ParsePorts(%q) = %v, %v", tc.in, p, err)
		}
	}
	if (Ports{}).Contains(80) || !AnyPort().Contains(1) || AnyPort().Contains(0) {
		t.Error("the zero Ports must be empty, AnyPort must be 1 to 65535")
	}
}

func TestScope(t *testing.T) {
	for _, tc := range []struct {
		in      []string
		wantErr string
		has     string
		lacks   string
	}{
		{[]string{"b", "a"}, "", "a", "c"},
		{[]string{"*"}, "", "kube-system", ""},
		{nil, `empty; allowed: a list of namespaces, or ["*"]`, "", ""},
		{[]string{"a", "*"}, "stands alone", "", ""},
		{[]string{"a", "a"}, "listed twice", "", ""},
		{[]string{""}, "DNS label", "", ""},
		{[]string{"a*"}, `"a*": the namespace must be a DNS label`, "", ""},
		{[]string{"A"}, "DNS label", "", ""},
	} {
		s, err := ParseScope(tc.in)
		if tc.wantErr != "" {
			if !strings.Contains(errText(err), tc.wantErr) {
				t.Errorf("ParseScope(%q) = %q, want %q", tc.in, errText(err), tc.wantErr)
			}
			continue
		}
		if err != nil || !s.Contains(tc.has) || tc.lacks != "" && s.Contains(tc.lacks) {
			t.Errorf("ParseScope(%q) = %v, %v", tc.in, s, err)
		}
	}
	if (Scope{}).Contains("") || (Scope{}).Contains("a") {
		t.Error("the zero Scope is not empty")
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
