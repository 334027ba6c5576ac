package lab_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReach is who reaches samepod's listeners from another network namespace, which
// is where the kubelet and Prometheus are. --health-listen on an address of the
// Pod's network is reached; what listens on loopback is not: the check, which tells
// uids to who asks, and the admin listener. The control reaches the same check where
// it listens on the network after all.
func TestReach(t *testing.T) {
	onNode(t, func(t *testing.T) {
		prefixes := dualStack("1.0")
		for _, prefix := range prefixes {
			t.Run(prefix.String(), func(t *testing.T) {
				own := host(prefix, 1) // of the node, on which samepod runs
				anyPort := netip.AddrPortFrom(own, 0).String()
				a := newNodeArm(t, prefixes, nil, "--health-listen", anyPort)
				open := must(a.StartSamepod(t.Context(), "open", must(binaries.race())(t), "--config", a.config, "--pods-file", a.podsYML, "--listen", anyPort, "--insecure-authz"))(t)
				outside := a.plug("outside", "uid-o", []netip.Prefix{prefix}, 9).Network
				client := http.Client{Transport: &http.Transport{DialContext: outside.DialContext, DisableKeepAlives: true}, Timeout: 10 * time.Second}

				for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n", "/metrics": "samepod_index_pods 0\n"} {
					resp, err := client.Get("http://" + a.samepod.Health.String() + path)
					if err != nil {
						t.Fatalf("%s from outside: %v", path, err)
					}
					body := must(io.ReadAll(resp.Body))(t)
					resp.Body.Close()
					if resp.StatusCode != 200 || !strings.Contains(string(body), want) {
						t.Errorf("%s from outside: %d %q", path, resp.StatusCode, body)
					}
				}

				dial := func(what string, by func(context.Context, string, string) (net.Conn, error), to netip.AddrPort, reached bool) {
					t.Helper()
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					conn, err := by(ctx, "tcp", to.String())
					if err == nil {
						conn.Close()
					}
					if refused := errors.Is(err, syscall.ECONNREFUSED); reached && err != nil || !reached && !refused {
						t.Errorf("%s, %v: %v", what, to, err)
					}
				}
				onNode := (&net.Dialer{}).DialContext
				for what, listener := range map[string]netip.AddrPort{"the check": a.samepod.Authz, "the admin listener": a.samepod.Admin} {
					dial(what+" on the node", onNode, listener, true)
					dial(what+" from outside, at the same address", outside.DialContext, listener, false)
					dial(what+" from outside, at the node's", outside.DialContext, netip.AddrPortFrom(own, listener.Port()), false)
				}
				dial("the control, a check on the network, from outside", outside.DialContext, open.Authz, true)
			})
		}
	})
}
