package identity_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/samepod/samepod/identity"
)

func TestParseNamespacedName(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, tc := range []struct {
		in string
		ok bool
	}{
		{"default/a-0", true},
		{"ns/a.b-c.d", true},
		{long + "/" + strings.Repeat(long+".", 3) + long[:61], true}, // 63 and 253 bytes
		{"0/0", true},
		{"", false},
		{"a", false},
		{"/", false},
		{"ns/", false},
		{"/a", false},
		{"ns/a/b", false},
		{"a.b/c", false}, // a namespace is one label
		{long + "a/a", false},
		{"ns/" + strings.Repeat(long+".", 3) + long[:62], false},
		{"ns/-a", false},
		{"ns/a-", false},
		{"ns/a.-b", false},
		{"ns/a-.b", false},
		{"ns/a..b", false},
		{"ns/.a", false},
		{"ns/a.", false},
		{"Ns/a", false},
		{"ns/A", false},
		{"ns/a_b", false},
		{" ns/a", false},
		{"ns/a ", false},
		{"ns/a\x00", false},
		{"ns/a,ns/b", false},
		{"ns/ä", false},
	} {
		got, err := identity.ParseNamespacedName(tc.in)
		if (err == nil) != tc.ok {
			t.Errorf("ParseNamespacedName(%q) error = %v, want ok %v", tc.in, err, tc.ok)
		}
		if err == nil && got.String() != tc.in {
			t.Errorf("ParseNamespacedName(%q) = %v", tc.in, got)
		}
		if err != nil && !got.IsZero() {
			t.Errorf("ParseNamespacedName(%q) = %v beside an error", tc.in, got)
		}
	}
}

func TestParseUID(t *testing.T) {
	for _, tc := range []struct {
		in string
		ok bool
	}{
		{"aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa", true},
		{"d41d8cd98f00b204e9800998ecf8427e", true}, // a mirror Pod's hash
		{"A._-", true},
		{strings.Repeat("x", 128), true},
		{"", false},
		{strings.Repeat("x", 129), false},
		{"a b", false},
		{"a,b", false},
		{"a\r\nx: y", false},
		{"a\x00", false},
		{"ü", false},
	} {
		if _, err := identity.ParseUID(tc.in); (err == nil) != tc.ok {
			t.Errorf("ParseUID(%q) error = %v, want ok %v", tc.in, err, tc.ok)
		}
	}
}

// TestParseAddrPort holds the lines 20, 54, 60 and 64 of the public failures:
// whatever two readers could read in two ways is refused.
func TestParseAddrPort(t *testing.T) {
	for _, tc := range []struct {
		in string
		ok bool
	}{
		{"10.0.0.1:80", true},
		{"10.0.0.1:65535", true},
		{"[fd00::5]:44772", true},
		{"[::1]:80", true}, // loopback is refused later, by the policy
		{"", false},
		{":80", false},
		{"10.0.0.1", false},
		{"10.0.0.1:", false},
		{"10.0.0.1:0", false},
		{"10.0.0.1:080", false},
		{"10.0.0.1:+80", false},
		{"10.0.0.1:-1", false},
		{"10.0.0.1:65536", false},
		{"10.0.0.1:http", false},
		{"010.0.0.1:80", false},
		{"10.1:80", false},
		{"0x0a000001:80", false},
		{"167772161:80", false},
		{"0.0.0.0:80", false},
		{"[::]:80", false},
		{"[10.0.0.1]:80", false},
		{"fd00::1:44772", false},
		{"::1:80", false},
		{"[fd00::0005]:80", false},
		{"[FD00::5]:80", false},
		{"[fd00:0:0:0:0:0:0:5]:80", false},
		{"[::ffff:10.0.1.19]:80", false},
		{"[::ffff:a00:113]:80", false},
		{"[0:0:0:0:0:ffff:a00:113]:80", false},
		{"[fe80::1%eth0]:80", false},
		{"[fe80::1%25eth0]:80", false},
		{"localhost:80", false},
		{"pod-a.default.svc:80", false},
		{"http://10.0.0.1:80", false},
		{" 10.0.0.1:80", false},
		{"10.0.0.1:80 ", false},
		{"10.0.0.1:80\x00", false},
		{"10.0.0.1:80\r\n", false},
		{"10.0.0.1:80\t", false},
		{"10.0.0.1:\uff18\uff10", false}, // full-width digits
		{"10.0.0.1:80,10.0.0.2:80", false},
	} {
		got, err := identity.ParseAddrPort(tc.in)
		if (err == nil) != tc.ok {
			t.Errorf("ParseAddrPort(%q) error = %v, want ok %v", tc.in, err, tc.ok)
		}
		if err != nil && got != (netip.AddrPort{}) {
			t.Errorf("ParseAddrPort(%q) = %v beside an error", tc.in, got)
		}
	}
}

func TestParseAddr(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"10.0.1.19", "10.0.1.19"},
		{"::ffff:10.0.1.19", "10.0.1.19"}, // cilium#29554
		{"::ffff:a00:113", "10.0.1.19"},
		{"0:0:0:0:0:ffff:a00:113", "10.0.1.19"},
		{"FD00::0005", "fd00::5"},
		{"", ""},
		{"fe80::1%eth0", ""},
		{"::ffff:10.0.1.19%eth0", ""},
		{"010.0.0.1", ""},
		{"10.0.0.1:80", ""},
		{"host", ""},
	} {
		got, err := identity.ParseAddr(tc.in)
		if want, _ := netip.ParseAddr(tc.want); got != want || (err == nil) != (tc.want != "") {
			t.Errorf("ParseAddr(%q) = %v, %v, want %q", tc.in, got, err, tc.want)
		}
	}
}

func TestParsePort(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want uint16
	}{
		{"1", 1}, {"80", 80}, {"44772", 44772}, {"65535", 65535},
		{"", 0}, {"0", 0}, {"080", 0}, {"+80", 0}, {"-1", 0}, {" 80", 0}, {"80 ", 0}, {"65536", 0}, {"99999", 0}, {"100000", 0}, {"8e1", 0}, {"80,81", 0}, {"\uff18\uff10", 0},
	} {
		if got, err := identity.ParsePort(tc.in); got != tc.want || (err == nil) != (tc.want != 0) {
			t.Errorf("ParsePort(%q) = %d, %v, want %d", tc.in, got, err, tc.want)
		}
	}
}

func FuzzParseAddrPort(f *testing.F) {
	for _, s := range []string{"10.0.0.1:80", "[fd00::5]:44772", "[::ffff:10.0.0.1]:80", "[fe80::1%eth0]:80", "10.0.0.1:080", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ap, err := identity.ParseAddrPort(s)
		if err != nil {
			return
		}
		a := ap.Addr()
		if ap.String() != s || a.Zone() != "" || a.Is4In6() || a.IsUnspecified() || ap.Port() == 0 {
			t.Errorf("accepted %q as %v", s, ap)
		}
	})
}

func FuzzParseNames(f *testing.F) {
	for _, s := range []string{"default/a-0", "a.b/c", "ns/a..b", "ns/-a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := identity.ParseNamespacedName(s); err == nil {
			again, err := identity.NewNamespacedName(n.Namespace, n.Name)
			if n.String() != s || again != n || err != nil {
				t.Errorf("%q parsed to %v, then %v, %v", s, n, again, err)
			}
		}
		if u, err := identity.ParseUID(s); err == nil && strings.ContainsAny(string(u), " \t\r\n,;:\x00") {
			t.Errorf("uid %q cannot travel in a header", u)
		}
		if p, err := identity.ParsePort(s); err == nil && (p == 0 || s[0] == '0') {
			t.Errorf("port %q parsed to %d", s, p)
		}
	})
}
