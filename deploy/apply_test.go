package deploy_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// everything is every value that makes an object or a part of one, beside least.
const everything = `
image: {digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000", pullSecrets: [registry]}
config:
  dialect: claim
  claim:
    target: {contextExtension: pod}
    uid: {metadata: {namespace: envoy.filters.http.jwt_authn, path: [payload, pod_uid]}, optional: false}
  scope: {selector: {matchLabels: {app: sandbox}, matchExpressions: [{key: tier, operator: In, values: [a]}]}}
  ports: [44772, "8000-8010"]
  addresses: {cidrs: [10.244.0.0/16]}
  history: {addresses: 10, tenures: 2, ttl: 1h}
tls: {clientCASecretName: envoys, clientIdentities: ["spiffe://mesh/ns/gateway/sa/envoy", envoy.gateway.svc]}
requireReady: true
networkPolicy:
  monitoring: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  envoy: [{namespaceSelector: {matchLabels: {team: mesh}}}, {ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.1/32]}}]
serviceMonitor: {enabled: true, labels: {release: prometheus}}
priorityClassName: system-cluster-critical
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: gateway, operator: Exists, effect: NoSchedule}]
affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}}}]}}
podLabels: {team: mesh}
podAnnotations: {a: b}
`

// engineEverything is every value that an engine has.
const engineEverything = `
config:
  dialect: opensandbox
  opensandbox: {mode: uri, providers: [batchsandbox, agent-sandbox]}
pinKeySecret: {name: pins}
requirePin: true
pinContainers: true
onReplace: follow
waitReady: 2s
secureAccessKeysSecret: {name: routes}
renewIntents: {url: "redis://redis.opensandbox.svc:6379/0", passwordSecret: {name: redis}}
`

// kinds are the kinds of objects, in alphabetical order.
func kinds(objects []*unstructured.Unstructured) string {
	var all []string
	for _, o := range objects {
		all = append(all, o.GetKind())
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// TestServerTakesEverything: the API server takes every object, with every value
// set, and would refuse a field that does not exist.
func TestServerTakesEverything(t *testing.T) {
	c := newCluster(t)
	c.installCRDs()
	gateway, sandboxes := c.namespace("gateway"), c.namespace("sandboxes")
	in := func(text string) string { return strings.ReplaceAll(text, "NS", sandboxes) }
	for _, tc := range []struct {
		name   string
		values []string
		want   string // kinds, in order
	}{
		{"the least", []string{least}, "Certificate,ClusterRole,ClusterRoleBinding,ConfigMap,NetworkPolicy,PodDisruptionBudget,Service,ServiceAccount,StatefulSet"},
		{"everything", []string{least, everything, in("networkPolicy: {sandboxes: {namespaces: [NS], otherPorts: open, podSelector: {matchLabels: {app: sandbox}}}}")}, "Certificate,ClusterRole,ClusterRoleBinding,ConfigMap,NetworkPolicy,NetworkPolicy,PodDisruptionBudget,Service,ServiceAccount,ServiceMonitor,StatefulSet"},
		{"Roles", []string{least, in("config: {scope: {namespaces: [NS]}}\nwatchNamespaces: [NS]")}, "Certificate,ConfigMap,NetworkPolicy,PodDisruptionBudget,Role,RoleBinding,Service,ServiceAccount,StatefulSet"},
		{"a Secret of mine", []string{least, "tls: {mode: secret, secretName: mine}"}, "ClusterRole,ClusterRoleBinding,ConfigMap,NetworkPolicy,PodDisruptionBudget,Service,ServiceAccount,StatefulSet"},
		{"a lab", []string{least, inLab, "networkPolicy: {enabled: false, envoy: []}\npodDisruptionBudget: {enabled: false}"}, "ClusterRole,ClusterRoleBinding,ConfigMap,Service,ServiceAccount,StatefulSet"},
		{"an engine", []string{least, in("config: {scope: {namespaces: [NS]}}"), engineEverything}, "Certificate,ClusterRole,ClusterRoleBinding,ConfigMap,NetworkPolicy,PodDisruptionBudget,Role,RoleBinding,Service,ServiceAccount,StatefulSet"},
		{"an engine in every namespace", []string{least, `config: {scope: {namespaces: ["*"]}, dialect: agent-sandbox}`}, "Certificate,ClusterRole,ClusterRole,ClusterRoleBinding,ClusterRoleBinding,ConfigMap,NetworkPolicy,PodDisruptionBudget,Service,ServiceAccount,StatefulSet"},
		{"an engine's Roles", []string{least, in("config: {scope: {namespaces: [NS]}, dialect: agent-sandbox}\nwatchNamespaces: [NS]")}, "Certificate,ConfigMap,NetworkPolicy,PodDisruptionBudget,Role,Role,RoleBinding,RoleBinding,Service,ServiceAccount,StatefulSet"},
		{"RBAC of mine", []string{least, inLab, "rbac: {create: false}\nserviceAccount: {create: false, name: mine}"}, "ConfigMap,NetworkPolicy,PodDisruptionBudget,Service,StatefulSet"},
	} {
		objects := mustRender(t, gateway, tc.values...)
		if got := kinds(objects); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
		for _, o := range objects {
			if err := c.apply(o, true); err != nil {
				t.Errorf("%s: %s %s: %v", tc.name, o.GetKind(), o.GetName(), err)
			}
		}
	}

	// The control: the same call refuses a slip in every kind.
	for _, o := range mustRender(t, gateway, least, everything) {
		o.Object["sloppy"] = "x"
		if err := c.apply(o, true); err == nil || !strings.Contains(err.Error(), "sloppy") {
			t.Errorf("%s with an unknown field: %v", o.GetKind(), err)
		}
	}
}
