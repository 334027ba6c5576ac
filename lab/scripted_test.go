package lab_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/samepod/samepod/lab"
)

// What Envoy makes of answers that samepod must never give. A bug in samepod, or
// somebody in its place, still reaches no Pod that it does not name exactly.

// allow is an answer with this metadata.
func allow(metadata map[string]any, headers ...*corev3.HeaderValueOption) *authv3.CheckResponse {
	md, err := structpb.NewStruct(metadata)
	if err != nil {
		panic(err)
	}
	return &authv3.CheckResponse{
		Status:          &rpcstatus.Status{},
		HttpResponse:    &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{Headers: headers}},
		DynamicMetadata: md,
	}
}

func denyWith(code int, metadata map[string]any) *authv3.CheckResponse {
	r := allow(metadata)
	r.Status.Code = 9
	r.HttpResponse = &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode(code)}, Body: "no"}}
	return r
}

func TestScripted(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		l := newLab(t)
		authz := must(l.StartAuthzServer())(t)
		addrs := must(lab.NewAddresses(lab.ExecdPort))(t)
		a := &arm{Lab: l, t: t, addrs: addrs, config: writeConfig(t, l, addrs)}
		a.envoy = a.startEnvoy("envoy", version, authz.Addr.String())
		a.waitVerdicts()
		podA := must(l.StartPod("a", "uid-a", addrs.Take()))(t)
		podB := must(l.StartPod("b", "uid-b", addrs.Take()))(t)
		up := podA.Addr.String()
		ok := map[string]any{"samepod_upstream": up, "samepod_pod_uid": "uid-a", "samepod_decision": "d"}
		with := func(key string, value any) map[string]any {
			m := maps.Clone(ok)
			if m[key] = value; value == nil {
				delete(m, key)
			}
			return m
		}
		asserts := minor(version) >= 39

		requests := 0
		for _, tc := range []struct {
			rule   string
			answer lab.Answer
			status int
			reason string // of an answer that nobody forwarded
		}{
			{"the control: an exact answer", says(allow(ok)), 200, ""},
			{"no metadata", says(allow(nil)), 503, "no-verdict"},
			{"an empty response, which Envoy takes for an allow", says(&authv3.CheckResponse{}), 503, "no-verdict"},
			{"a denial without status, which Envoy takes for an allow", says(&authv3.CheckResponse{HttpResponse: denyWith(409, nil).GetHttpResponse()}), 503, "no-verdict"},
			{"the address is a number", says(allow(with("samepod_upstream", 7))), 503, "no-verdict"},
			{"the address is a host name", says(allow(with("samepod_upstream", "localhost:44772"))), 503, "no-verdict"},
			{"the address is garbage", says(allow(with("samepod_upstream", "10.0.0.1"))), 503, "no-verdict"},
			{"the address is empty", says(allow(with("samepod_upstream", ""))), 503, "no-verdict"},
			{"a gRPC error", func(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
				return nil, status.Error(codes.Internal, "no")
			}, 503, "no-verdict"},
			{"too slow", func(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
				time.Sleep(2 * time.Second) // not to the deadline, which Envoy tells: what is said then may still arrive
				return allow(ok), nil
			}, 503, "no-verdict"},
			{"a header beyond the mutation rules", says(allow(ok, &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: "x-other", Value: "1"}})), 500, ""},
			{"a denial", says(denyWith(409, nil)), 409, ""},
		} {
			authz.Say(tc.answer)
			before := len(podA.Executed())
			requests++
			started := time.Now()
			c := do(t, "GET", a.envoy.URL("/ping"), "")
			if tc.reason != "" {
				checkProblem(t, tc.rule, c, tc.status, tc.reason, false)
			}
			if c.status != tc.status {
				t.Errorf("%s: %d %q, want %d", tc.rule, c.status, c.body, tc.status)
			}
			if n := len(podA.Executed()) - before; (n == 1) != (tc.status == 200) {
				t.Errorf("%s: the Pod executed %d requests", tc.rule, n)
			}
			if took := time.Since(started); took > 2*time.Second {
				t.Errorf("%s: answered after %v", tc.rule, took)
			}
		}
		if n := podB.Connections(); n != 0 {
			t.Errorf("B got %d connections", n)
		}

		// From 1.39 Envoy compares once more before it dials.
		for _, tc := range []struct {
			rule   string
			answer *authv3.CheckResponse
		}{
			{"a list of two addresses", allow(with("samepod_upstream", []any{up, podB.Addr.String()}))},
			{"an address outside of the CIDRs", allow(with("samepod_upstream", "127.0.0.9:44772"))},
			{"another port", allow(with("samepod_upstream", netip.AddrPortFrom(podA.Addr.Addr(), 1).String()))},
			{"an IPv4-mapped address", allow(with("samepod_upstream", fmt.Sprintf("[::ffff:%v]:44772", podA.Addr.Addr())))},
			{"a zone", allow(with("samepod_upstream", "[fe80::1%eth0]:44772"))},
			{"no uid", allow(with("samepod_pod_uid", nil))},
			{"an empty uid", allow(with("samepod_pod_uid", ""))},
		} {
			if !asserts {
				break // samepod's own lists, and its one form of an address, are the only guard there
			}
			authz.Say(says(tc.answer))
			before := podA.Connections() + podB.Connections()
			requests++
			c := do(t, "GET", a.envoy.URL("/ping"), "")
			if c.status != 409 && c.status != 503 {
				t.Errorf("%s: %d %q", tc.rule, c.status, c.body)
			}
			if c.status == 409 {
				checkProblem(t, tc.rule, c, 409, "upstream-not-verified", false)
			}
			if podA.Connections()+podB.Connections() != before {
				t.Errorf("%s: somebody was dialled", tc.rule)
			}
		}
		a.invariant(requests)
	})
}

func says(r *authv3.CheckResponse) lab.Answer {
	return func(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) { return r, nil }
}

// TestAssert: an operator's cluster that picks B while the verdict says A. Below
// 1.39 nothing asserts, which is why it has to be asked for.
func TestAssert(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		l := newLab(t)
		authz := must(l.StartAuthzServer())(t)
		addrs := must(lab.NewAddresses(lab.ExecdPort))(t)
		podA := must(l.StartPod("a", "uid-a", addrs.Take()))(t)
		podB := must(l.StartPod("b", "uid-b", addrs.Take()))(t)
		a := &arm{Lab: l, t: t, addrs: addrs, config: writeConfig(t, l, addrs)}
		a.envoy = a.startEnvoy("envoy", version, authz.Addr.String(), "--upstream", "assert", "--accept-unasserted", "--endpoint", podB.Addr.String())
		a.waitVerdicts()
		verdict := func(p *lab.Pod) lab.Answer {
			return says(allow(map[string]any{"samepod_upstream": p.Addr.String(), "samepod_pod_uid": p.UID, "samepod_decision": "d"}))
		}

		authz.Say(verdict(podB))
		if c := do(t, "GET", a.envoy.URL("/ping"), ""); c.status != 200 || !strings.Contains(c.body, "by b uid-b") {
			t.Errorf("the verified Pod is the one that was picked: %d %q", c.status, c.body)
		}
		before := podB.Connections()
		executed := len(podB.Executed())
		for rule, answer := range map[string]*authv3.CheckResponse{
			"no metadata": allow(nil), "an empty response": {}, "an empty address": allow(map[string]any{"samepod_upstream": "", "samepod_pod_uid": "uid-b"}),
		} {
			authz.Say(says(answer))
			checkProblem(t, rule, do(t, "GET", a.envoy.URL("/ping"), ""), 503, "no-verdict", false)
		}
		if len(podB.Executed()) != executed {
			t.Error("B was dialled without a verdict")
		}
		authz.Say(verdict(podA))
		c := do(t, "POST", a.envoy.URL("/command"), `{"command":"ls"}`)
		if minor(version) < 39 {
			if c.status != 200 || len(podB.Executed()) != executed+1 {
				t.Errorf("the control: Envoy %s asserts after all: %d", version, c.status)
			}
			return // the invariant does not hold, as the rendering says
		}
		checkProblem(t, "another Pod was picked", c, 409, "upstream-not-verified", false)
		a.invariant(5)
		if podB.Connections() != before || len(podB.Executed()) != executed {
			t.Error("B was dialled")
		}
	})
}

// TestShadowMode: an operator who evaluates samepod with Envoy's shadow_mode lets
// denials pass. What samepod denies has no address, so even then nothing is
// dialled; a denial that had one would be, which is the control.
func TestShadowMode(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		if minor(version) < 38 {
			t.Skip("shadow_mode is in 1.38 and newer")
		}
		a := newSamepodArm(t)
		addr := a.addrs.Take()
		pod := a.run("a", "uid-a", addr)
		shadow := func(samepod string) []byte {
			config := a.bootstrap(version, samepod, "--upstream", "resolve")
			return bytes.Replace(config, []byte("failure_mode_allow: false"), []byte("shadow_mode: true\n              failure_mode_allow: false"), 1)
		}

		a.envoy = must(a.StartEnvoy(t.Context(), "envoy", envoyBinary(t, version), shadow(a.samepod.Authz.String())))(t)
		a.waitVerdicts()
		if c := do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", addr)...); c.status != 200 {
			t.Fatalf("an allow: %d %s", c.status, c.body)
		}
		before := len(pod.Executed())
		c := do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-old", addr)...)
		checkProblem(t, "a denial in shadow mode", c, 503, "no-verdict", false)
		if len(pod.Executed()) != before {
			t.Error("a denial was dialled in shadow mode")
		}
		a.invariant(2)

		authz := must(a.StartAuthzServer())(t)
		authz.Say(says(denyWith(409, map[string]any{"samepod_upstream": pod.Addr.String(), "samepod_pod_uid": "uid-a"})))
		control := must(a.StartEnvoy(t.Context(), "control", envoyBinary(t, version), shadow(authz.Addr.String())))(t)
		eventually(t, "the control gets verdicts", func() bool {
			return do(t, "GET", control.URL("/ping"), "").status == 200 // the denial was dialled
		})
	})
}
