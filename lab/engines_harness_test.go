package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/samepod/samepod/lab"
)

const (
	sandboxA = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa"
	sandboxB = "bbbbbbbb-2222-4222-8222-bbbbbbbbbbbb"
)

// engineNamespace is a namespace of the shared API server that serves these kinds.
func engineNamespace(t *testing.T, kinds ...string) (*lab.Kube, string) {
	t.Helper()
	kube := sharedKube(t)
	succeed(t, kube.InstallCRDs(t.Context(), kinds...))
	namespace := fmt.Sprintf("engines-%d", namespaces.Add(1))
	succeed(t, kube.CreateNamespace(t.Context(), namespace))
	return kube, namespace
}

// succeed is for steps of an engine that must not fail.
func succeed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newOpenSandbox is OpenSandbox in a namespace of its own, and addresses for its Pods.
func newOpenSandbox(t *testing.T) (*lab.Lab, *lab.OpenSandbox, *lab.Addresses) {
	t.Helper()
	kube, namespace := engineNamespace(t, lab.CRDBatchSandboxes, lab.CRDPools)
	l := newLab(t)
	return l, must(l.NewOpenSandbox(kube, namespace))(t), must(lab.NewAddresses(lab.ExecdPort))(t)
}

// newAgentSandbox is agent-sandbox in a namespace of its own.
func newAgentSandbox(t *testing.T) (*lab.Lab, *lab.AgentSandbox, *lab.Addresses) {
	t.Helper()
	kube, namespace := engineNamespace(t, lab.CRDSandboxes, lab.CRDSandboxClaims)
	l := newLab(t)
	return l, must(l.NewAgentSandbox(kube, namespace, "v1beta1"))(t), must(lab.NewAddresses(lab.AgentSandboxPort))(t)
}

// ran is who executed a command, by what it prints.
func ran(text string) string {
	_, pod, _ := strings.Cut(text, "executed in ")
	return strings.TrimRight(strings.SplitN(pod, `"`, 2)[0], "\n")
}

// ingress is a stand-in for OpenSandbox's in header mode.
func ingress(t *testing.T, o *lab.OpenSandbox) (address string) {
	t.Helper()
	url := dialer(t, func(r *http.Request) (string, error) {
		id, _ := strings.CutSuffix(r.Header.Get("OpenSandbox-Ingress-To"), fmt.Sprintf("-%d", lab.ExecdPort))
		return endpoint0(r.Context(), o, id)
	})
	return strings.TrimPrefix(url, "http://")
}

// endpoint0 is the ingress's resolution.
func endpoint0(ctx context.Context, o *lab.OpenSandbox, id string) (string, error) {
	bs, err := o.Sandbox(ctx, id)
	if err != nil {
		return "", err
	}
	if ready, _, _ := unstructured.NestedInt64(bs.Object, "status", "ready"); ready < 1 {
		return "", fmt.Errorf("%s is not ready", id)
	}
	var endpoints []string
	if err := json.Unmarshal([]byte(bs.GetAnnotations()["sandbox.opensandbox.io/endpoints"]), &endpoints); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s:%d", endpoints[0], lab.ExecdPort), nil
}

// dialer is a stand-in for a router: it forwards where resolve says, without a look at
// the Pod, and answers 503 where that fails.
func dialer(t *testing.T, resolve func(*http.Request) (string, error)) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // else the answer to an early reader races with the rest of it
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		host, err := resolve(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		proxy := httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.Out.URL.Scheme, p.Out.URL.Host = "http", host }}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
