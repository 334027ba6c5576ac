package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestArrows holds the arrows of the architecture. It stands here, in the package
// that imports all the others, because go test would answer from its cache for a
// package that does not depend on the one that changed.
func TestArrows(t *testing.T) {
	const self = "github.com/samepod/samepod"
	for _, arrow := range []struct {
		from, never, why string
	}{
		{"/identity", "!std " + self + "/identity github.com/hashicorp/golang-lru/v2", "what is true now must be readable, testable and fast without anybody's types"},
		{"/identity/sandbox", "!std " + self + "/identity github.com/hashicorp/golang-lru/v2 golang.org/x/time", "what an engine's objects mean is a matter of values"},
		{"/identity/opensandbox", "!std " + self + "/identity github.com/hashicorp/golang-lru/v2 golang.org/x/time", "what an engine's objects say is a matter of values"},
		{"/identity/agentsandbox", "!std " + self + "/identity github.com/hashicorp/golang-lru/v2 golang.org/x/time", "what an engine's objects say is a matter of values"},
		{"/authz", "k8s.io/ sigs.k8s.io/", "a verdict is about values, not about Kubernetes objects"},
		{"/authz", self + "/identity/ " + self + "/envoy " + self + "/lab", "the check does not know where Pods come from or how Envoy is configured"},
		{"/identity/kube", "github.com/envoyproxy/ " + self + "/authz " + self + "/envoy", "a source of Pods knows nothing of Envoy"},
		{"/envoy", self + "/", "what is rendered is a matter of Envoy's and of typed values"},
		{"/mtls", self + "/ k8s.io/ github.com/", "who may connect is a matter of files and of TLS"},
		{"/renewal", self + "/ k8s.io/", "who is in use is a matter of Envoy's access log and of Redis"},
		{"/envoy/hazard", "!std " + self + "/envoy github.com/envoyproxy/ github.com/cncf/xds/ cel.dev/expr go.yaml.in/ google.golang.org/", "a configuration is judged by itself and by the rendering, with Envoy's types"},
		{"/cmd/samepod", self + "/lab", "the service's binary starts nobody's processes"},
		{"/node", "k8s.io/ sigs.k8s.io/ github.com/envoyproxy/ " + self + "/", "a node's disk and logs are judged without a cluster, and without anybody's check"},
		{"/creation", "!std " + self + "/identity github.com/hashicorp/golang-lru/v2 github.com/prometheus/ github.com/beorn7/perks github.com/cespare/xxhash github.com/munnerz/goautoneg google.golang.org/protobuf go.yaml.in/yaml/v2 golang.org/x/sys", "what a Pod's sandbox is judged by must be readable without Kubernetes' types"},
		{"/creation/gate", "!std gonum.org/", "statistics know of numbers alone"},
		{"/identity/podsfile", "k8s.io/ github.com/envoyproxy/ " + self + "/authz", "the source without a cluster must not need one"},
	} {
		out, err := exec.Command("go", "list", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{end}}`, self+arrow.from).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", arrow.from, err)
		}
		allowOnly := strings.HasPrefix(arrow.never, "!std ")
		names := strings.Fields(strings.TrimPrefix(arrow.never, "!std "))
		for dep := range strings.FieldsSeq(string(out)) {
			listed := false
			for _, n := range names {
				listed = listed || strings.HasPrefix(dep, n) && dep != self+arrow.from
			}
			if listed != allowOnly && dep != self+arrow.from {
				t.Errorf("%s reaches %s: %s", arrow.from, dep, arrow.why)
			}
		}
	}
}
