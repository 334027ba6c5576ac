package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Resource is a kind of objects that a CRD adds to the API server.
type Resource struct {
	Group  string // such as sandbox.opensandbox.io
	Kind   string // such as BatchSandbox
	Plural string // such as batchsandboxes: how URLs call it
	// Versions are those that can be decoded, the best first. The first that the API
	// server serves is used.
	Versions []string
	// Unread are fields that are large and not decoded, each as a path, such as
	// spec, template. Lists are not held with them.
	Unread [][]string
}

// Owner is what the kind is called as a controller of Pods, as in [identity.Owner].
func (r Resource) Owner() string { return r.Kind + "." + r.Group }

// String is the name of its CRD.
func (r Resource) String() string { return r.Plural + "." + r.Group }

// Is reports whether an object, as JSON has it, is one of r in a version that can be
// decoded.
func (r Resource) Is(object map[string]any) bool {
	apiVersion, _ := object["apiVersion"].(string)
	group, version, _ := strings.Cut(apiVersion, "/")
	return object["kind"] == r.Kind && group == r.Group && slices.Contains(r.Versions, version)
}

// Watch adds watches of r to s, one for each namespace that s watches: each with
// connections and a feed of its own, and held to all that those of Pods are held to.
// newFeed makes the feed, as [identity.Index.NewFeed] does. decode must not keep what it
// gets, and never fails: an object that it does not understand is one that means nothing.
// Watch must be called before [Source.Run].
//
// A kind that the API server does not have is no reason to wait for it: the feed is
// synced and empty, says so as its fault, and stays fresh as long as the API server says
// so again. A CRD that is installed later is found within 10 s.
func Watch[T any, F Feed[T]](s *Source, r Resource, decode func(object map[string]any) T, newFeed func(name, proof string, bound time.Duration) F) error {
	decodeObject := func(o metav1.Object) T { return decode(o.(*unstructured.Unstructured).Object) }
	return s.add(r.Plural, r.in, func(name string) sink {
		return decoded[T]{newFeed(name, proof, s.bound), decodeObject}
	})
}

// errMissing says that the API server has no such kind.
var errMissing = errors.New("its CRD is not installed")

// in are the objects of one namespace, or of all.
func (r Resource) in(config *rest.Config, namespace string) (kind, error) {
	client, err := newEngineClient(config)
	if err != nil {
		return kind{}, err
	}
	version := "" // of the last list: a watch goes on in it
	k := kind{name: r.Kind, is: r.is, trim: r.trim}
	k.list = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		var list *unstructured.UnstructuredList
		err := client.try(ctx, r, func(v string) (err error) {
			list, err = client.objects(r, v, namespace).List(ctx, options)
			version = v
			return err
		})
		if err != nil {
			return nil, err
		}
		return list, r.checkList(list)
	}
	k.watch = func(ctx context.Context, options metav1.ListOptions) (w apiwatch.Interface, err error) {
		if options.SendInitialEvents == nil && version != "" {
			return client.objects(r, version, namespace).Watch(ctx, options)
		}
		for _, version = range r.Versions {
			w, err = client.objects(r, version, namespace).Watch(ctx, options)
			if !unserved(err) {
				break
			}
		}
		return w, err
	}
	return k, nil
}

// checkList takes lists of this kind only: whatever decodes has a version and no items.
func (r Resource) checkList(list *unstructured.UnstructuredList) error {
	if gvk := list.GroupVersionKind(); gvk.Group != r.Group || gvk.Kind != r.Kind+"List" {
		return fmt.Errorf("%s is no list of %s", gvk, r)
	}
	for i := range list.Items {
		if _, err := r.trim(&list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r Resource) is(object any) bool {
	u, ok := object.(*unstructured.Unstructured)
	return ok && u != nil && u.GroupVersionKind().GroupKind() == schema.GroupKind{Group: r.Group, Kind: r.Kind}
}

// trim drops what is large and not read.
func (r Resource) trim(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok && u.Object != nil {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		for _, path := range r.Unread {
			unstructured.RemoveNestedField(u.Object, path...)
		}
	}
	return obj, nil
}

// engineClient asks for the objects of engines, as JSON.
type engineClient struct {
	rest    rest.Interface
	dynamic *dynamic.DynamicClient
}

func newEngineClient(config *rest.Config) (engineClient, error) {
	config = dynamic.ConfigFor(config)
	config.APIPath = "/apis"
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return engineClient{}, err
	}
	return engineClient{client, dynamic.New(client)}, nil
}

func (c engineClient) objects(r Resource, version, namespace string) dynamic.ResourceInterface {
	return c.dynamic.Resource(schema.GroupVersionResource{Group: r.Group, Version: version, Resource: r.Plural}).Namespace(namespace)
}

// try asks with one version after another, until one is served. The error is
// [errMissing] if the API server itself says that it has no such kind.
func (c engineClient) try(ctx context.Context, r Resource, ask func(version string) error) error {
	var err error
	for _, version := range r.Versions {
		if err = ask(version); !unserved(err) {
			return err
		}
	}
	// A 404 may also be the word of a proxy on the way. The API server's directory tells.
	served, failed := c.served(ctx, r)
	switch {
	case failed != nil:
		return fmt.Errorf("%w; and which kinds there are: %w", err, failed)
	case len(served) == 0:
		return fmt.Errorf("the API server has no %s (%w)", r, errMissing)
	}
	return fmt.Errorf("%s %s: %w, while the API server says that it serves %s", r, strings.Join(r.Versions, ", "), err, strings.Join(served, ", "))
}

// served asks in which versions the API server has r.
func (c engineClient) served(ctx context.Context, r Resource) ([]string, error) {
	var groups metav1.APIGroupList
	if err := c.rest.Get().AbsPath("/apis").Do(ctx).Into(&groups); err != nil {
		return nil, err
	}
	if len(groups.Groups) == 0 {
		return nil, errors.New("/apis: no API server answers so")
	}
	var served []string
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			if group.Name != r.Group {
				continue
			}
			var resources metav1.APIResourceList
			if err := c.rest.Get().AbsPath("/apis", group.Name, version.Version).Do(ctx).Into(&resources); err != nil {
				return nil, err
			}
			if slices.ContainsFunc(resources.APIResources, func(a metav1.APIResource) bool { return a.Name == r.Plural }) {
				served = append(served, version.Version)
			}
		}
	}
	return served, nil
}

// unserved reports a 404 that is not the word that an object does not exist.
func unserved(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == "" || apierrors.IsUnexpectedServerError(err)
}
