package lab

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// AgentSandboxPort is the port on which agent-sandbox's runtime listens.
const AgentSandboxPort = 8888

// AgentSandbox stands for kubernetes-sigs/agent-sandbox's controllers in one namespace,
// as [OpenSandbox] does for OpenSandbox's.
//
// Usual: [AgentSandbox.Start]; then [Node.Exit], [Node.Delete] and [Node.Run] for what
// happens to the Pod, which has the Sandbox's name, and [AgentSandbox.Reconcile] when
// the controller notices.
type AgentSandbox struct {
	*Node
	version   string
	sandboxes dynamic.ResourceInterface
	claims    dynamic.ResourceInterface
}

// Keys of agent-sandbox's objects.
const (
	agentGroup           = "agents.x-k8s.io"
	annotationPodName    = agentGroup + "/pod-name"
	labelSandboxNameHash = agentGroup + "/sandbox-name-hash"
	labelWarmPool        = agentGroup + "/warm-pool-sandbox"
	labelClaimUID        = agentGroup + "/claim-uid"
)

var claimVersion = schema.GroupVersion{Group: "extensions.agents.x-k8s.io", Version: "v1beta1"}

// NewAgentSandbox stands for agent-sandbox in a namespace whose API server has
// [CRDSandboxes] or [CRDSandboxesV1Alpha1], and [CRDSandboxClaims] where there are
// claims. The version is v1beta1 or v1alpha1.
func (l *Lab) NewAgentSandbox(kube *Kube, namespace, version string) (*AgentSandbox, error) {
	client, err := kube.Dynamic()
	if err != nil {
		return nil, err
	}
	sandboxes := schema.GroupVersionResource{Group: agentGroup, Version: version, Resource: "sandboxes"}
	return &AgentSandbox{
		Node:      l.NewNode(kube, namespace, AgentSandboxPort),
		version:   version,
		sandboxes: client.Resource(sandboxes).Namespace(namespace),
		claims:    client.Resource(claimVersion.WithResource("sandboxclaims")).Namespace(namespace),
	}, nil
}

// Create writes a Sandbox that is to run.
func (a *AgentSandbox) Create(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	return a.create(ctx, name, nil, nil)
}

// CreateWarm writes a Sandbox of a warm pool, which nobody has claimed.
func (a *AgentSandbox) CreateWarm(ctx context.Context, name, pool string) (*unstructured.Unstructured, error) {
	owner := metav1.OwnerReference{APIVersion: claimVersion.String(), Kind: "SandboxWarmPool", Name: pool, UID: types.UID("warm-pool-" + pool), Controller: new(true)}
	return a.create(ctx, name, map[string]string{labelWarmPool: pool}, []metav1.OwnerReference{owner})
}

func (a *AgentSandbox) create(ctx context.Context, name string, labels map[string]string, owners []metav1.OwnerReference) (*unstructured.Unstructured, error) {
	spec := map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "sandbox", "image": "sandbox:v1"}}}}}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	maps.Copy(spec, a.operating(true))
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: agentGroup, Version: a.version, Kind: "Sandbox"})
	object.SetName(name)
	object.SetLabels(labels)
	object.SetOwnerReferences(owners)
	return a.sandboxes.Create(ctx, object, metav1.CreateOptions{})
}

// operating is what a spec says of whether the sandbox is to run, by the version.
func (a *AgentSandbox) operating(run bool) map[string]any {
	switch {
	case a.version == "v1alpha1" && run:
		return map[string]any{"replicas": int64(1)}
	case a.version == "v1alpha1":
		return map[string]any{"replicas": int64(0)}
	case run:
		return map[string]any{"operatingMode": "Running"}
	default:
		return map[string]any{"operatingMode": "Suspended"}
	}
}

// Start takes a sandbox to where it serves: created, its Pod running on the address,
// status published.
func (a *AgentSandbox) Start(ctx context.Context, name string, addr netip.Addr) (*Pod, error) {
	if _, err := a.Create(ctx, name); err != nil {
		return nil, err
	}
	return a.BringUp(ctx, name, addr)
}

// StartWarm is [AgentSandbox.Start] for a Sandbox of a warm pool.
func (a *AgentSandbox) StartWarm(ctx context.Context, name, pool string, addr netip.Addr) (*Pod, error) {
	if _, err := a.CreateWarm(ctx, name, pool); err != nil {
		return nil, err
	}
	return a.BringUp(ctx, name, addr)
}

// BringUp takes a Sandbox that exists, and has no Pod, to where it serves.
func (a *AgentSandbox) BringUp(ctx context.Context, name string, addr netip.Addr) (*Pod, error) {
	if err := a.Reconcile(ctx, name); err != nil {
		return nil, err
	}
	process, err := a.Run(ctx, name, addr)
	if err != nil {
		return nil, err
	}
	return process, a.Reconcile(ctx, name)
}

// Sandbox reads a Sandbox.
func (a *AgentSandbox) Sandbox(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	return a.sandboxes.Get(ctx, name, metav1.GetOptions{})
}

// Edit applies a JSON merge patch to a Sandbox.
func (a *AgentSandbox) Edit(ctx context.Context, name string, patch map[string]any) error {
	return mergePatch(ctx, a.sandboxes, name, patch)
}

// Suspend writes that the sandbox is not to run. [AgentSandbox.Reconcile] deletes the
// Pod, and the next one publishes that it is gone.
func (a *AgentSandbox) Suspend(ctx context.Context, name string) error {
	return a.Edit(ctx, name, map[string]any{"spec": a.operating(false)})
}

// Resume writes that the sandbox is to run again. [AgentSandbox.Reconcile] creates its
// Pod, of the same name and another uid.
func (a *AgentSandbox) Resume(ctx context.Context, name string) error {
	return a.Edit(ctx, name, map[string]any{"spec": a.operating(true)})
}

// Claim writes a SandboxClaim, by which the client finds the Sandbox, and lets it
// [AgentSandbox.Adopt] one.
func (a *AgentSandbox) Claim(ctx context.Context, claim, sandbox string) error {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetGroupVersionKind(claimVersion.WithKind("SandboxClaim"))
	object.SetName(claim)
	if _, err := a.claims.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return err
	}
	return a.Adopt(ctx, claim, sandbox)
}

// Adopt is what the claim controller does with a claim that exists, at the latest 30 s
// from now, and a Sandbox, which may be of a warm pool: the Sandbox and its Pod get the
// claim's uid and lose the pool's label; uids and addresses stay. Then the claim is
// Ready.
func (a *AgentSandbox) Adopt(ctx context.Context, claim, sandbox string) (err error) {
	var object *unstructured.Unstructured
	waitErr := wait(ctx, nil, "claim "+claim, 30*time.Second, func() bool {
		object, err = a.claims.Get(ctx, claim, metav1.GetOptions{})
		return !apierrors.IsNotFound(err)
	})
	if err = cmp.Or(err, waitErr); err != nil {
		return err
	}
	owner := metav1.NewControllerRef(object, object.GroupVersionKind())
	meta := map[string]any{"labels": map[string]any{labelClaimUID: object.GetUID(), labelWarmPool: nil}}
	if err := a.labelPods(ctx, sandbox, meta); err != nil {
		return err
	}
	meta["ownerReferences"] = []any{owner}
	if err := a.Edit(ctx, sandbox, map[string]any{"metadata": meta}); err != nil {
		return err
	}
	s, err := a.Sandbox(ctx, sandbox)
	if err != nil {
		return err
	}
	ips, _, _ := unstructured.NestedSlice(s.Object, "status", "podIPs")
	return mergePatch(ctx, a.claims, claim, map[string]any{"status": map[string]any{
		"sandbox":    map[string]any{"name": sandbox, "podIPs": ips},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "DependenciesReady"}},
	}}, "status")
}

func (a *AgentSandbox) labelPods(ctx context.Context, sandbox string, meta map[string]any) error {
	s, err := a.Sandbox(ctx, sandbox)
	if err != nil {
		return err
	}
	pods, err := a.owned(ctx, s.GetUID())
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := a.patchPod(ctx, pod.Name, map[string]any{"metadata": meta}); err != nil {
			return err
		}
	}
	return nil
}

// Remove deletes a Sandbox; its Pod stays until [AgentSandbox.Collect].
func (a *AgentSandbox) Remove(ctx context.Context, name string) error {
	return a.sandboxes.Delete(ctx, name, metav1.DeleteOptions{})
}

// Rebuild deletes a Sandbox and creates one of the same name: another uid. The Pod of
// the first stays until [AgentSandbox.Collect].
func (a *AgentSandbox) Rebuild(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	if err := a.Remove(ctx, name); err != nil {
		return nil, err
	}
	return a.Create(ctx, name)
}

// Collect is the garbage collector: it deletes every Pod of a Sandbox that is gone.
func (a *AgentSandbox) Collect(ctx context.Context) error {
	return a.collect(ctx, a.sandboxes, "Sandbox")
}
