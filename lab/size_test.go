package lab_test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samepod/samepod/lab"
)

// BenchmarkSize measures what a samepod costs that watches this many Pods of a real
// API server, each of 4 KB: memory at rest, at its peak (the first list), and the
// CPU time of one check through gRPC. docs/operations.md has the figures.
//
//	go test -run '^$' -bench Size -benchtime 1x -timeout 2h ./lab
func BenchmarkSize(b *testing.B) {
	for _, pods := range []int{1_000, 20_000, 100_000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			for range b.N {
				size(b, pods)
			}
		})
	}
}

func size(b *testing.B, pods int) {
	l := lab.New(b.TempDir())
	defer l.Close()
	ok := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	kube, err := l.StartKube(bg)
	ok(err)
	ok(kube.CreateNamespace(bg, "sandboxes"))
	uids := make([]string, pods)
	ok(fill(kube, uids))
	config := filepath.Join(l.Dir, "samepod.yaml")
	ok(os.WriteFile(config, []byte("scope: {namespaces: [sandboxes]}\nports: [44772]\n"), 0o600))
	kubeconfig, err := kube.Kubeconfig(lab.UserSamepod, kube.URL)
	ok(err)
	binary, err := lab.SamepodBinary(bg, false)
	ok(err)
	started := time.Now()
	s, err := l.StartSamepod(bg, "samepod", binary, "--config", config, "--source", "kube", "--kubeconfig", kubeconfig)
	ok(err)
	ok(s.WaitReady(bg, true, 5*time.Minute))
	b.ReportMetric(time.Since(started).Seconds(), "s/first-list")
	time.Sleep(3 * time.Second) // what the list left behind is collected when something else is allocated, or after this
	n, err := s.Metric("samepod_index_addresses")
	ok(err)
	if int(n) != pods {
		b.Fatalf("%v addresses are known, want %d", n, pods)
	}
	const checks = 50_000
	before, err := s.Metric("process_cpu_seconds_total")
	ok(err)
	ok(check(s, uids, checks))
	after, err := s.Metric("process_cpu_seconds_total")
	ok(err)
	heap, err := s.Metric("go_memstats_heap_inuse_bytes")
	ok(err)
	b.ReportMetric((after-before)/checks*1e6, "cpu-µs/check")
	b.ReportMetric(heap/(1<<20), "MiB-heap")
	b.ReportMetric(memory(b, s.Pid(), "VmRSS"), "MiB-RSS")
	b.ReportMetric(memory(b, s.Pid(), "VmHWM"), "MiB-peak")
}

// fill creates Pods as large as those of a platform are, running and with an
// address, and writes down their uids.
func fill(kube *lab.Kube, uids []string) error {
	group, ctx := errgroup.WithContext(bg)
	group.SetLimit(32)
	for i := range uids {
		group.Go(func() error {
			name := fmt.Sprintf("sandbox-%06d", i)
			p, err := kube.Client.CoreV1().Pods("sandboxes").Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "sandbox"}, Annotations: map[string]string{"padding": strings.Repeat("x", 3000)}},
				Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%500), Containers: []corev1.Container{{Name: "sandbox", Image: "sandbox"}}},
			}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			uids[i] = string(p.UID)
			return kube.SetStatus(ctx, "sandboxes", name, corev1.PodRunning, podAddr(i))
		})
	}
	return group.Wait()
}

func podAddr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// check asks n times, as 64 streams of an Envoy would. Every answer must be an
// allow.
func check(s *lab.Samepod, uids []string, n int) error {
	conn, err := grpc.NewClient(s.Authz.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := authv3.NewAuthorizationClient(conn)
	group, ctx := errgroup.WithContext(context.Background())
	for w := range 64 {
		group.Go(func() error {
			for i := w; i < n; i += 64 {
				pod := i % len(uids)
				resp, err := client.Check(ctx, checkRequest(
					"x-samepod-target", fmt.Sprintf("sandboxes/sandbox-%06d", pod), "x-samepod-expect-pod-uid", uids[pod],
					"x-samepod-recorded", netip.AddrPortFrom(podAddr(pod), lab.ExecdPort).String()))
				if err != nil {
					return err
				}
				if resp.GetOkResponse() == nil {
					return fmt.Errorf("Pod %d: %v", pod, resp)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// checkRequest is what Envoy sends of these header pairs.
func checkRequest(header ...string) *authv3.CheckRequest {
	var all corev3.HeaderMap
	for i := 0; i < len(header); i += 2 {
		all.Headers = append(all.Headers, &corev3.HeaderValue{Key: header[i], RawValue: []byte(header[i+1])})
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "POST", Path: "/", HeaderMap: &all}}}}
}

// memory is a line of /proc/<pid>/status, in MiB.
func memory(b *testing.B, pid int, name string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			var kib float64
			if _, err := fmt.Sscan(string(rest), &kib); err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	b.Fatalf("no %s in\n%s", name, text)
	return 0
}
