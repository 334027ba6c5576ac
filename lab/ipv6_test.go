package lab_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/samepod/samepod/lab"
)

// everyZeroPattern is all of a /16 whose other groups are zero or this one: wherever
// zeros may be compressed, and wherever they may not.
func everyZeroPattern(prefix netip.Prefix, group uint16) []netip.Addr {
	var all []netip.Addr
	for pattern := range 1 << 7 {
		bits := prefix.Addr().As16()
		for i := range 7 {
			if pattern>>i&1 == 1 {
				bits[2+2*i], bits[3+2*i] = byte(group>>8), byte(group)
			}
		}
		all = append(all, netip.AddrFrom16(bits))
	}
	return all
}

// TestIPv6 has IPv4 only in a Pod's second address: samepod, Envoy and its admin
// interface listen on [::1]. Envoy compares texts, its own of the address that it is
// about to dial with samepod's, so both must write every address alike.
func TestIPv6(t *testing.T) {
	onNode(t, func(t *testing.T) {
		onEveryEnvoy(t, func(t *testing.T, version string) {
			t.Parallel()
			prefixes := append(dualStack(version), netip.MustParsePrefix(fmt.Sprintf("fd%x::/16", minor(version))))
			a := newNodeArm(t, prefixes[:2], prefixes[2:], "--listen", "[::1]:0", "--health-listen", "[::1]:0", "--admin-listen", "[::1]:0")
			a.envoy = a.startEnvoy("envoy", version, a.samepod.Authz.String(), append([]string{"--listen", "[::1]:0", "--admin", "[::1]:0"}, patient...)...)
			a.waitVerdicts()
			requests := 0
			ping := func(claim ...string) call {
				t.Helper()
				requests++
				return do(t, "GET", a.envoy.URL("/ping"), "", claim...)
			}

			t.Run("a Pod of both families", func(t *testing.T) {
				pod := a.plug("a", "uid-a", prefixes[:2], 5)
				v4, v6 := host(prefixes[0], 5), host(prefixes[1], 5)
				a.set("a", "uid-a", "Running", v6, v4)
				for _, addr := range []netip.Addr{v4, v6} {
					if c := ping(claimOn("a", "uid-a", addr)...); c.status != 200 || !strings.Contains(c.body, "by a uid-a") {
						t.Errorf("recorded on %v: %d %s", addr, c.status, c.body)
					}
				}
				if c := ping("x-samepod-target", "sandboxes/a", "x-samepod-expect-pod-uid", "uid-a", "x-samepod-port", fmt.Sprint(lab.ExecdPort)); c.status != 200 {
					t.Errorf("recorded nowhere, the first address is IPv6: %d %s", c.status, c.body)
				}
				if n := len(pod.Executed()); n != 3 {
					t.Errorf("executed %d requests", n)
				}
				log := must(a.envoy.WaitForAccessLog(t.Context(), requests))(t)
				for i, addr := range []netip.Addr{v4, v6, v6} {
					if want := netip.AddrPortFrom(addr, lab.ExecdPort).String(); log[i].Remote != want {
						t.Errorf("request %d reached %s, want %s", i, log[i].Remote, want)
					}
				}
			})

			t.Run("refused", func(t *testing.T) {
				nobodys := netip.MustParseAddr("fd00:ffff::5")
				a.set("b", "uid-b", "Running", nobodys)
				checkProblem(t, "another prefix", ping(claimOn("b", "uid-b", nobodys)...), 403, "address-not-allowed", false)
				checkProblem(t, "a neighbour's address", ping(claimOn("a", "uid-a", host(prefixes[1], 6))...), 409, "ip-moved", false)
				for _, text := range []string{"[FD00::5]:44772", "[fd00:0:0::5]:44772", "[fd00::5%eth0]:44772", "[::ffff:10.244.0.5]:44772", "fd00::5:44772"} {
					checkProblem(t, text, ping("x-samepod-target", "sandboxes/a", "x-samepod-expect-pod-uid", "uid-a", "x-samepod-recorded", text), 400, "claim-malformed", false)
				}
			})

			t.Run("every text", func(t *testing.T) {
				everywhere := a.plug("everywhere", "uid-e", prefixes[:2], 7)
				if err := everywhere.Network.AcceptAll(prefixes[2], host(prefixes[1], 7)); err != nil {
					t.Fatal(err)
				}
				addrs := append(everyZeroPattern(prefixes[2], 5), everyZeroPattern(prefixes[2], 0xa0b1)[1:]...)
				for i, addr := range addrs {
					a.pods[fmt.Sprint("e", i)] = lab.PodRecord{Namespace: "sandboxes", Name: fmt.Sprint("e", i), UID: fmt.Sprint("uid-e", i), Phase: "Running", Addr: addr}
				}
				a.set("everywhere", "uid-e", "Running", host(prefixes[1], 7))
				for i, addr := range addrs {
					if c := ping(claimOn(fmt.Sprint("e", i), fmt.Sprint("uid-e", i), addr)...); c.status != 200 || !strings.Contains(c.body, "by everywhere") {
						t.Errorf("%v: %d %s", addr, c.status, c.body)
					}
				}
				t.Logf("%d texts", len(addrs))
			})
			a.invariant(requests)
		})
	})
}

// TestIPv6Assertion: upstream_rbac and addresses that samepod would not return. Only
// one kind is written differently by Envoy and by Go, ::1.2.3.4 and ::102:304: such
// an address could never be asserted. samepod refuses it from the start, as
// IPv4-compatible, until a CIDR of that kind names it, as here.
func TestIPv6Assertion(t *testing.T) {
	onNode(t, func(t *testing.T) {
		onEveryEnvoy(t, func(t *testing.T, version string) {
			if minor(version) < 39 {
				return // nothing asserts
			}
			t.Parallel()
			prefixes := dualStack(version)
			a := newNodeArm(t, prefixes, []netip.Prefix{netip.MustParsePrefix("::102:0/112")})
			authz := must(a.StartAuthzServer())(t)
			a.envoy = a.startEnvoy("envoy", version, authz.Addr.String(), patient...)
			a.waitVerdicts()
			a.plug("a", "uid-a", prefixes, 5)
			inside := netip.AddrPortFrom(host(prefixes[1], 5), lab.ExecdPort).String()
			rows := []struct {
				rule, verified, upstream string
				status                   int
				reason                   string
			}{
				{"the control, inside of the CIDRs", inside, inside, 200, ""},
				{"outside of the CIDRs", "[fd00:ffff::5]:44772", "[fd00:ffff::5]:44772", 409, "upstream-not-verified"},
				{"IPv4-compatible, as Go writes it", "[::102:304]:44772", "[::1.2.3.4]:44772", 409, "upstream-not-verified"},
				{"IPv4-compatible, as Envoy writes it", "[::1.2.3.4]:44772", "[::1.2.3.4]:44772", 503, "pod-unreachable"},
			}
			for i, row := range rows {
				authz.Say(says(allow(map[string]any{"samepod_upstream": row.verified, "samepod_pod_uid": "uid-a", "samepod_decision": "d"})))
				c := do(t, "GET", a.envoy.URL("/ping"), "")
				log := must(a.envoy.WaitForAccessLog(t.Context(), i+1))(t)
				if c.status != row.status || c.reason() != row.reason || log[i].Upstream != row.upstream {
					t.Errorf("%s: %d %q, dials %q; want %+v", row.rule, c.status, c.reason(), log[i].Upstream, row)
				}
			}
			a.invariant(len(rows))
		})
	})
}
