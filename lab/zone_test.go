package lab_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/samepod/samepod/lab"
)

// An address has one text here: unmapped, and without a zone. These tests show what
// Envoy makes of the others, and that samepod never gives them.

// TestAddressForms: what a server in samepod's place does to Envoy with another
// form of an address. Before 1.39 a zone ends the whole process (CVE-2026-73549),
// and nothing compares a mapped address with what was meant.
func TestAddressForms(t *testing.T) {
	const ended = "Envoy has ended"
	rows := []struct {
		what string
		form string
		want from
	}{
		{"the control", "%v:%d", from{36: "200 ping@A"}},
		{"a mapped address", "[::ffff:%v]:%d", from{36: "503 pod-unreachable", 39: "409 upstream-not-verified"}},
		{"a zone", "[fe80::1%%eth0]:%[2]d", from{36: ended, 39: "409 upstream-not-verified"}}, // the last one: it may end Envoy
	}
	onEveryEnvoy(t, func(t *testing.T, version string) {
		t.Parallel()
		th, stages := newTheatre(t, version, 1)
		s := stages[0]
		authz := must(th.StartAuthzServer())(t)
		e := must(th.StartEnvoy(t.Context(), "scripted", envoyBinary(t, version), th.bootstrap(version, authz.Addr.String(), "--check-timeout", "10s")))(t)
		waitForVerdicts(t, e)
		for _, row := range rows {
			authz.Say(says(allow(verified(fmt.Sprintf(row.form, s.a.Addr.Addr(), s.a.Addr.Port()), "uid-a"))))
			want := row.want.at(minor(version))
			ask := func(s *stage, e *lab.Envoy) string {
				answer := answered(s.http, "GET", e.URL("/ping"), "", nil)
				if answer == "no answer" {
					eventually(t, "Envoy ends", func() bool { return !e.Alive() })
					return ended
				}
				return answer
			}
			if got := s.play(e, ask, want); got != want {
				t.Errorf("%s: %s; want %s", row.what, got, want)
			}
		}
	})
}

// TestAddressFormsNeverGiven: Pods whose addresses are written in these forms where
// samepod reads them. A mapped one is dialled as what it is; a file with a zone is
// refused, and what was read before it serves; Envoy lives.
func TestAddressFormsNeverGiven(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		t.Parallel()
		a := newSamepodArm(t)
		addr := a.addrs.Take()
		pod := must(a.StartPod("mapped", "uid-mapped", addr))(t)
		write := func(name, text string) {
			a.pods[name] = lab.PodRecord{Namespace: "sandboxes", Name: name, UID: "uid-" + name, Phase: "Running", Addr: netip.MustParseAddr(text)}
			a.writePods()
		}
		write("mapped", "::ffff:"+addr.String())
		a.eventually("samepod reads the mapped address", func() bool {
			n, err := a.samepod.Metric("samepod_index_pods")
			return err == nil && n == 1
		})
		write("zoned", "fe80::1%eth0")
		a.eventually("samepod refuses the zone", func() bool {
			return bytes.Contains(must(os.ReadFile(a.samepod.Err))(t), []byte("an IP address of a Pod has no zone"))
		})
		a.envoy = a.startEnvoy("envoy", version, a.samepod.Authz.String(), "--check-timeout", "10s")
		a.waitVerdicts()

		port := fmt.Sprint(lab.ExecdPort)
		requests := 0
		for _, tc := range []struct{ pod, recorded, want string }{
			{"mapped", "", "200"},
			{"mapped", pod.Addr.String(), "200"},
			{"mapped", fmt.Sprintf("[::ffff:%v]:%s", addr, port), "400 claim-malformed"},
			{"zoned", "", "409 pod-gone"},
			{"zoned", "[fe80::1%eth0]:" + port, "400 claim-malformed"},
			{"zoned", "[fe80::1]:" + port, "409 pod-gone"},
		} {
			claim := []string{"x-samepod-target", "sandboxes/" + tc.pod, "x-samepod-expect-pod-uid", "uid-" + tc.pod, "x-samepod-port", port}
			if tc.recorded != "" {
				claim = append(claim, "x-samepod-recorded", tc.recorded)
			}
			requests++
			if got := answered(http1, "GET", a.envoy.URL("/ping"), "", claim); got != tc.want {
				t.Errorf("%s at %q: %s; want %s", tc.pod, tc.recorded, got, tc.want)
			}
		}
		a.invariant(requests)
		for _, entry := range must(a.envoy.AccessLog())(t) {
			if got := string(entry.Verified); strings.ContainsAny(got, "%") || strings.Contains(got, "ffff") || got != "" && got != pod.Addr.String() {
				t.Errorf("samepod gave %q", got)
			}
		}
	})
}
