package deploy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/samepod/samepod/lab"
)

// shared is one API server for all tests of the package.
var shared = struct {
	once sync.Once
	dir  string
	lab  *lab.Lab
	kube *lab.Kube
	err  error
}{}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.lab != nil {
		shared.lab.Close()
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// cluster applies objects to a real API server.
type cluster struct {
	*lab.Kube
	t      *testing.T
	client dynamic.Interface
	mapper meta.RESTMapper
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	shared.once.Do(func() {
		//nolint:usetesting // it outlives the test that comes first
		if shared.dir, shared.err = os.MkdirTemp("", "samepod-deploy-"); shared.err != nil {
			return
		}
		shared.lab = lab.New(shared.dir)
		shared.kube, shared.err = shared.lab.StartKube(bg)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	client, err := dynamic.NewForConfig(shared.kube.Config())
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(shared.kube.Client.Discovery()))
	return &cluster{Kube: shared.kube, t: t, client: client, mapper: mapper}
}

// bg is for what outlives a test.
var bg = context.Background()

var names atomic.Int64

// namespace makes one with a name of its own.
func (c *cluster) namespace(prefix string) string {
	c.t.Helper()
	name := fmt.Sprintf("%s-%d", prefix, names.Add(1))
	if err := c.CreateNamespace(c.t.Context(), name); err != nil {
		c.t.Fatal(err)
	}
	return name
}

// apply is a server-side apply in which an unknown field is an error. A dry run
// passes everything but the writing: defaults, validation, admission.
func (c *cluster) apply(o *unstructured.Unstructured, dryRun bool) error {
	mapping, err := c.mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: "test", FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	var resource dynamic.ResourceInterface = c.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = c.client.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	_, err = resource.Patch(c.t.Context(), o.GetName(), "application/apply-patch+yaml", text, options)
	return err
}

// installCRDs makes the kinds of others known, in their own schemas.
func (c *cluster) installCRDs() {
	c.t.Helper()
	files, err := filepath.Glob("testdata/crds/*.yaml")
	if err != nil || len(files) == 0 {
		c.t.Fatal("no CRDs", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			c.t.Fatal(err)
		}
		var crd unstructured.Unstructured
		if err := yaml.Unmarshal(text, &crd.Object); err != nil {
			c.t.Fatal(err)
		}
		if err := c.apply(&crd, false); err != nil {
			c.t.Fatalf("%s: %v", file, err)
		}
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		eventually(c.t, kind+" is served", func() bool {
			c.mapper.(meta.ResettableRESTMapper).Reset()
			_, err := c.mapper.RESTMapping(schema.GroupKind{Group: group, Kind: kind})
			return err == nil
		})
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within 30 s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
