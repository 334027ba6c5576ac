package deploy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/samepod/samepod/lab"
)

// TestPinsPolicy: with the chart's Role alone samepod's account can change what a sandbox
// runs, which is the control. With the example's policy it can write the pin and nothing
// else, and everybody else can do as before.
func TestPinsPolicy(t *testing.T) {
	c := newCluster(t)
	if err := c.InstallCRDs(t.Context(), lab.CRDBatchSandboxes); err != nil {
		t.Fatal(err)
	}
	namespace := c.namespace("sandboxes")
	for _, o := range mustRender(t, "gateway", least, "config: {dialect: opensandbox, scope: {namespaces: ["+namespace+"]}}") {
		if kind := o.GetKind(); kind == "Role" || kind == "RoleBinding" {
			if err := c.apply(o, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	sandboxes := schema.GroupVersionResource{Group: "sandbox.opensandbox.io", Version: "v1alpha1", Resource: "batchsandboxes"}
	if _, err := c.client.Resource(sandboxes).Namespace(namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
		"metadata": map[string]any{"name": "a", "annotations": map[string]any{"others": "1"}}, "spec": map[string]any{"replicas": int64(1)},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:gateway:samepod"}
	samepod, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	patch := func(client dynamic.Interface, text string) error {
		_, err := client.Resource(sandboxes).Namespace(namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	eventually(t, "the authorizer knows", func() bool { return patch(samepod, `{"metadata":{"annotations":{"samepod.dev/pin":"0"}}}`) == nil })
	if err := patch(samepod, `{"spec":{"replicas":2}}`); err != nil {
		t.Errorf("without the policy: %v; the policy would be needed for nothing", err)
	}

	text, err := os.ReadFile("../examples/opensandbox/pins-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for documents := kyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var o unstructured.Unstructured
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if err := c.apply(&o, false); err != nil {
			t.Fatal(err)
		}
	}
	replicas := 10 // what changes nothing is allowed
	eventually(t, "the policy is in force", func() bool {
		replicas++
		err := patch(samepod, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
		return err != nil && strings.Contains(err.Error(), "samepod may not change the spec")
	})
	for _, tc := range []struct {
		what, patch string
		allowed     bool
	}{
		{"a pin", `{"metadata":{"annotations":{"samepod.dev/pin":"1"}}}`, true},
		{"another pin", `{"metadata":{"annotations":{"samepod.dev/pin":"2"}}}`, true},
		{"no pin", `{"metadata":{"annotations":{"samepod.dev/pin":null}}}`, true},
		{"another annotation", `{"metadata":{"annotations":{"others":"2"}}}`, false},
		{"a new annotation", `{"metadata":{"annotations":{"new":"1"}}}`, false},
		{"an annotation less", `{"metadata":{"annotations":{"others":null}}}`, false},
		{"a label", `{"metadata":{"labels":{"a":"b"}}}`, false},
		{"a finalizer", `{"metadata":{"finalizers":["a.example/b"]}}`, false},
		{"the spec", `{"spec":{"replicas":3}}`, false},
		{"a pin and the spec", `{"metadata":{"annotations":{"samepod.dev/pin":"1"}},"spec":{"replicas":5}}`, false},
	} {
		if err := patch(samepod, tc.patch); (err == nil) != tc.allowed {
			t.Errorf("samepod writes %s: %v", tc.what, err)
		}
		if err := patch(c.client, tc.patch); err != nil {
			t.Errorf("somebody else writes %s: %v", tc.what, err)
		}
	}
}
