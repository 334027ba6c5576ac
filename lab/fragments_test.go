package lab_test

import (
	"bytes"
	"slices"
	"strconv"
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

// TestFragments merges what samepod prints into the operator's configuration, as
// its comments say, and runs it.
func TestFragments(t *testing.T) {
	onEveryEnvoyAtOnce(t, func(t *testing.T, version string) {
		a := newSamepodArm(t)
		addr := a.addrs.Take()
		a.run("a", "uid-a", addr)
		fragment := func(what string, more ...string) []byte {
			return samepodCLI(t, append([]string{"envoy", what, "--envoy-version", version, "--config", a.config}, more...)...)
		}
		merged := merge(t, []byte(operatorBootstrap), fragment("filters"), fragment("cluster", "--samepod", a.samepod.Authz.String()))
		a.envoy = must(a.StartEnvoy(t.Context(), "envoy", envoyBinary(t, version), merged))(t)
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

// merge is what an operator does by hand: the filters go before the router, the
// route's keys over those of the last route, the clusters beside theirs.
func merge(t *testing.T, before, filters, clusters []byte) []byte {
	t.Helper()
	mine, ours, theirs := parse(t, before), parse(t, filters), parse(t, clusters)
	static := at(t, mine, "static_resources")
	manager := at(t, static, "listeners", "0", "filter_chains", "0", "filters", "0", "typed_config")
	chain := at(t, manager, "http_filters")
	router := len(chain.Content) - 1
	chain.Content = slices.Insert(chain.Content, router, at(t, ours, "http_connection_manager", "http_filters").Content...)
	overlay(manager, at(t, ours, "http_connection_manager"), "http_filters")
	routes := at(t, manager, "route_config", "virtual_hosts", "0", "routes")
	overlay(routes.Content[len(routes.Content)-1], at(t, ours, "route"), "")
	all := at(t, static, "clusters")
	all.Content = append(all.Content, at(t, theirs, "clusters").Content...)
	return encodeYAML(t, mine)
}

func parse(t *testing.T, text []byte) *yaml.Node {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Content[0]
}

func encodeYAML(t *testing.T, n *yaml.Node) []byte {
	t.Helper()
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// at follows keys and positions.
func at(t *testing.T, n *yaml.Node, path ...string) *yaml.Node {
	t.Helper()
	for _, key := range path {
		if i, err := strconv.Atoi(key); err == nil {
			n = n.Content[i]
			continue
		}
		i := keyOf(n, key)
		if i < 0 {
			t.Fatalf("no %s in %v", key, path)
		}
		n = n.Content[i+1]
	}
	return n
}

func keyOf(n *yaml.Node, key string) int {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// overlay sets every key of from in to, but for one.
func overlay(to, from *yaml.Node, but string) {
	for i := 0; i < len(from.Content); i += 2 {
		key, value := from.Content[i], from.Content[i+1]
		switch k := keyOf(to, key.Value); {
		case key.Value == but:
		case k >= 0:
			to.Content[k], to.Content[k+1] = key, value
		default:
			to.Content = append(to.Content, key, value)
		}
	}
	if len(from.Content) > 0 {
		to.Style &^= yaml.FlowStyle // what is added has comments
	}
}
