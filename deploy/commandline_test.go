package deploy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/samepod/samepod/lab"
)

// onNode runs a test in a process of its own in a network namespace, which is the
// node: this binary again, with this test alone.
func onNode(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if lab.OnNode() {
		f(t)
		return
	}
	out, err := lab.RunOnNode(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "5m")
	switch {
	case errors.Is(err, lab.ErrNoNamespace) && os.Getenv("SAMEPOD_LAB_NETNS") != "required":
		t.Skip(err)
	case err != nil:
		t.Fatalf("on the node: %v\n%s", err, out)
	}
}

// TestCommandLine runs the container's command line as a process, as the chart's
// ServiceAccount, with the chart's configuration, and probes it from another network
// namespace, where the kubelet, Prometheus and Envoy are.
func TestCommandLine(t *testing.T) { onNode(t, testCommandLine) }

func testCommandLine(t *testing.T) {
	l := newLab(t)
	node := netip.MustParsePrefix("10.244.0.1/24")
	bridge, err := l.StartBridge(node)
	if err != nil {
		t.Fatal(err)
	}
	outside, err := bridge.Plug(netip.MustParsePrefix("10.244.0.9/24"))
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DialContext: outside.DialContext, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	for _, tc := range []struct{ name, values string }{
		{"ClusterRole", ""},
		{"Roles", "watchNamespaces: [NS]\nrequireReady: true\nlogLevel: debug"},
		{"engine", engineEverything},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := install(t, tc.values)
			check, health := freePort(t), freePort(t)
			values := []string{least, "config: {scope: {namespaces: [NS]}, history: {addresses: 10, ttl: 1h}}", fmt.Sprintf("ports: {check: %d, health: %d}", check, health), tc.values}
			for k := range values {
				values[k] = strings.ReplaceAll(values[k], "NS", i.sandboxes)
			}
			objects := mustRender(t, i.namespace, values...)
			container := find[appsv1.StatefulSet](t, objects, "StatefulSet").Spec.Template.Spec.Containers[0]
			name, _, err := unstructured.NestedStringSlice(find[unstructured.Unstructured](t, objects, "Certificate").Object, "spec", "dnsNames")
			if err != nil {
				t.Fatal(err)
			}
			secret := newMounted(t, i.lab.Dir, name[0])
			p := i.start(container, find[corev1.ConfigMap](t, objects, "ConfigMap"), secret)

			base := fmt.Sprintf("http://%v:%d", node.Addr(), health)
			if port := containerPort(t, container, container.ReadinessProbe.HTTPGet.Port.StrVal); int(port) != health {
				t.Errorf("the probe's port is %d", port)
			}
			for _, path := range []string{container.LivenessProbe.HTTPGet.Path, container.ReadinessProbe.HTTPGet.Path, "/metrics"} {
				eventually(t, path+" answers 200", func() bool {
					if !p.Alive() {
						t.Fatalf("it ended: %s", read(p.Err))
					}
					resp, err := client.Get(base + path)
					if err != nil {
						return false
					}
					defer resp.Body.Close()
					_, err = io.Copy(io.Discard, resp.Body)
					return err == nil && resp.StatusCode == http.StatusOK
				})
			}
			at := fmt.Sprintf("%v:%d", node.Addr(), containerPort(t, container, "check"))
			if err := secret.ask(t, outside, at, "envoy.gateway.svc"); err != nil {
				t.Errorf("an Envoy: %v", err)
			}
			if err := secret.ask(t, outside, at, "somebody.else.svc"); err == nil {
				t.Error("another client of the CA gets an answer")
			}
			if err := p.Stop(10 * time.Second); err != nil {
				t.Errorf("SIGTERM: %v", err)
			}
		})
	}
}

// start runs a container of the chart as a process. What a Pod brings is put in
// its place: the mounted configuration and Secret, and the token of the
// ServiceAccount. It listens everywhere, as in its Pod, which is the node here.
func (i *installation) start(container corev1.Container, config *corev1.ConfigMap, secret *mounted) *lab.Process {
	i.t.Helper()
	file := filepath.Join(i.lab.Dir, "mounted.yaml")
	text := config.Data["samepod.yaml"]
	if len(container.VolumeMounts) > 2 {
		text = strings.ReplaceAll(text, container.VolumeMounts[2].MountPath, i.engineSecrets())
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		i.t.Fatal(err)
	}
	kubeconfig, err := i.ServiceAccountKubeconfig(i.t.Context(), i.namespace, "samepod")
	if err != nil {
		i.t.Fatal(err)
	}
	args := slices.Clone(container.Args)
	for k, arg := range args {
		arg = strings.ReplaceAll(arg, container.VolumeMounts[0].MountPath, file)
		args[k] = strings.ReplaceAll(arg, container.VolumeMounts[1].MountPath, secret.dir)
		if len(container.VolumeMounts) > 2 {
			args[k] = strings.ReplaceAll(args[k], container.VolumeMounts[2].MountPath, i.engineSecrets())
		}
	}
	binary, err := lab.SamepodBinary(i.t.Context(), true)
	if err != nil {
		i.t.Fatal(err)
	}
	p, err := i.lab.Start("container", binary, append(args, "--kubeconfig="+kubeconfig, "--admin-listen=")...)
	if err != nil {
		i.t.Fatal(err)
	}
	return p
}

// engineSecrets are the Secrets of an engine, as the kubelet mounts them.
func (i *installation) engineSecrets() (dir string) {
	i.t.Helper()
	dir = filepath.Join(i.lab.Dir, "secrets")
	if err := lab.WriteSecret(dir, map[string][]byte{
		"pin-key": []byte("0123456789abcdef"), "redis-password": []byte("secret"),
		"secure-access-keys": []byte("a=" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))),
	}); err != nil {
		i.t.Fatal(err)
	}
	return dir
}

func containerPort(t *testing.T, c corev1.Container, name string) int32 {
	t.Helper()
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	t.Fatalf("no port %s", name)
	return 0
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func read(path string) string {
	text, _ := os.ReadFile(path) // for a message
	return string(text)
}

// mounted is the Secret of the TLS listener, as the kubelet mounts it.
type mounted struct {
	dir            string
	serving, envoy *lab.CA
	name           string // in the certificate
}

func newMounted(t *testing.T, dir, name string) *mounted {
	t.Helper()
	m := &mounted{dir: filepath.Join(dir, "tls"), name: name}
	var err error
	if m.serving, err = lab.NewCA("serving"); err != nil {
		t.Fatal(err)
	}
	if m.envoy, err = lab.NewCA("envoys"); err != nil {
		t.Fatal(err)
	}
	cert, key, err := m.serving.Issue(lab.Leaf{Names: []string{name}})
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.WriteSecret(m.dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": m.envoy.PEM}); err != nil {
		t.Fatal(err)
	}
	return m
}

// ask asks for the health that Envoy asks for, as a client of this name somewhere
// else.
func (m *mounted) ask(t *testing.T, from *lab.PodNetwork, address, client string) error {
	t.Helper()
	text, key, err := m.envoy.Issue(lab.Leaf{Names: []string{client}})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(text, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(m.serving.PEM)
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		return from.DialContext(ctx, "tcp", address)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithContextDialer(dial), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: m.name, Certificates: []tls.Certificate{cert}})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	resp, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: "envoy.service.auth.v3.Authorization"})
	if err == nil && resp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v", resp.GetStatus())
	}
	return err
}
