package lab_test

import (
	"maps"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// operatorBootstrap is somebody's own Envoy: a route to Pods, which is to be
// protected, and one to something else, with an RBAC filter of its own.
const operatorBootstrap = `
admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }
static_resources:
  listeners:
  - name: mine
    address: { socket_address: { address: 127.0.0.1, port_value: 0 } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: mine
          http_filters:
          - name: envoy.filters.http.rbac
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
              rules: { action: DENY, policies: { no-admin: { permissions: [ { url_path: { path: { exact: /other/admin } } } ], principals: [ { any: true } ] } } }
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
          route_config:
            name: mine
            virtual_hosts:
            - name: all
              domains: [ "*" ]
              routes:
              - match: { prefix: /other }
                route: { cluster: other }
                typed_per_filter_config:
                  envoy.filters.http.ext_authz: { "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute, disabled: true }
              - match: { prefix: / }
                route: { cluster: pods }
  clusters:
  - name: other
    type: STATIC
    connect_timeout: 0.5s
    load_assignment: { cluster_name: other, endpoints: [ { lb_endpoints: [ { endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 1 } } } } ] } ] }
`

type tree = map[string]any

// TestFragments merges what samepod prints into the operator's configuration, as
// its comments say, and runs it.
func TestFragments(t *testing.T) {
	onEveryEnvoy(t, func(t *testing.T, version string) {
		a := newSamepodArm(t)
		addr := a.addrs.Take()
		a.run("a", "uid-a", addr)
		fragment := func(what string, more ...string) tree {
			var out tree
			text := samepodCLI(t, append([]string{"envoy", what, "--envoy-version", version, "--config", a.config}, more...)...)
			if err := yaml.Unmarshal(text, &out); err != nil {
				t.Fatal(err)
			}
			return out
		}
		a.envoy = must(a.StartEnvoy(t.Context(), "envoy", envoyBinary(t, version), merge(t, fragment("filters"), fragment("cluster", "--samepod", a.samepod.Authz.String()))))(t)
		a.waitVerdicts()
		if got := findings(envoyCheck(t, "--config", a.config, "http://"+a.envoy.Admin.String())); got != nil {
			t.Errorf("samepod envoy check: %q", got)
		}

		if c := do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", addr)...); c.status != 200 || !strings.Contains(c.body, "by a uid-a") {
			t.Errorf("the protected route: %d %s", c.status, c.body)
		}
		checkProblem(t, "another uid", do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-old", addr)...), 409, "pod-replaced", false)
		checkProblem(t, "no claim", do(t, "GET", a.envoy.URL("/ping"), ""), 400, "claim-missing", false)
		for path, status := range map[string]int{"/other": 503, "/other/admin": 403} {
			if c := do(t, "GET", a.envoy.URL(path), ""); c.status != status || c.reason() != "" || strings.Contains(c.body, "samepod") {
				t.Errorf("%s, which is not ours: %d %q %s", path, c.status, c.reason(), c.body)
			}
		}
	})
}

// merge is what an operator does by hand.
func merge(t *testing.T, filters, clusters tree) []byte {
	t.Helper()
	var mine tree
	if err := yaml.Unmarshal([]byte(operatorBootstrap), &mine); err != nil {
		t.Fatal(err)
	}
	static := mine["static_resources"].(tree)
	listener := static["listeners"].([]any)[0].(tree)
	manager := listener["filter_chains"].([]any)[0].(tree)["filters"].([]any)[0].(tree)["typed_config"].(tree)
	own := manager["http_filters"].([]any)
	maps.Copy(manager, filters["http_connection_manager"].(tree))
	ours := manager["http_filters"].([]any)
	last := len(own) - 1 // the router
	manager["http_filters"] = append(append(append([]any{}, own[:last]...), ours...), own[last])
	all := manager["route_config"].(tree)["virtual_hosts"].([]any)[0].(tree)["routes"].([]any)
	maps.Copy(all[len(all)-1].(tree), filters["route"].(tree))
	static["clusters"] = append(static["clusters"].([]any), clusters["clusters"].([]any)...)
	text, err := yaml.Marshal(mine)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
