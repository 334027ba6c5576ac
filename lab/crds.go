package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// The engines' kinds, as files of testdata/crds. Their schemas are the lab's own:
// the fields that are used, and the real ones' status subresources and defaults.
const (
	CRDBatchSandboxes    = "batchsandboxes"
	CRDPools             = "pools"
	CRDSandboxes         = "sandboxes"          // served as v1beta1 and v1alpha1
	CRDSandboxesV1Alpha1 = "sandboxes-v1alpha1" // the same kind, served as v1alpha1 alone
	CRDSandboxClaims     = "sandboxclaims"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Dynamic returns a client for every kind that may do everything.
func (k *Kube) Dynamic() (dynamic.Interface, error) { return dynamic.NewForConfig(k.Config()) }

// InstallCRDs installs kinds by their names and waits until the API server serves
// every version of them. What is installed already stays as it is.
func (k *Kube) InstallCRDs(ctx context.Context, names ...string) error {
	for _, name := range names {
		crd, err := readCRD(name)
		if err != nil {
			return err
		}
		if err := k.installCRD(ctx, crd); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// RemoveCRDs removes kinds, and every object of them, and waits until the API server
// no longer serves them.
func (k *Kube) RemoveCRDs(ctx context.Context, names ...string) error {
	client, err := k.Dynamic()
	if err != nil {
		return err
	}
	for _, name := range names {
		crd, err := readCRD(name)
		if err != nil {
			return err
		}
		err = client.Resource(crdResource).Delete(ctx, crd.GetName(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		for _, path := range servedPaths(crd) {
			if err := wait(ctx, k.API, path+" is gone", 30*time.Second, func() bool { return apierrors.IsNotFound(k.list(ctx, path)) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *Kube) installCRD(ctx context.Context, crd *unstructured.Unstructured) error {
	client, err := k.Dynamic()
	if err != nil {
		return err
	}
	_, err = client.Resource(crdResource).Create(ctx, crd, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	err = wait(ctx, k.API, "Established", 30*time.Second, func() bool {
		now, err := client.Resource(crdResource).Get(ctx, crd.GetName(), metav1.GetOptions{})
		return err == nil && conditionTrue(now, "Established")
	})
	if err != nil {
		return err
	}
	for _, path := range servedPaths(crd) { // Established comes a moment before the handler
		if err := wait(ctx, k.API, path+" is served", 30*time.Second, func() bool { return k.list(ctx, path) == nil }); err != nil {
			return err
		}
	}
	return nil
}

// list asks for one object of a kind, and tells nothing but the error.
func (k *Kube) list(ctx context.Context, path string) error {
	return k.Client.Discovery().RESTClient().Get().AbsPath(path).Param("limit", "1").Do(ctx).Error()
}

func readCRD(name string) (*unstructured.Unstructured, error) {
	top, err := root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(top, "lab", "testdata", "crds", name+".yaml"))
	if err != nil {
		return nil, err
	}
	crd := &unstructured.Unstructured{}
	return crd, yaml.Unmarshal(text, &crd.Object)
}

// servedPaths are the URL paths of a kind's lists.
func servedPaths(crd *unstructured.Unstructured) []string {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var paths []string
	for _, v := range versions {
		if version := v.(map[string]any); version["served"] == true {
			paths = append(paths, fmt.Sprintf("/apis/%s/%s/%s", group, version["name"], plural))
		}
	}
	return paths
}

func conditionTrue(object *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if condition := c.(map[string]any); condition["type"] == kind {
			return condition["status"] == "True"
		}
	}
	return false
}
