package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/identity"
)

const onePod = "kind: Pod\nmetadata: {namespace: ns, name: a, uid: A}\nstatus: {phase: Running, podIPs: [{ip: 10.0.0.1}]}\n"

// instance is samepod serve in this process.
type instance struct {
	t      *testing.T
	dir    string
	cancel context.CancelFunc
	done   chan int
	log    lockedBuffer
	start  struct {
		Listen        []string
		Health, Admin string
		Addresses     string
		Notes         []string
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func startServe(t *testing.T, config string, args ...string) *instance {
	t.Helper()
	i := &instance{t: t, dir: t.TempDir(), done: make(chan int, 1)}
	i.write("samepod.yaml", config)
	i.write("pods.yaml", onePod)
	ctx, cancel := context.WithCancel(context.Background())
	i.cancel = cancel
	args = append([]string{"serve", "--config", i.path("samepod.yaml"), "--pods-file", i.path("pods.yaml"), "--pods-file-poll", "20ms", "--pods-file-grace", "300ms",
		"--listen", "127.0.0.1:0", "--health-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain-delay", "200ms"}, args...)
	go func() { i.done <- run(ctx, args, io.Discard, &i.log) }()
	t.Cleanup(func() { cancel(); i.wait() })
	i.eventually("it serves", func() bool { return strings.Contains(i.log.String(), `"msg":"serving"`) })
	for line := range strings.Lines(i.log.String()) {
		if strings.Contains(line, `"msg":"starting"`) {
			if err := json.Unmarshal([]byte(line), &i.start); err != nil {
				t.Fatal(err)
			}
		}
	}
	return i
}

func (i *instance) path(name string) string { return filepath.Join(i.dir, name) }

func (i *instance) write(name, text string) {
	i.t.Helper()
	if err := os.WriteFile(i.path(name), []byte(text), 0o600); err != nil {
		i.t.Fatal(err)
	}
}

func (i *instance) eventually(what string, ok func() bool) {
	i.t.Helper()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case code := <-i.done:
			i.t.Fatalf("%s: exit code %d\n%s", what, code, &i.log)
		case <-deadline:
			i.t.Fatalf("%s: not within 10 s\n%s", what, &i.log)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// wait returns the exit code.
func (i *instance) wait() int {
	select {
	case code := <-i.done:
		i.done <- code // for the next one who asks
		return code
	case <-time.After(20 * time.Second):
		i.t.Fatal("it does not end")
		return -1
	}
}

func (i *instance) get(address, path string) (int, string) {
	i.t.Helper()
	resp, err := http.Get("http://" + address + path)
	if err != nil {
		i.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (i *instance) dial(address string) *grpc.ClientConn {
	i.t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { conn.Close() })
	return conn
}

// check asks as Envoy does and returns the status message, which is the reason.
func (i *instance) check(conn *grpc.ClientConn, target, uid, recorded string) string {
	i.t.Helper()
	headers := map[string]string{"x-samepod-target": target, "x-samepod-recorded": recorded}
	if uid != "" {
		headers["x-samepod-expect-pod-uid"] = uid
	}
	resp, err := authv3.NewAuthorizationClient(conn).Check(i.t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{
		Http: &authv3.AttributeContext_HttpRequest{Headers: headers},
	}}})
	if err != nil {
		i.t.Fatal(err)
	}
	if resp.GetStatus().GetCode() == 0 {
		return "same-pod"
	}
	return resp.GetStatus().GetMessage()
}

func TestServe(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "authz.sock")
	i := startServe(t, minimal, "--listen", "unix://"+socket, "--pprof", "--reflection")
	if len(i.start.Listen) != 2 || i.start.Listen[1] != socket || !strings.Contains(i.start.Addresses, "except node addresses") {
		t.Errorf("the first record says %+v", i.start)
	}
	for _, address := range []string{i.start.Listen[0], "unix://" + socket} {
		conn := i.dial(address)
		if got := i.check(conn, "ns/a", "A", "10.0.0.1:80"); got != "same-pod" {
			t.Errorf("%s: %s", address, got)
		}
		if got := i.check(conn, "ns/a", "B", "10.0.0.1:80"); got != "pod-replaced" {
			t.Errorf("%s: %s", address, got)
		}
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket: %v, %v", info, err)
	}

	for _, tc := range []struct {
		address, path string
		status        int
		want          string
	}{
		{i.start.Health, "/healthz", 200, "ok\n"},
		{i.start.Health, "/readyz", 200, "ready\n[+] pods file: fresh, "},
		{i.start.Health, "/metrics", 200, `samepod_decisions_total{reason="pod-replaced"} 2`},
		{i.start.Health, "/metrics", 200, `samepod_feed_synced{feed="pods file"} 1`},
		{i.start.Health, "/metrics", 200, "samepod_index_pods 1"},
		{i.start.Health, "/debug/pprof/", 404, ""},
		{i.start.Health, "/history?address=10.0.0.1", 404, ""},
		{i.start.Admin, "/debug/pprof/", 200, "goroutine"},
		{i.start.Admin, "/history?address=10.0.0.1", 200, `[{"pod":"ns/a","uid":"A","from":"`},
		{i.start.Admin, "/history?address=10.0.0.9", 200, "[]"},
		{i.start.Admin, "/history?address=pod", 400, `address: "pod": not an IP address; allowed: /history?address=<ip>`},
		{i.start.Admin, "/shared", 200, "{}"},
		{i.start.Health, "/metrics", 200, "samepod_serving 1"},
		{i.start.Health, "/metrics", 200, `samepod_feed_info{feed="pods file",proof="the file itself"} 1`},
		{i.start.Admin, "/metrics", 404, ""},
	} {
		if status, body := i.get(tc.address, tc.path); status != tc.status || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %d %q, want %d %q", tc.path, status, body, tc.status, tc.want)
		}
	}
	if got := i.check(i.dial(i.start.Listen[0]), "other/a", "A", "10.0.0.1:80"); got != "target-not-allowed" {
		t.Errorf("out of scope: %s", got)
	}
}

// TestServeReadiness: a broken file serves for its grace, then every check is 503,
// readiness and metrics say why, health stays SERVING, and a good file heals it.
func TestServeReadiness(t *testing.T) {
	i := startServe(t, "claim: {uid: {optional: true}}\n"+minimal)
	conn := i.dial(i.start.Listen[0])
	if got := i.check(conn, "ns/a", "", "10.0.0.1:80"); got != "same-pod" {
		t.Errorf("without a uid, which is optional: %s", got)
	}
	if _, body := i.get(i.start.Health, "/readyz"); !strings.Contains(body, "[!] claim.uid is optional") || len(i.start.Notes) != 1 {
		t.Errorf("readiness does not say that the uid is optional: %s, %v", body, i.start.Notes)
	}

	i.write("pods.yaml", "kind: [")
	i.eventually("the fault is told", func() bool {
		_, body := i.get(i.start.Health, "/readyz")
		return strings.Contains(body, "; fault: "+i.path("pods.yaml")+": line 1: ")
	})
	i.eventually("it gets stale", func() bool { return i.check(conn, "ns/a", "A", "10.0.0.1:80") == "view-stale" })
	status, body := i.get(i.start.Health, "/readyz")
	if status != 503 || !strings.HasPrefix(body, "not ready: pods file: stale\n[-] pods file: stale, ") {
		t.Errorf("readiness: %d %s", status, body)
	}
	if _, body := i.get(i.start.Health, "/metrics"); !strings.Contains(body, `samepod_feed_stale{feed="pods file"} 1`) || !strings.Contains(body, `samepod_feed_fault{feed="pods file"} 1`) {
		t.Error("the metrics do not tell")
	}
	h, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || h.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health while stale: %v, %v", h, err)
	}
	i.write("pods.yaml", onePod)
	i.eventually("it heals", func() bool { return i.check(conn, "ns/a", "A", "10.0.0.1:80") == "same-pod" })
}

// TestUnhealthyWhenStale: with the flag Envoy is sent to another replica while the
// view is stale, and back when it is fresh. TestServeReadiness is the control.
func TestUnhealthyWhenStale(t *testing.T) {
	i := startServe(t, minimal, "--unhealthy-when-stale")
	client := healthv1.NewHealthClient(i.dial(i.start.Listen[0]))
	told := func(want healthv1.HealthCheckResponse_ServingStatus) func() bool {
		return func() bool {
			h, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "envoy.service.auth.v3.Authorization"})
			return err == nil && h.GetStatus() == want
		}
	}
	i.eventually("it serves", told(healthv1.HealthCheckResponse_SERVING))
	i.write("pods.yaml", "kind: [")
	i.eventually("it is unhealthy", told(healthv1.HealthCheckResponse_NOT_SERVING))
	if _, body := i.get(i.start.Health, "/metrics"); !strings.Contains(body, "samepod_serving 0") {
		t.Error("the metric says that it serves")
	}
	i.write("pods.yaml", onePod)
	i.eventually("it is healthy again", told(healthv1.HealthCheckResponse_SERVING))
}

// TestServeDrain: on SIGTERM health drops first, checks are answered meanwhile, and
// the exit code is 0.
func TestServeDrain(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "authz.sock")
	i := startServe(t, minimal, "--listen", "unix://"+socket, "--drain-delay", "500ms")
	conn := i.dial(i.start.Listen[0])
	client := healthv1.NewHealthClient(conn)
	health := func() healthv1.HealthCheckResponse_ServingStatus {
		resp, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "envoy.service.auth.v3.Authorization"})
		if err != nil {
			return healthv1.HealthCheckResponse_UNKNOWN
		}
		return resp.GetStatus()
	}
	if got := health(); got != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v", got)
	}
	i.cancel()
	i.eventually("health drops", func() bool { return health() == healthv1.HealthCheckResponse_NOT_SERVING })
	if got := i.check(conn, "ns/a", "A", "10.0.0.1:80"); got != "same-pod" {
		t.Errorf("a check while draining: %s", got)
	}
	if status, body := i.get(i.start.Health, "/readyz"); status != 503 || !strings.HasPrefix(body, "not ready: draining\n") {
		t.Errorf("readiness while draining: %d %s", status, body)
	}
	if code := i.wait(); code != 0 {
		t.Errorf("exit code %d\n%s", code, &i.log)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestServeSockets(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "authz.sock")
	left, err := net.Listen("unix", socket) // what a killed predecessor leaves
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()
	i := startServe(t, minimal, "--listen", "unix://"+socket, "--socket-mode", "0600")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	var second lockedBuffer
	code := run(t.Context(), []string{"serve", "--config", i.path("samepod.yaml"), "--pods-file", i.path("pods.yaml"), "--listen", "unix://" + socket}, io.Discard, &second)
	if code != 1 || !strings.Contains(second.String(), socket+": somebody serves there") {
		t.Errorf("a second server on the socket: %d %s", code, &second)
	}
	if got := i.check(i.dial("unix://"+socket), "ns/a", "A", "10.0.0.1:80"); got != "same-pod" {
		t.Errorf("after that: %s", got)
	}
}

// TestServeFails: where a listener cannot be had, nothing stays open.
func TestServeFails(t *testing.T) {
	i := startServe(t, minimal)
	var log lockedBuffer
	code := run(t.Context(), []string{"serve", "--config", i.path("samepod.yaml"), "--pods-file", i.path("pods.yaml"), "--listen", "127.0.0.1:0", "--health-listen", i.start.Health}, io.Discard, &log)
	if code != 1 || !strings.Contains(log.String(), "--health-listen: listen tcp "+i.start.Health+": bind: address already in use") {
		t.Errorf("%d %s", code, &log)
	}
}

// TestMetrics holds every metric to Prometheus' rules, and to the documentation.
func TestMetrics(t *testing.T) {
	index := identity.NewIndex(identity.HistoryConfig{})
	index.NewFeed("pods", "told", time.Minute)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(newCollector(&readiness{index: index}, func() uint64 { return 3 }))
	authz.NewMetrics(reg)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if len(problems) > 0 || err != nil {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	documented := readDoc(t, "docs/configuration.md")
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "samepod_") {
			t.Errorf("a metric of another's name: %s", f.GetName())
		}
		if !strings.Contains(documented, f.GetName()) {
			t.Errorf("%s stands in no table of docs/configuration.md", f.GetName())
		}
	}
}
