package agentsandbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/agentsandbox"
	"github.com/samepod/samepod/identity/sandbox"
)

// request is what a caller sends: a path, if it begins with "/", and headers as
// name=value, in which ";" stands between two of one name.
type request []string

func (request) Host() string { return "gateway.example.org" }

func (r request) Path() string {
	if len(r) > 0 && strings.HasPrefix(r[0], "/") {
		return r[0]
	}
	return "/"
}

func (r request) Header(name string) (string, bool, error) {
	for _, h := range r {
		if value, ok := strings.CutPrefix(h, name+"="); ok {
			if strings.ContainsAny(value, ",;") {
				return "", true, &identity.ClaimError{Fault: identity.ClaimConflict, Detail: name + " occurs more than once"}
			}
			return value, true, nil
		}
	}
	return "", false, nil
}

// object is a Sandbox default/<name> as the API server writes it, edited.
func object(name, uid string, edits ...func(map[string]any)) map[string]any {
	o := map[string]any{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
		"metadata": map[string]any{
			"namespace": "default", "name": name, "uid": uid, "resourceVersion": "1",
			"labels": map[string]any{}, "annotations": map[string]any{},
			"ownerReferences": []any{map[string]any{"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim", "name": "c", "controller": true}},
		},
		"spec": map[string]any{"operatingMode": "Running", "podTemplate": map[string]any{}},
		"status": map[string]any{
			"podIPs": []any{"10.0.0.1"}, "serviceFQDN": name + ".default.svc.cluster.local",
			"conditions": []any{condition("Ready", "True", t0), condition("Suspended", "False", t0)},
		},
	}
	for _, edit := range edits {
		edit(o)
	}
	return o
}

// The times of the condition Suspended: at first, and after a suspension.
const (
	t0 = "2026-11-30T10:00:00Z"
	t1 = "2026-11-30T10:05:00Z"
)

func seconds(text string) int64 {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return at.Unix()
}

func condition(kind, status, at string) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": at}
}

// set sets, or with nil removes, one field.
func set(value any, path ...string) func(map[string]any) {
	return func(o map[string]any) {
		for _, key := range path[:len(path)-1] {
			next, ok := o[key].(map[string]any)
			if !ok {
				return
			}
			o = next
		}
		o[path[len(path)-1]] = value
		if value == nil {
			delete(o, path[len(path)-1])
		}
	}
}

func conditions(all ...any) func(map[string]any) { return set(all, "status", "conditions") }

func published(ips ...any) func(map[string]any) { return set(ips, "status", "podIPs") }

func pinned(p sandbox.Pin) func(map[string]any) {
	return set(p.Text(nil), "metadata", "annotations", sandbox.PinAnnotation)
}

var suspended = set("Suspended", "spec", "operatingMode")

// pod is the running Pod default/<name> that the Sandbox of uid owner controls, edited.
func pod(name, uid, owner, ip string, edits ...func(*identity.Object)) identity.Object {
	o := identity.Object{
		Namespace: "default", Name: name, UID: uid, Phase: "Running", Ready: true, PodIP: ip, Container: "c1",
		Labels: map[string]string{"agents.x-k8s.io/sandbox-name-hash": "0badcafe"},
		Owner:  identity.Owner{Kind: agentsandbox.Kind, Name: name, UID: identity.UID(owner)},
	}
	for _, edit := range edits {
		edit(&o)
	}
	return o
}

func phase(p string) func(*identity.Object) { return func(o *identity.Object) { o.Phase = p } }

// world is what is watched, in the order in which it comes: Sandboxes, Pods, and what
// is deleted.
type world []any

type (
	goneSandbox struct{ name, uid string }
	gonePod     struct{ name, uid string }
)

func named(name string) identity.NamespacedName {
	return identity.NamespacedName{Namespace: "default", Name: name}
}

func (w world) index(t testing.TB, e sandbox.Engine) *sandbox.Index {
	t.Helper()
	keep := agentsandbox.Keep()
	keep.Containers = true
	pods := identity.NewIndex(identity.HistoryConfig{})
	podFeed := pods.NewFeed("pods", "echo", time.Minute)
	e.InScope = func(string) bool { return true }
	e.Access = agentsandbox.Access
	e.Refuse = agentsandbox.Refuse
	x := sandbox.NewIndex(e, pods)
	feed := x.NewFeed("sandboxes", "events", time.Minute)
	now := time.Now()
	podFeed.Replace(nil, now)
	feed.Replace(nil, now)
	for _, event := range w {
		switch is := event.(type) {
		case map[string]any:
			feed.Apply(agentsandbox.Decode(is, nil), now)
		case goneSandbox:
			feed.Delete(named(is.name), identity.UID(is.uid), now)
		case identity.Object:
			p, _ := is.Pod(keep) // what is malformed is known all the same
			podFeed.Apply(p, now)
		case gonePod:
			podFeed.Delete(named(is.name), identity.UID(is.uid), now)
		default:
			t.Fatalf("nothing that can be watched: %T", event)
		}
	}
	return x
}

var stateNames = map[identity.TargetState]string{
	identity.SandboxUnknown: "unknown", identity.SandboxGone: "gone", identity.SandboxReplaced: "replaced",
	identity.SandboxAmbiguous: "ambiguous", identity.SandboxSuspended: "suspended", identity.SandboxUnreadable: "unreadable",
	identity.NotAssigned: "not assigned", identity.PodForeign: "foreign",
}

var pinNames = map[identity.PinState]string{
	identity.PinWanted: ", pin wanted", identity.PinBroken: ", pin broken", identity.PinRestarted: ", restarted", identity.PinRefused: ", pin refused",
}

// outcome is what a request comes to, in a few words.
func (w world) outcome(t testing.TB, e sandbox.Engine, routes agentsandbox.Routes, r request) string {
	t.Helper()
	c, err := routes.Claim(r)
	if wrong, ok := errors.AsType[*identity.ClaimError](err); ok {
		return map[identity.ClaimFault]string{identity.ClaimMissing: "missing", identity.ClaimMalformed: "malformed", identity.ClaimConflict: "conflict"}[wrong.Fault]
	}
	target := w.index(t, e).Target(c)
	if target.State != identity.Bound {
		return stateNames[target.State]
	}
	v := target.View
	if !v.Found {
		return "no Pod"
	}
	said := fmt.Sprintf("%s at %v", v.Pod.UID, v.Addr)
	for _, also := range []struct {
		is   bool
		text string
	}{
		{v.Pod.Phase != identity.PhaseRunning, ", " + v.Pod.Phase.String()}, {v.Pod.Terminating, ", terminating"},
		{v.Pod.HostNetwork, ", host network"}, {v.Pod.Mirror, ", mirror"}, {v.Pod.Malformed != "", ", malformed"},
		{v.Addr.IsValid() && !v.Holds, ", not held"}, {v.Others > 0, ", shared"}, {true, pinNames[target.Pin]},
		{target.Path != "", ", gets " + target.Path},
		{target.HintDiffers && !target.HintStale, ", hint differs"}, {target.HintStale, ", hint stale"},
	} {
		if also.is {
			said += also.text
		}
	}
	return said
}
