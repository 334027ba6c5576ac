package main

import (
	"strings"
	"testing"
)

// TestListen: what may be listened on.
func TestListen(t *testing.T) {
	for _, tc := range []struct {
		rule, want string // want is part of the error; "" for none
		change     func(*serveFlags)
	}{
		{"loopback", "", func(*serveFlags) {}},
		{"IPv6 loopback", "", func(f *serveFlags) { f.listen = []string{"[::1]:0"} }},
		{"two addresses", "", func(f *serveFlags) { f.listen = []string{"127.0.0.1:0", "unix://" + t.TempDir() + "/s"} }},
		{"the Pod's address for health", "", func(f *serveFlags) { f.health = "0.0.0.0:0" }},
		{"no admin", "", func(f *serveFlags) { f.admin = "" }},
		{"everywhere", "not loopback", func(f *serveFlags) { f.listen = []string{"0.0.0.0:0"} }},
		{"everywhere, unsaid", "not loopback", func(f *serveFlags) { f.listen = []string{":0"} }},
		{"everywhere, IPv6", "not loopback", func(f *serveFlags) { f.listen = []string{"[::]:0"} }},
		{"one of two everywhere", "not loopback", func(f *serveFlags) { f.listen = []string{"127.0.0.1:0", "0.0.0.0:0"} }},
		{"everywhere, and meant", "", func(f *serveFlags) { f.listen, f.tls.insecure = []string{"0.0.0.0:0"}, true }},
		{"everywhere, with TLS for anyone", "without client certificates whoever reaches it", func(f *serveFlags) { f.listen, f.tls.cert = []string{"0.0.0.0:0"}, "tls.crt" }},
		{"everywhere, with TLS, and --insecure-authz is not about that", "without client certificates whoever reaches it", func(f *serveFlags) {
			f.listen, f.tls.cert, f.tls.insecure = []string{"0.0.0.0:0"}, "tls.crt", true
		}},
		{"everywhere, with TLS for anyone, and meant", "", func(f *serveFlags) {
			f.listen, f.tls.cert, f.tls.anyClient = []string{"0.0.0.0:0"}, "tls.crt", true
		}},
		{"everywhere, for anyone, without TLS", "without TLS whoever reaches it", func(f *serveFlags) { f.listen, f.tls.anyClient = []string{"0.0.0.0:0"}, true }},
		{"everywhere, with client certificates", "", func(f *serveFlags) {
			f.listen, f.tls.cert, f.tls.clientCA = []string{"0.0.0.0:0"}, "tls.crt", "ca.crt"
		}},
		{"loopback, with TLS for anyone", "", func(f *serveFlags) { f.tls.cert = "tls.crt" }},
		{"admin everywhere", "--admin-listen: \"0.0.0.0:0\": not loopback", func(f *serveFlags) { f.admin = "0.0.0.0:0" }},
		{"admin everywhere, insecure is not about it", "not loopback", func(f *serveFlags) { f.admin, f.tls.insecure = "0.0.0.0:0", true }},
		{"nowhere", "--listen: missing", func(f *serveFlags) { f.listen = nil }},
	} {
		f := serveFlags{listen: []string{"127.0.0.1:0"}, health: "127.0.0.1:0", admin: "127.0.0.1:0", socketMode: "0660", maxConns: 1}
		tc.change(&f)
		l, err := listen(f)
		if err == nil {
			l.close()
		}
		if got := err; (got == nil) != (tc.want == "") || got != nil && !strings.Contains(got.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.rule, got, tc.want)
		}
	}
}
