package opensandbox_test

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/opensandbox"
	"github.com/samepod/samepod/identity/sandbox"
)

// The vocabulary of this package's tests: objects as the API has them, changed by
// edits, Pods, and requests. What is made of them together is a play, in play_test.go.

const (
	x, y, v6 = "10.0.0.1", "10.0.0.2", "fd00::1"

	allocStatus   = "sandbox.opensandbox.io/alloc-status"
	allocRelease  = "sandbox.opensandbox.io/alloc-release"
	allocReleased = "sandbox.opensandbox.io/alloc-released"
	endpoints     = "sandbox.opensandbox.io/endpoints"
	token         = "opensandbox.io/secure-access-token"
	restartRecord = "sandbox.opensandbox.io/restart-record"
	poolName      = "sandbox.opensandbox.io/pool-name"
)

// edit changes an object. The last of the keys is set; nil removes it.
type edit func(object map[string]any)

func set(value any, keys ...string) edit {
	return func(object map[string]any) {
		for _, key := range keys[:len(keys)-1] {
			next, ok := object[key].(map[string]any)
			if !ok {
				next = map[string]any{}
				object[key] = next
			}
			object = next
		}
		if last := keys[len(keys)-1]; value == nil {
			delete(object, last)
		} else {
			object[last] = value
		}
	}
}

func meta(key string, value any) edit     { return set(value, "metadata", key) }
func spec(key string, value any) edit     { return set(value, "spec", key) }
func status(key string, value any) edit   { return set(value, "status", key) }
func label(key, value string) edit        { return set(value, "metadata", "labels", key) }
func annotate(key string, value any) edit { return set(value, "metadata", "annotations", key) }

// The usual edits.
func pooled(pool string) edit      { return spec("poolRef", pool) }
func given(pods ...string) edit    { return alloc(allocStatus, pods) }
func released(pods ...string) edit { return alloc(allocReleased, pods) }
func phase(p string) edit          { return status("phase", p) }
func deleting() edit               { return meta("deletionTimestamp", "2026-01-01T00:00:00Z") }
func expires(at string) edit       { return spec("expireTime", at) }
func uid(u string) edit            { return meta("uid", u) }
func publishes(text string) edit   { return annotate(endpoints, text) }
func pinned(p sandbox.Pin) edit    { return annotate(sandbox.PinAnnotation, p.Text(nil)) }
func inNamespace(n string) edit    { return meta("namespace", n) }
func generation(g, observed int) edit {
	return both(meta("generation", int64(g)), status("pauseObservedGeneration", int64(observed)))
}
func image(container, of string) edit { return spec("template", template(container, of)) }
func alloc(key string, p []string) edit {
	text, _ := json.Marshal(map[string]any{"pods": p})
	return annotate(key, string(text))
}

func both(edits ...edit) edit {
	return func(object map[string]any) {
		for _, e := range edits {
			e(object)
		}
	}
}

func template(container, image string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": container, "image": image}}}}
}

// object is the BatchSandbox ns/<name>, uid "S-<name>", running, with the edits.
func object(name string, edits ...edit) map[string]any {
	o := map[string]any{
		"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
		"metadata": map[string]any{
			"namespace": "ns", "name": name, "uid": "S-" + name, "resourceVersion": "7", "generation": int64(1),
			"labels": map[string]any{"opensandbox.io/id": name},
		},
		"spec":   map[string]any{"replicas": int64(1), "template": template("main", "busybox")},
		"status": map[string]any{"phase": "Succeed", "ready": int64(1), "pauseObservedGeneration": int64(1)},
	}
	both(edits...)(o)
	return o
}

// pool is the Pool ns/<name>, which recycles in this way.
func pool(name string, recycle any) sandbox.Pool {
	return opensandbox.DecodePool(map[string]any{
		"metadata": map[string]any{"namespace": "ns", "name": name, "uid": "P-" + name},
		"spec":     map[string]any{"recycleStrategy": map[string]any{"type": recycle}},
	})
}

// A podOption changes a running Pod.
type podOption func(*identity.Pod)

func pod(name string, options ...podOption) identity.Pod {
	p := identity.Pod{
		NamespacedName: identity.NamespacedName{Namespace: "ns", Name: name}, UID: identity.UID("U-" + name),
		Phase: identity.PhaseRunning, Ready: true, Selected: true,
	}
	for _, o := range options {
		o(&p)
	}
	return p
}

// ownPod is the Pod "<id>-0" that the sandbox controls, at x.
func ownPod(id string, options ...podOption) identity.Pod {
	owned := func(p *identity.Pod) {
		p.Owner = identity.Owner{Kind: opensandbox.Kind, Name: id, UID: identity.UID("S-" + id)}
	}
	return pod(id+"-0", slices.Concat([]podOption{owned, on(x)}, options)...)
}

// poolPod is a Pod of the Pool "pool", at x.
func poolPod(name string, options ...podOption) identity.Pod {
	owned := func(p *identity.Pod) {
		p.Owner = identity.Owner{Kind: opensandbox.PoolKind, Name: "pool", UID: "P-pool"}
	}
	return pod(name, slices.Concat([]podOption{owned, on(x), mark(poolName, "pool")}, options)...)
}

func on(ips ...string) podOption {
	return func(p *identity.Pod) {
		p.IPs = nil
		for _, ip := range ips {
			p.IPs = append(p.IPs, netip.MustParseAddr(ip))
		}
	}
}

func mark(key, value string) podOption {
	return func(p *identity.Pod) {
		if p.Marks == nil {
			p.Marks = map[string]string{}
		}
		p.Marks[key] = value
	}
}
func podUID(u string) podOption             { return func(p *identity.Pod) { p.UID = identity.UID(u) } }
func podPhase(f identity.Phase) podOption   { return func(p *identity.Pod) { p.Phase = f } }
func container(id string) podOption         { return func(p *identity.Pod) { p.Container = id } }
func controlled(o identity.Owner) podOption { return func(p *identity.Pod) { p.Owner = o } }
func terminating(p *identity.Pod)           { p.Terminating = true }

// request is what a dialect reads of one.
type request struct {
	host, path string
	headers    map[string]string
	repeated   string // a header that occurs twice
}

func (r request) Host() string { return r.host }
func (r request) Path() string { return r.path }
func (r request) Header(name string) (string, bool, error) {
	if name == r.repeated {
		return "", true, &identity.ClaimError{Fault: identity.ClaimConflict, Detail: "header " + name + " occurs more than once"}
	}
	value, present := r.headers[name]
	return value, present, nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// readJSON reads a file of testdata.
func readJSON[T any](t *testing.T, text []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
