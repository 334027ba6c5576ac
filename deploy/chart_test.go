package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const chartDir = "helm/samepod"

// renderChart is what helm install would apply, and the notes that it would print.
func renderChart(namespace string, values ...string) (objects []*unstructured.Unstructured, notes string, err error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, "", err
	}
	merged := map[string]any{}
	for _, text := range values {
		var next map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &next); err != nil {
			return nil, "", err
		}
		merged = loader.MergeMaps(merged, next)
	}
	all, err := chartutil.ToRenderValues(chart, merged, common.ReleaseOptions{Name: "samepod", Namespace: namespace, IsInstall: true, Revision: 1}, nil)
	if err != nil {
		return nil, "", err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, "", err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			notes = files[name]
			continue
		}
		documents := kyaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(files[name]), 4096)
		for {
			var o unstructured.Unstructured
			if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, "", err
			}
			if len(o.Object) > 0 {
				objects = append(objects, &o)
			}
		}
	}
	return objects, notes, nil
}

func mustRender(t *testing.T, namespace string, values ...string) []*unstructured.Unstructured {
	t.Helper()
	objects, _, err := renderChart(namespace, values...)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// find returns the one object of a kind, as its type.
func find[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	all := findAll[T](t, objects, kind)
	if len(all) != 1 {
		t.Fatalf("%d objects of kind %s, want one", len(all), kind)
	}
	return all[0]
}

// findAll takes no field for another: an unknown one is an error.
func findAll[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) []*T {
	t.Helper()
	var all []*T
	for _, o := range objects {
		if o.GetKind() != kind {
			continue
		}
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
			t.Fatalf("%s %s: %v", kind, o.GetName(), err)
		}
		all = append(all, typed)
	}
	return all
}

// The values that the tests begin with.
const (
	envoyPeer = "networkPolicy: {envoy: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: gateway}}, podSelector: {matchLabels: {app: envoy}}}]}\n"
	least     = "config: {scope: {namespaces: [sandboxes]}, ports: [44772]}\ntls: {issuerRef: {name: mesh}, clientIdentities: [envoy.gateway.svc]}\nimage: {repository: registry.example/samepod}\n" + envoyPeer
	inLab     = "tls: {mode: insecure, clientIdentities: []}\n"
)

// TestLint: helm's own linter finds nothing in the chart with any of the values
// that CI lints with.
func TestLint(t *testing.T) {
	files, err := filepath.Glob(chartDir + "/ci/*-values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no values", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		values, err := loader.LoadValues(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.RunAll(chartDir, values, "gateway").Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", file, m)
			}
		}
		if _, _, err := renderChart("gateway", string(text)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestBadValues: what is missing, unknown, wrong or without effect is refused, and
// the message says where it stands and what is allowed.
func TestBadValues(t *testing.T) {
	for _, tc := range []struct{ name, values, want string }{
		{"no scope", `config: {scope: {namespaces: []}}`, "at '/config/scope/namespaces': minItems: got 0, want 1"},
		{"no ports", `config: {ports: []}`, "at '/config/ports': minItems: got 0, want 1"},
		{"unknown value", `replica: 3`, "at '': additional properties 'replica' not allowed"},
		{"unknown value deep down", `tls: {issuer: x}`, "at '/tls': additional properties 'issuer' not allowed"},
		{"unknown key of samepod.yaml", `config: {port: [1]}`, "at '/config': additional properties 'port' not allowed"},
		{"unknown place of a claim", `config: {claim: {target: {cookie: x}}}`, "at '/config/claim/target': additional properties 'cookie' not allowed"},
		{"a claim in two places", `config: {claim: {target: {header: x, contextExtension: y}}}`, "at '/config/claim/target': maxProperties: got 2, want 1"},
		{"a header in upper case", `config: {claim: {target: {header: X-Pod}}}`, "at '/config/claim/target/header': 'X-Pod' does not match pattern"},
		{"an empty selector", `config: {scope: {selector: {}}}`, "at '/config/scope/selector': minProperties: got 0, want 1"},
		{"all namespaces and one", `config: {scope: {namespaces: ["*", a]}}`, "at '/config/scope/namespaces/0': '*' does not match pattern"},
		{"port 0", `config: {ports: [0]}`, "at '/config/ports/0': minimum: got 0, want 1"},
		{"a text for a number", `replicas: "2"`, "at '/replicas': got string, want integer"},
		{"no replica", `replicas: 0`, "at '/replicas': minimum: got 0, want 1"},
		{"a mode that is none", `tls: {mode: none}`, "at '/tls/mode': value must be one of 'cert-manager', 'secret', 'insecure'"},
		{"a duration without a unit", `maxStaleness: "90"`, "at '/maxStaleness': '90' does not match pattern"},
		{"a short digest", `image: {digest: "sha256:12"}`, "at '/image/digest': 'sha256:12' does not match pattern"},
		{"a privileged port", `ports: {check: 443}`, "at '/ports/check': minimum: got 443, want 1,024"},
		{"no issuer", `tls: {issuerRef: {name: ""}}`, "tls.issuerRef.name: missing; tls.mode cert-manager needs an issuer, secret a Secret of yours, and insecure is for labs"},
		{"no secret", `tls: {mode: secret}`, "tls.secretName: missing; tls.mode is secret"},
		{"no image", `image: {repository: ""}`, "image.repository: missing; allowed: where you keep the image"},
		{"no identities", `tls: {clientIdentities: []}`, "tls.clientIdentities: missing; allowed: the names of the Envoys in their certificates, or [\"*\"]"},
		{"every identity and one", `tls: {clientIdentities: ["*", a]}`, `tls.clientIdentities: "*" beside others`},
		{"identities without TLS", `tls: {mode: insecure, clientIdentities: [envoy]}`, "without effect; tls.mode is insecure"},
		{"nobody may ask", `networkPolicy: {envoy: []}`, "networkPolicy.envoy: missing; allowed: the peers that Envoy runs as, or networkPolicy.enabled: false"},
		{"peers without a policy", `networkPolicy: {enabled: false}`, "without effect; networkPolicy.enabled is false"},
		{"a peer of the sandbox's own namespace", `networkPolicy: {envoy: [{podSelector: {matchLabels: {app: envoy}}}]}`, "at '/networkPolicy/envoy/0': missing property 'namespaceSelector'"},
		{"a peer of every namespace", `networkPolicy: {envoy: [{namespaceSelector: {}}]}`, "at '/networkPolicy/envoy/0/namespaceSelector': minProperties: got 0, want 1"},
		{"other ports than all", "config: {ports: any}\nnetworkPolicy: {sandboxes: {namespaces: [a], otherPorts: open}}", "networkPolicy.sandboxes.otherPorts: open: config.ports is any, so there are no others"},
		{"scope that is not watched", `watchNamespaces: [other]`, `config.scope.namespaces: "sandboxes": not watched; watchNamespaces is other`},
		{"every namespace, some watched", "config: {scope: {namespaces: [\"*\"]}}\nwatchNamespaces: [a]", `config.scope.namespaces: ["*"]: only a is watched`},
		{"an engine that is none", `config: {dialect: kata}`, "at '/config/dialect': value must be one of 'claim', 'opensandbox', 'agent-sandbox'"},
		{"pins without an engine", `pins: memory`, "without effect; config.dialect is claim"},
		{"a wait without an engine", `waitReady: 2s`, "without effect; config.dialect is claim"},
		{"renewal without OpenSandbox", "config: {dialect: agent-sandbox}\nrenewIntents: {url: redis://redis:6379}", "secureAccessKeysSecret, renewIntents: without effect; config.dialect is agent-sandbox"},
		{"a key without pins to write", "config: {dialect: opensandbox}\npins: memory\npinKeySecret: {name: key}", "requirePin, pinKeySecret: without effect; pins is memory"},
		{"what follows no pin", "config: {dialect: opensandbox}\npins: none\nonReplace: follow", "onReplace, pinContainers: without effect; pins is none"},
		{"a password for no Redis", "config: {dialect: opensandbox}\nrenewIntents: {passwordSecret: {name: redis}}", "renewIntents.passwordSecret: without effect; there is no renewIntents.url"},
		{"a file of keys that nobody mounts", "config: {dialect: opensandbox, opensandbox: {secureAccessKeysFile: /etc/keys}}", "config.opensandbox.secureAccessKeysFile: no such file in the Pod"},
		{"one port for two", `ports: {health: 9191}`, "ports.health: 9191: ports.check is the same"},
	} {
		if _, _, err := renderChart("gateway", least, tc.values); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s:\n got %v\nwant %s", tc.name, err, tc.want)
		}
	}
	if _, _, err := renderChart("gateway"); err == nil {
		t.Error("the chart's own values render, though nothing says who may be named")
	}
}

// TestNotes: what weakens an installation is said to whoever installs it.
func TestNotes(t *testing.T) {
	const forget, asks, watched, open, direct = "forget which Pod a sandbox had", "Whoever reaches port 9191 learns", "is invisible", "is not limited by this chart", "can dial a Pod without Envoy"
	for _, tc := range []struct {
		name, values string
		want         []string
	}{
		{"whole", "networkPolicy: {sandboxes: {namespaces: [sandboxes]}}", nil},
		{"sandboxes open", "", []string{direct}},
		{"Roles", "watchNamespaces: [sandboxes]", []string{watched, direct}},
		{"pins forgotten", "{config: {dialect: opensandbox}, pins: memory, networkPolicy: {sandboxes: {namespaces: [sandboxes]}}}", []string{forget}},
		{"lab", inLab + "networkPolicy: {enabled: false, envoy: []}", []string{asks, open}},
	} {
		_, notes, err := renderChart("gateway", least, tc.values)
		if err != nil {
			t.Fatal(err)
		}
		for _, warning := range []string{forget, asks, watched, open, direct} {
			if strings.Contains(notes, warning) != slices.Contains(tc.want, warning) {
				t.Errorf("%s: %q, want %v, in\n%s", tc.name, warning, slices.Contains(tc.want, warning), notes)
			}
		}
		if !strings.Contains(notes, "--samepod samepod.gateway.svc.cluster.local:9191") {
			t.Errorf("%s: the notes do not say where samepod is:\n%s", tc.name, notes)
		}
	}
}
