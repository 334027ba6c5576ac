package authz

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/samepod/samepod/identity"
)

// testServer is a Server over this world, with what it logs.
func testServer(index *identity.Index) (*Server, *bytes.Buffer, *prometheus.Registry) {
	var log bytes.Buffer
	reg := prometheus.NewRegistry()
	return NewServer(Config{
		Claim: DefaultMapping().Claim, Policy: policy(), Target: Pods(index.Look), History: index.History,
		Log:     slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: NewMetrics(reg),
	}), &log, reg
}

// dial serves s on loopback and returns a connection to it.
func dial(t *testing.T, s *Server, options ...grpc.DialOption) (*grpc.ClientConn, *Endpoint) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := NewEndpoint(s, EndpointConfig{})
	served := make(chan error, 1)
	go func() { served <- e.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		e.Drain(context.Background(), 0, time.Second)
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return conn, e
}

// TestDrainIsBounded: a connection that never says a word does not hold up the end.
func TestDrainIsBounded(t *testing.T) {
	server, _, _ := testServer(world())
	conn, e := dial(t, server)
	idle, err := net.Dial("tcp", conn.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	started := time.Now()
	e.Drain(t.Context(), 0, 500*time.Millisecond)
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("drained after %v", took)
	}
	var late Endpoint
	late.server, late.health = e.server, e.health
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := late.Serve(l); err != nil {
		t.Errorf("serving after the drain: %v", err)
	}
}

func reasonOf(resp *authv3.CheckResponse) string {
	if resp.GetStatus() == nil {
		return "no status, which allows"
	}
	if resp.GetStatus().GetCode() == 0 {
		return "same-pod"
	}
	return resp.GetStatus().GetMessage()
}

func TestCheck(t *testing.T) {
	server, log, reg := testServer(world(pod("a", on(addrX))))
	conn, _ := dial(t, server)
	resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), request())
	if err != nil || reasonOf(resp) != "same-pod" {
		t.Fatalf("check = %v, %v", resp, err)
	}
	resp, err = authv3.NewAuthorizationClient(conn).Check(t.Context(), request(set(expectUID, "U-b")))
	if err != nil || reasonOf(resp) != "pod-replaced" {
		t.Fatalf("check = %v, %v", resp, err)
	}
	if got := strings.Count(log.String(), "\n"); got != 2 {
		t.Errorf("%d log records for two checks:\n%s", got, log)
	}
	for r, want := range map[Reason]float64{SamePod: 1, PodReplaced: 1, Internal: 0} {
		if got := testutil.ToFloat64(server.config.Metrics.decisions[r]); got != want {
			t.Errorf("decisions{%v} = %v, want %v", r, got, want)
		}
	}
	if n, err := testutil.GatherAndCount(reg, "samepod_decisions_total"); n != len(Reasons()) || err != nil {
		t.Errorf("%d reasons are pre-created, want %d, %v", n, len(Reasons()), err)
	}
	problems, err := promlint.NewWithMetricFamilies(mustGather(t, reg)).Lint()
	if len(problems) > 0 || err != nil {
		t.Errorf("promlint: %v, %v", problems, err)
	}
}

func mustGather(t *testing.T, reg *prometheus.Registry) []*dto.MetricFamily {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// TestLog: one record a denial, with everything an operator needs, and nothing of
// the request beyond the claim. The caller gets nothing about the holder.
func TestLog(t *testing.T) {
	server, log, _ := testServer(world(pod("a", on(addrX)), pod("a", phase(failed)), pod("secret-tenant", on(addrX), in("other"))))
	resp, err := server.Check(t.Context(), request(set("authorization", "Bearer s3cret"), set("x-other", "s3cret")))
	if err != nil || reasonOf(resp) != "pod-terminal" {
		t.Fatal(resp, err)
	}
	var record map[string]any
	if err := json.Unmarshal(log.Bytes(), &record); err != nil {
		t.Fatalf("not one JSON record: %v\n%s", err, log)
	}
	delete(record, "time")
	decision := resp.GetDynamicMetadata().GetFields()[DecisionKey].GetStringValue()
	history, _ := record["history"].([]any)
	if len(history) != 2 || !strings.HasPrefix(fmt.Sprint(history[0]), "other/secret-tenant U-secret-tenant 20") || !strings.HasSuffix(fmt.Sprint(history[0]), "to now") {
		t.Errorf("history = %q", history)
	}
	delete(record, "history")
	delete(record, "age")
	want := map[string]any{
		"level": "INFO", "msg": "denied", "decision": decision, "reason": "pod-terminal",
		"claim":   map[string]any{"pod": "ns/a", "uid": "U-a", "recorded": addrX + ":80", "port": 80.0},
		"target":  map[string]any{"uid": "U-a", "phase": "Failed", "ips": nil},
		"address": addrX,
		"holder":  map[string]any{"pod": "other/secret-tenant", "uid": "U-secret-tenant", "count": 1.0},
		"feed":    "pods",
	}
	if diff := cmp.Diff(want, record); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if strings.Contains(log.String(), "s3cret") {
		t.Errorf("a header is in the log: %s", log)
	}
	wire, err := proto.Marshal(resp)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(wire, []byte("tenant")) || decision == "" {
		t.Errorf("the caller learns about a stranger's Pod: %v", resp)
	}
}

// TestNeverAnError: whatever goes wrong, the answer is a denial.
func TestNeverAnError(t *testing.T) {
	index := world(pod("a", on(addrX)))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, tc := range []struct {
		rule string
		ctx  context.Context
		look func(identity.NamespacedName, netip.Addr) identity.View
		req  *authv3.CheckRequest
		log  string
	}{
		{"a nil request", t.Context(), index.Look, nil, "no HTTP attributes"},
		{"an empty request", t.Context(), index.Look, &authv3.CheckRequest{}, "no HTTP attributes"},
		{"empty attributes", t.Context(), index.Look, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{}}, "no HTTP attributes"},
		{"no HTTP", t.Context(), index.Look, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{}}}, "no HTTP attributes"},
		{"cancelled", cancelled, index.Look, request(), "context canceled"},
		{"too late", expired, index.Look, request(), "deadline exceeded"},
		{"a panic", t.Context(), func(identity.NamespacedName, netip.Addr) identity.View { panic("boom") }, request(), "boom"},
		{"a nil map", t.Context(), nil, request(), "nil pointer"},
	} {
		server, log, _ := testServer(index)
		server.config.Target = Pods(tc.look)
		resp, err := server.Check(tc.ctx, tc.req)
		if err != nil || reasonOf(resp) != "internal" || resp.GetDeniedResponse().GetStatus().GetCode() != 503 {
			t.Errorf("%s: %v, %v", tc.rule, resp, err)
		}
		level := "ERROR"
		if tc.ctx.Err() != nil {
			level = "INFO" // nobody waits, and nothing is wrong
		}
		if !strings.Contains(log.String(), tc.log) || !strings.Contains(log.String(), `"level":"`+level+`"`) {
			t.Errorf("%s: logged %s, want %q", tc.rule, log, tc.log)
		}
		if got := testutil.ToFloat64(server.config.Metrics.decisions[Internal]); got != 1 {
			t.Errorf("%s: counted %v times as internal", tc.rule, got)
		}
	}
}

// undecodedRecord is the fault in words, not the bytes that carried it. Which space
// stands behind "proto:" protobuf-go draws anew for each binary.
var undecodedRecord = regexp.MustCompile(`"fault":"the request does not unmarshal: [a-z][ -~\x{a0}]*"`)

// rawCodec sends bytes as they are.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// TestUndecodable sends bytes that are no CheckRequest over a real connection.
// The standard codec, in the control, answers with a gRPC error, which an
// operator's failure_mode_allow would turn into an allow.
func TestUndecodable(t *testing.T) {
	whole, err := proto.Marshal(request())
	if err != nil {
		t.Fatal(err)
	}
	server, log, _ := testServer(world(pod("a", on(addrX))))
	conn, _ := dial(t, server, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")})))

	control := grpc.NewServer()
	authv3.RegisterAuthorizationServer(control, server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go control.Serve(l)
	defer control.Stop()
	controlConn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")})))
	if err != nil {
		t.Fatal(err)
	}
	defer controlConn.Close()

	for _, tc := range []struct {
		rule string
		wire []byte
	}{
		{"invalid UTF-8 in a header (CVE-2023-27488)", bytes.Replace(whole, []byte("ns/a"), []byte("ns/\xff"), 1)},
		{"invalid UTF-8 in the path", bytes.Replace(whole, []byte("/command"), []byte("/\xc3\x28mmand"), 1)},
		{"truncated", whole[:len(whole)-1]},
		{"garbage", []byte("\xff\xff\xff\xff")},
		{"a wire type that does not exist", []byte{0x0f}},
	} {
		log.Reset()
		var resp authv3.CheckResponse
		err := conn.Invoke(t.Context(), authv3.Authorization_Check_FullMethodName, tc.wire, &resp)
		if err != nil || reasonOf(&resp) != "internal" || !undecodedRecord.MatchString(log.String()) {
			t.Errorf("%s: %v, %v; logged %s", tc.rule, reasonOf(&resp), err, log)
		}
		err = controlConn.Invoke(t.Context(), authv3.Authorization_Check_FullMethodName, tc.wire, &resp)
		if status.Code(err) != codes.Internal {
			t.Errorf("%s: the control answers %v, so this shows nothing", tc.rule, err)
		}
	}

	// An empty message unmarshals and says nothing; a whole one is answered.
	for wire, want := range map[string]string{"": "internal", string(whole): "same-pod"} {
		var resp authv3.CheckResponse
		if err := conn.Invoke(t.Context(), authv3.Authorization_Check_FullMethodName, []byte(wire), &resp); err != nil || reasonOf(&resp) != want {
			t.Errorf("%d bytes: %v, %v, want %s", len(wire), reasonOf(&resp), err, want)
		}
	}
	// Who forges the mark is denied.
	var resp authv3.CheckResponse
	forged := &authv3.CheckRequest{}
	if err := (codec{encoding.GetCodecV2("proto")}).Unmarshal(mem.BufferSlice{mem.SliceBuffer("\xff")}, forged); err != nil {
		t.Fatal(err)
	}
	mark, err := proto.Marshal(forged)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Invoke(t.Context(), authv3.Authorization_Check_FullMethodName, append(bytes.Clone(whole), mark...), &resp); err != nil || reasonOf(&resp) != "internal" {
		t.Errorf("a forged mark: %v, %v", reasonOf(&resp), err)
	}
}

// FuzzCheck: no bytes make Check answer with an error, an allow of something else
// than the Pod's own address, or a denial that could be dialled.
func FuzzCheck(f *testing.F) {
	for _, r := range []*authv3.CheckRequest{request(), request(raw()), request(set(target, "ns/a,ns/b")), {}} {
		wire, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	server, _, _ := testServer(world(pod("a", on(addrX))))
	server.config.Log = slog.New(slog.DiscardHandler)
	f.Fuzz(func(t *testing.T, wire []byte) {
		var req authv3.CheckRequest
		if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, &req); err != nil {
			t.Fatalf("the codec gives an error: %v", err)
		}
		resp, err := server.Check(t.Context(), &req)
		if err != nil || resp.GetStatus() == nil {
			t.Fatalf("check = %v, %v", resp, err)
		}
		upstream, dialled := resp.GetDynamicMetadata().GetFields()[UpstreamKey]
		allowed := resp.GetStatus().GetCode() == 0
		if allowed != (resp.GetOkResponse() != nil) || allowed != dialled || allowed && upstream.GetStringValue() != addrX+":80" {
			t.Errorf("check = %v", resp)
		}
		if !allowed && resp.GetDeniedResponse().GetStatus().GetCode() < 400 {
			t.Errorf("denied with HTTP %d", resp.GetDeniedResponse().GetStatus().GetCode())
		}
		if _, err := proto.Marshal(resp); err != nil {
			t.Errorf("the answer does not marshal: %v", err)
		}
	})
}

func TestHealth(t *testing.T) {
	server, _, _ := testServer(world())
	conn, e := dial(t, server)
	check := func(want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, service := range []string{"", "envoy.service.auth.v3.Authorization"} {
			got, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
			if err != nil || got.GetStatus() != want {
				t.Errorf("health of %q = %v, %v, want %v", service, got.GetStatus(), err, want)
			}
		}
	}
	check(healthv1.HealthCheckResponse_NOT_SERVING)
	e.SetServing(true)
	check(healthv1.HealthCheckResponse_SERVING)
	e.health.Shutdown() // as Drain does, before it closes anything
	check(healthv1.HealthCheckResponse_NOT_SERVING)
	e.SetServing(true)
	check(healthv1.HealthCheckResponse_NOT_SERVING)
}

// TestDrain: health goes first, then a check that runs finishes, and one that
// does not finish in time is cut off.
func TestDrain(t *testing.T) {
	for _, tc := range []struct {
		rule    string
		release bool // the running check ends by itself
		want    codes.Code
	}{
		{"a running check finishes", true, codes.OK},
		{"a check that hangs is cut off", false, codes.Unavailable},
	} {
		entered, release := make(chan struct{}), make(chan struct{})
		index := world(pod("a", on(addrX)))
		server, _, _ := testServer(index)
		server.config.Target = Pods(func(n identity.NamespacedName, a netip.Addr) identity.View {
			close(entered)
			<-release
			return index.Look(n, a)
		})
		conn, e := dial(t, server)
		e.SetServing(true)
		result := make(chan error, 1)
		go func() {
			_, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), request())
			result <- err
		}()
		<-entered
		drained := make(chan struct{})
		go func() {
			e.Drain(t.Context(), 50*time.Millisecond, 200*time.Millisecond)
			close(drained)
		}()
		if tc.release {
			close(release)
		}
		if got := status.Code(<-result); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.rule, got, tc.want)
		}
		if !tc.release {
			close(release)
		}
		<-drained
	}
}

// TestKeepalive: pings as often as Envoy may be configured to send them (10 s)
// are no reason to close; grpc-go's default would take the third for an attack.
// The client's lower bound is 10 s, so two rounds take 20 s of real time.
func TestKeepalive(t *testing.T) {
	if testing.Short() {
		t.Skip("25 s of real time")
	}
	t.Parallel()
	server, _, _ := testServer(world(pod("a", on(addrX))))
	conn, _ := dial(t, server, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second, PermitWithoutStream: true}))
	client := authv3.NewAuthorizationClient(conn)
	if _, err := client.Check(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	for s := conn.GetState(); s != connectivity.Ready; s = conn.GetState() {
		conn.WaitForStateChange(t.Context(), s)
	}
	if conn.WaitForStateChange(timeout(t, 45*time.Second), connectivity.Ready) {
		t.Errorf("the connection went to %v", conn.GetState())
	}
}

func timeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
