package deploy_test

import (
	"os"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestExampleNetworkPolicy: the API server takes the example, and it says the same as
// the chart's policy for the same values.
func TestExampleNetworkPolicy(t *testing.T) {
	text, err := os.ReadFile("../examples/opensandbox/networkpolicy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var example unstructured.Unstructured
	if err := yaml.UnmarshalStrict(text, &example.Object); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t)
	applied := example.DeepCopy()
	applied.SetNamespace(c.namespace("sandboxes"))
	if err := c.apply(applied, true); err != nil {
		t.Error(err)
	}
	got := find[networkingv1.NetworkPolicy](t, []*unstructured.Unstructured{&example}, "NetworkPolicy")
	for _, p := range findAll[networkingv1.NetworkPolicy](t, mustRender(t, "gateway", least, "networkPolicy: {sandboxes: {namespaces: [sandboxes]}}"), "NetworkPolicy") {
		if p.Namespace != got.Namespace {
			continue
		}
		mine, charts := mustYAML(t, got.Spec), mustYAML(t, p.Spec)
		if mine != charts {
			t.Errorf("the example is\n%s, the chart's\n%s", mine, charts)
		}
		return
	}
	t.Error("the chart has no policy for " + got.Namespace)
}

func mustYAML(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
