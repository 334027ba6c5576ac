package hazard_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/samepod/samepod/envoy"
	"github.com/samepod/samepod/envoy/hazard"
)

type tree = map[string]any

// parts are where a mutation begins.
var parts = map[string]func(tree) tree{
	"root":     func(t tree) tree { return t },
	"listener": func(t tree) tree { return at(t, "static_resources", "listeners", 0) },
	"chain":    func(t tree) tree { return at(t, "static_resources", "listeners", 0, "filter_chains", 0) },
	"manager":  manager,
	"check":    func(t tree) tree { return at(manager(t), "http_filters", 0, "typed_config") },
	"filter":   func(t tree) tree { return at(manager(t), "http_filters", 0) },
	"copies":   func(t tree) tree { return at(manager(t), "http_filters", 1, "typed_config") },
	"config":   func(t tree) tree { return at(manager(t), "route_config") },
	"host":     func(t tree) tree { return at(manager(t), "route_config", "virtual_hosts", 0) },
	"route":    func(t tree) tree { return at(manager(t), "route_config", "virtual_hosts", 0, "routes", 0) },
	"action":   func(t tree) tree { return at(manager(t), "route_config", "virtual_hosts", 0, "routes", 0, "route") },
	"cluster":  func(t tree) tree { return at(t, "static_resources", "clusters", 0) },
	"authz":    func(t tree) tree { return at(t, "static_resources", "clusters", 1) },
	"options":  options0,
	"rbac":     func(t tree) tree { return at(options0(t), "http_filters", 0) },
	"policy": func(t tree) tree {
		return at(options0(t), "http_filters", 0, "typed_config", "rules", "policies", "only-the-verified-address")
	},
}

func manager(t tree) tree {
	return at(t, "static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config")
}

const protocolOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

func options0(t tree) tree {
	return at(t, "static_resources", "clusters", 0, "typed_extension_protocol_options", protocolOptions)
}

func at(t any, path ...any) tree {
	for _, p := range path {
		switch p := p.(type) {
		case int:
			t = t.([]any)[p]
		case string:
			t = t.(tree)[p]
		}
	}
	return t.(tree)
}

// merge puts a fragment over a part: mappings are merged, null takes away, a list
// under +key is put in front, under key+ behind, under +key+ in front of the last
// element; everything else replaces.
func merge(into, fragment tree) {
	for k, v := range fragment {
		if plain := strings.Trim(k, "+"); plain != k {
			old, _ := into[plain].([]any)
			switch k {
			case "+" + plain:
				into[plain] = slices.Concat(v.([]any), old)
			case plain + "+":
				into[plain] = slices.Concat(old, v.([]any))
			default: // +key+ is in front of the last one, the router
				into[plain] = slices.Concat(old[:len(old)-1], v.([]any), old[len(old)-1:])
			}
			continue
		}
		deeper, isMap := v.(tree)
		have, had := into[k].(tree)
		switch {
		case v == nil:
			delete(into, k)
		case isMap && had:
			merge(have, deeper)
		default:
			into[k] = v
		}
	}
}

// mutated is a rendering with a fragment put over a part of it.
func mutated(t *testing.T, v envoy.Version, u envoy.Arrangement, part, fragment string) []byte {
	t.Helper()
	var whole, change tree
	if err := yaml.Unmarshal(render(t, v, u), &whole); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(fragment), &change); err != nil {
		t.Fatalf("%s: %v", fragment, err)
	}
	merge(parts[part](whole), change)
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// places are the beginnings of places, by a letter.
var places = func() *strings.Replacer {
	const listener = "static_resources.listeners[front]"
	const manager = listener + ".filter_chains[0].http_connection_manager"
	const host = manager + ".route_config.virtual_hosts[pods]"
	const cluster = "static_resources.clusters[samepod_verified]"
	return strings.NewReplacer(
		"$L", listener, "$M", manager, "$F", manager+".http_filters", "$E", manager+".http_filters[envoy.filters.http.ext_authz]",
		"$S", manager+".http_filters[envoy.filters.http.set_filter_state]", "$H", host, "$R", host+".routes[0]",
		"$C", cluster, "$O", cluster+".typed_extension_protocol_options["+protocolOptions+"]", "$A", "static_resources.clusters[samepod_authz]")
}()

const (
	types     = `"@type": type.googleapis.com/envoy.extensions.filters.`
	state     = `{name: mine, typed_config: {` + types + `http.set_filter_state.v3.Config, on_request_headers: [{object_key: envoy.network.transport_socket.original_dst_address, format_string: {text_format_source: {inline_string: "10.0.0.9:1"}}}]}}`
	lua       = `{name: lua, typed_config: {` + types + `http.lua.v3.Lua, default_source_code: {inline_string: ""}}}`
	metadata  = `{name: md, typed_config: {` + types + `http.set_metadata.v3.Config, metadata: [{metadata_namespace: envoy.filters.http.ext_authz, value: {samepod_upstream: x}}]}}`
	otherAuth = `{name: other, typed_config: {` + types + `http.ext_authz.v3.ExtAuthz, grpc_service: {envoy_grpc: {cluster_name: other}}}}`
	tcp       = `{name: tcp, typed_config: {` + types + `network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: samepod_verified}}`
	perRoute  = `{` + types + `http.ext_authz.v3.ExtAuthzPerRoute, `
	filterOff = `{"@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}`
	router    = `{name: router, typed_config: {` + types + `http.router.v3.Router}}`
	naked     = `{` + types + `network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: x, http_filters: [` + router + `], route_config: {virtual_hosts: [{name: v, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: samepod_verified}}]}]}}`
	nakedHCM  = `{name: envoy.filters.network.http_connection_manager, typed_config: ` + naked + `}`
	otherTCP  = `{name: tcp, typed_config: {` + types + `network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: other}}`
	scoped    = `{name: h, typed_config: {` + types + `network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: x, http_filters: [` + router + `], scoped_routes: {name: s, scoped_route_configurations_list: {scoped_route_configurations: [{name: a, route_configuration: {virtual_hosts: [{name: v, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: samepod_verified}}]}]}}, {name: b, route_configuration_name: elsewhere}]}}}}`
	aggregate = `{name: all, connect_timeout: 1s, lb_policy: CLUSTER_PROVIDED, cluster_type: {name: envoy.clusters.aggregate, typed_config: {"@type": type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig, clusters: [samepod_verified]}}}`
)

// row is a fragment that is put over a part of a rendering, and where it is found.
type row struct {
	rule     string
	version  envoy.Version
	upstream envoy.Arrangement
	part     string
	fragment string
	where    string
}

// TestRules breaks one thing at a time in what samepod renders; exactly that rule
// is reported, there, and what stands behind a semicolon.
func TestRules(t *testing.T) {
	const resolve, assert, both = envoy.Resolve, envoy.Assert, envoy.Both
	covered := map[string]bool{"nothing-protected": true, "envoy-version": true, "envoy-patch": true, "path-form": true}
	for _, tc := range slices.Concat(tlsRows, senderRows, headerRows, []row{
		{"check-missing", 40, both, "filter", `{typed_config: {grpc_service: null, http_service: {server_uri: {uri: x, cluster: x, timeout: 1s}}}}`, "$F"},
		{"check-missing", 40, both, "root", `{static_resources: {listeners+: [{name: back, filter_chains: [{filters: [` + nakedHCM + `]}]}]}}`, "static_resources.listeners[back].filter_chains[0].http_connection_manager.http_filters"},
		{"check-missing", 40, both, "listener", `{filter_chains+: [{name: x, filters: [` + nakedHCM + `]}]}`, "$L.filter_chains[x].http_connection_manager.http_filters"},
		{"check-missing", 40, both, "listener", `{default_filter_chain: {filters: [` + nakedHCM + `]}}`, "$L.default_filter_chain.http_connection_manager.http_filters"},
		{"check-missing", 40, both, "root", `{static_resources: {listeners+: [{name: api, api_listener: {api_listener: ` + naked + `}}]}}`, "static_resources.listeners[api].api_listener.http_filters"},
		{"check-missing", 40, both, "root", `{static_resources: {listeners+: [{name: in, internal_listener: {}, filter_chains: [{filters: [` + nakedHCM + `]}]}]}}`, "static_resources.listeners[in].filter_chains[0].http_connection_manager.http_filters"},
		{"check-missing", 40, both, "root", `{static_resources: {listeners+: [{name: raw, filter_chains: [{filters: [` + tcp + `]}]}]}}`, "static_resources.listeners[raw].filter_chains[0].filters[tcp]"},
		{"check-missing", 40, both, "manager", `{upgrade_configs: [{upgrade_type: websocket, filters: [` + router + `]}]}`, "$M.upgrade_configs[websocket].filters"},
		{"check-missing", 40, both, "root", `{static_resources: {listeners+: [{name: sc, filter_chains: [{filters: [` + scoped + `]}]}]}}`, "static_resources.listeners[sc].filter_chains[0].http_connection_manager.http_filters; not-judged static_resources.listeners[sc].filter_chains[0].http_connection_manager.scoped_routes.scoped_route_configurations_list[b]"},
		{"check-missing", 40, both, "root", `{static_resources: {listeners+: [{name: sni, filter_chains: [{filters: [{name: s, typed_config: {` + types + `network.sni_cluster.v3.SniCluster}}, ` + otherTCP + `]}]}]}}`, "static_resources.listeners[sni].filter_chains[0].filters[s]"},
		{"check-missing", 40, both, "root", `{static_resources: {listeners+: [{name: redis, filter_chains: [{filters: [{name: r, typed_config: {` + types + `network.redis_proxy.v3.RedisProxy, prefix_routes: {catch_all_route: {cluster: samepod_verified}}}}]}]}]}}`, "static_resources.listeners[redis].filter_chains[0].filters[r]"},
		{"filter-between", 40, both, "manager", `{+http_filters+: [` + cache + `]}`, "$F[cache]"},
		{"check-disabled", 40, both, "action", `{cluster: null, weighted_clusters: {clusters: [{name: samepod_verified, weight: 1, typed_per_filter_config: {envoy.filters.http.ext_authz: ` + perRoute + `disabled: true}}}]}}`, "$R.route.weighted_clusters.clusters[samepod_verified].typed_per_filter_config[envoy.filters.http.ext_authz].disabled; other-cluster $R.route.weighted_clusters"},
		{"check-disabled", 40, both, "route", `{typed_per_filter_config: {envoy.filters.http.ext_authz: ` + perRoute + `disabled: true}}}`, "$R.typed_per_filter_config[envoy.filters.http.ext_authz].disabled"},
		{"check-disabled", 40, both, "host", `{typed_per_filter_config: {envoy.filters.http.ext_authz: ` + perRoute + `disabled: true}}}`, "$H.typed_per_filter_config[envoy.filters.http.ext_authz].disabled"},
		{"check-disabled", 36, both, "config", `{typed_per_filter_config: {envoy.filters.http.ext_authz: ` + perRoute + `disabled: true}}}`, "$M.route_config.typed_per_filter_config[envoy.filters.http.ext_authz].disabled"},
		{"check-disabled", 40, both, "route", `{typed_per_filter_config: {envoy.filters.http.ext_authz: ` + filterOff + `}}`, "$R.typed_per_filter_config[envoy.filters.http.ext_authz].disabled"},
		{"check-disabled", 40, both, "filter", `{disabled: true}`, "$E.disabled"},
		{"check-disabled", 40, both, "route", `{typed_per_filter_config: {envoy.filters.http.ext_authz: ` + perRoute + `check_settings: {grpc_service: {envoy_grpc: {cluster_name: x}}}}}}`, "$R.typed_per_filter_config[envoy.filters.http.ext_authz].check_settings"},
		{"failure-mode-allow", 40, resolve, "check", `{failure_mode_allow: true}`, "$E.failure_mode_allow"},
		{"shadow-mode", 38, resolve, "check", `{shadow_mode: true}`, "$E.shadow_mode"},
		{"filter-enabled", 40, both, "check", `{filter_enabled: {default_value: {numerator: 50}}}`, "$E.filter_enabled"},
		{"filter-enabled", 40, both, "check", `{filter_enabled_metadata: {filter: x, path: [{key: y}], value: {present_match: true}}}`, "$E.filter_enabled_metadata"},
		{"metadata-ingestion", 40, both, "check", `{enable_dynamic_metadata_ingestion: false}`, "$E.enable_dynamic_metadata_ingestion"},
		{"clear-route-cache", 40, both, "check", `{clear_route_cache: true}`, "$E.clear_route_cache"},
		{"clear-route-cache", 40, both, "check", `{clear_route_cache_headers: [x]}`, "$E.clear_route_cache_headers"},
		{"clear-route-cache", 40, both, "copies", `{clear_route_cache: true}`, "$S.clear_route_cache"},
		{"filter-between", 40, both, "manager", `{+http_filters+: [` + lua + `]}`, "$F[lua]"},
		{"filter-between", 36, resolve, "manager", `{+http_filters+: [` + otherAuth + `]}`, "$F[other]"},
		{"filter-between", 40, both, "options", `{+http_filters: [` + lua + `]}`, "$O.http_filters[lua]"},
		{"filter-between", 40, both, "options", `{+http_filters: [` + state + `]}`, "$O.http_filters[mine]"},
		{"filter-between", 36, resolve, "manager", `{http_filters+: [{name: r2, typed_config: {` + types + `http.router.v3.Router, upstream_http_filters: [` + lua + `]}}]}`, "$F[r2].upstream_http_filters"},
		{"connect", 40, both, "manager", `{upgrade_configs: [{upgrade_type: CONNECT}]}`, "$M.upgrade_configs[CONNECT]"},
		{"address-copy", 40, resolve, "copies", `{on_request_headers: [{object_key: samepod.pod_uid, factory_key: envoy.hashable_string, shared_with_upstream: ONCE, skip_if_empty: true, format_string: {text_format_source: {inline_string: "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:samepod_pod_uid)%"}}}]}`, "$F"},
		{"address-copy", 36, resolve, "copies", `{on_request_headers: [{object_key: envoy.network.transport_socket.original_dst_address, skip_if_empty: true, format_string: {text_format_source: {inline_string: "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:samepod_upstream)%"}}}]}`, "$S.on_request_headers[envoy.network.transport_socket.original_dst_address]"},
		{"address-copy", 40, both, "route", `{typed_per_filter_config: {envoy.filters.http.set_filter_state: ` + filterOff + `}}`, "$R.typed_per_filter_config[envoy.filters.http.set_filter_state].disabled"},
		{"address-writer", 36, resolve, "manager", `{+http_filters: [` + state + `]}`, "$F[mine].on_request_headers[envoy.network.transport_socket.original_dst_address]"},
		{"address-writer", 40, resolve, "manager", `{+http_filters+: [` + state + `]}`, "$F[mine].on_request_headers[envoy.network.transport_socket.original_dst_address]"},
		{"address-writer", 40, both, "manager", `{+http_filters: [` + metadata + `]}`, "$F[md]"},
		{"address-writer", 40, both, "listener", `{use_original_dst: true}`, "$L.use_original_dst"},
		{"address-writer", 40, both, "listener", `{internal_listener: {}}`, "$L.internal_listener"},
		{"address-writer", 40, both, "listener", `{listener_filters: [{name: envoy.filters.listener.original_dst, typed_config: {` + types + `listener.original_dst.v3.OriginalDst}}]}`, "$L.listener_filters[envoy.filters.listener.original_dst]"},
		{"address-writer", 40, both, "chain", `{+filters: [{name: n, typed_config: {` + types + `network.set_filter_state.v3.Config, on_new_connection: [{object_key: envoy.network.transport_socket.original_dst_address, format_string: {text_format_source: {inline_string: x}}}]}}]}`, "$L.filter_chains[0].filters[n]"},
		{"address-writer", 40, resolve, "listener", `{listener_filters: [{name: p, typed_config: {` + types + `listener.proxy_protocol.v3.ProxyProtocol}}]}`, "$L.listener_filters[p]"},
		{"destination-header", 40, both, "cluster", `{original_dst_lb_config: {use_http_header: true}}`, "$C.original_dst_lb_config.use_http_header"},
		{"destination-header", 36, resolve, "cluster", `{original_dst_lb_config: {upstream_port_override: 80}}`, "$C.original_dst_lb_config.upstream_port_override"},
		{"destination-header", 36, resolve, "cluster", `{original_dst_lb_config: null}`, "$C.original_dst_lb_config.metadata_key"},
		{"destination-header", 40, both, "cluster", `{type: STATIC, lb_policy: null, original_dst_lb_config: null, cleanup_interval: null}`, "$C.type"},
		{"assertion-missing", 40, assert, "options", `{http_filters: null}`, "$O.http_filters"},
		{"assertion-missing", 39, both, "rbac", `{disabled: true}`, "$O.http_filters[envoy.filters.http.upstream_rbac]"},
		{"assertion-missing", 39, both, "rbac", `{typed_config: {rules: {action: LOG}}}`, "$O.http_filters[envoy.filters.http.upstream_rbac]"},
		{"assertion-missing", 40, both, "rbac", `{typed_config: {rules: {policies: {more: {permissions: [{any: true}], principals: [{any: true}]}}}}}`, "$O.http_filters[envoy.filters.http.upstream_rbac]"},
		{"assertion-missing", 40, both, "policy", `{condition: null}`, "$O.http_filters[envoy.filters.http.upstream_rbac]"},
		{"assertion-missing", 40, both, "policy", `{cel_config: null}`, "$O.http_filters[envoy.filters.http.upstream_rbac]"},
		{"assertion-missing", 40, both, "route", `{typed_per_filter_config: {envoy.filters.http.upstream_rbac: {` + types + `http.rbac.v3.RBACPerRoute}}}`, "$R.typed_per_filter_config[envoy.filters.http.upstream_rbac]"},
		{"several-addresses", 40, assert, "cluster", `{type: LOGICAL_DNS}`, "$C.type"},
		{"several-addresses", 40, assert, "cluster", `{type: null, cluster_type: {name: envoy.clusters.dynamic_forward_proxy, typed_config: {"@type": type.googleapis.com/envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig}}}`, "$C.cluster_type"},
		{"several-addresses", 40, assert, "cluster", `{load_assignment: {endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.0.0.1, port_value: 1}}, additional_addresses: [{address: {socket_address: {address: 10.0.0.2, port_value: 1}}}]}}]}]}}`, "$C.load_assignment.additional_addresses"},
		{"several-addresses", 40, both, "cluster", `{upstream_connection_options: {happy_eyeballs_config: {}}}`, "$C.upstream_connection_options.happy_eyeballs_config"},
		{"several-addresses", 40, both, "root", `{static_resources: {clusters+: [` + aggregate + `]}}`, "static_resources.clusters[all].cluster_type"},
		{"pool-shared", 36, resolve, "options", `{common_http_protocol_options: {max_requests_per_connection: 2}}`, "$O.common_http_protocol_options.max_requests_per_connection"},
		{"pool-shared", 40, resolve, "copies", `{on_request_headers: [{object_key: envoy.network.transport_socket.original_dst_address, skip_if_empty: true, format_string: {text_format_source: {inline_string: "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:samepod_upstream)%"}}}]}`, "$F"},
		{"connection-limit", 40, both, "cluster", `{circuit_breakers: {thresholds: [{max_retries: 0, max_connections: 4294967295}, {priority: HIGH, max_retries: 0, max_connections: 1024}]}}`, "$C.circuit_breakers.thresholds[HIGH].max_connections"},
		{"connection-limit", 40, both, "cluster", `{circuit_breakers: {per_host_thresholds: [{max_connections: 1}]}}`, "$C.circuit_breakers.per_host_thresholds"},
		{"address-writer", 40, both, "chain", `{+filters: [{name: n, typed_config: {` + types + `network.set_filter_state.v3.Config, on_new_connection: [{object_key: envoy.network.upstream_subject_alt_names, format_string: {text_format_source: {inline_string: x}}}]}}]}`, "$L.filter_chains[0].filters[n]"},
		{"connection-limit", 40, both, "cluster", `{preconnect_policy: {per_upstream_preconnect_ratio: 2}}`, "$C.preconnect_policy"},
		{"retry", 40, both, "action", `{retry_policy: {retry_on: connect-failure}}`, "$R.route.retry_policy"},
		{"retry", 40, both, "host", `{retry_policy: {retry_on: 5xx, num_retries: 1}}`, "$H.retry_policy"},
		{"retry", 40, both, "options", `{retry_policy: {retry_on: 5xx}}`, "$O.retry_policy"},
		{"retry", 40, both, "cluster", `{circuit_breakers: {thresholds: [{max_retries: 3, max_connections: 4294967295}, {priority: HIGH, max_retries: 0, max_connections: 4294967295}]}}`, "$C.circuit_breakers.thresholds[DEFAULT].max_retries"},
		{"retry", 40, both, "cluster", `{circuit_breakers: {thresholds: [{max_retries: 0, retry_budget: {}, max_connections: 4294967295}, {priority: HIGH, max_retries: 0, max_connections: 4294967295}]}}`, "$C.circuit_breakers.thresholds[DEFAULT].retry_budget"},
		{"hedge", 40, both, "action", `{hedge_policy: {hedge_on_per_try_timeout: true}}`, "$R.route.hedge_policy"},
		{"hedge", 40, both, "host", `{hedge_policy: {}}`, "$H.hedge_policy"},
		{"mirror", 40, both, "action", `{request_mirror_policies: [{cluster: other}]}`, "$R.route.request_mirror_policies[0]"},
		{"mirror", 40, both, "host", `{request_mirror_policies: [{cluster: other}]}`, "$H.request_mirror_policies[0]"},
		{"mirror", 40, both, "config", `{request_mirror_policies: [{cluster: other}]}`, "$M.route_config.request_mirror_policies[0]"},
		{"mirror", 40, both, "options", `{request_mirror_policies: [{cluster: other}]}`, "$O.request_mirror_policies[0]"},
		{"mirror", 40, both, "host", `{+routes: [{name: o, match: {prefix: /o}, route: {cluster: other, request_mirror_policies: [{cluster: samepod_verified}]}}]}`, "$H.routes[o].route.request_mirror_policies[0]"},
		{"redirect", 40, both, "action", `{internal_redirect_policy: {}}`, "$R.route.internal_redirect_policy"},
		{"other-cluster", 40, both, "action", `{cluster: null, cluster_header: x-c}`, "$R.route.cluster_header"},
		{"other-cluster", 40, both, "action", `{cluster: null, weighted_clusters: {clusters: [{name: samepod_verified, weight: 1}, {name: other, weight: 1}]}}`, "$R.route.weighted_clusters"},
		{"other-cluster", 40, both, "action", `{cluster: null, cluster_specifier_plugin: p}`, "$R.route.cluster_specifier_plugin"},
		{"other-cluster", 40, both, "host", `{route_specifiers: [{name: x, typed_config: {"@type": type.googleapis.com/some.Specifier}}]}`, "$H.route_specifiers"},
		{"connect", 40, both, "action", `{upgrade_configs: [{upgrade_type: CONNECT, connect_config: {}}]}`, "$R.route.upgrade_configs[CONNECT]"},
		{"connect", 40, both, "host", `{+routes: [{name: c, match: {connect_matcher: {}}, route: {cluster: other, upgrade_configs: [{upgrade_type: CONNECT, connect_config: {}}]}}]}`, "$H.routes[c].route.upgrade_configs[CONNECT]"},
		{"opaque-filter", 40, both, "manager", `{+http_filters: [` + lua + `]}`, "$F[lua]"},
		{"check-timeout", 40, both, "check", `{grpc_service: {timeout: 3600s}}`, "$E.grpc_service.timeout"},
		{"check-timeout", 40, both, "check", `{grpc_service: {timeout: 0s}}`, "$E.grpc_service.timeout"},
		{"not-judged", 40, both, "root", `{layered_runtime: {layers: [{name: d, disk_layer: {symlink_root: /x}}, {name: r, rtds_layer: {name: r, rtds_config: {ads: {}}}}, {name: a, admin_layer: {}}]}}`, "layered_runtime.layers[d].disk_layer; not-judged layered_runtime.layers[r].rtds_layer"},
		{"other-destination", 40, both, "root", `{static_resources: {clusters+: [{name: dfp, lb_policy: CLUSTER_PROVIDED, cluster_type: {name: envoy.clusters.dynamic_forward_proxy, typed_config: {"@type": type.googleapis.com/envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig}}}]}}`, "static_resources.clusters[dfp].cluster_type"},
		{"request-body", 40, both, "check", `{with_request_body: {max_request_bytes: 1}}`, "$E.with_request_body"},
		{"request-body", 40, both, "route", `{typed_per_filter_config: {envoy.filters.http.ext_authz: ` + perRoute + `check_settings: {with_request_body: {max_request_bytes: 1}}}}}`, "$R.typed_per_filter_config[envoy.filters.http.ext_authz].check_settings.with_request_body"},
		{"mutation-rules", 40, both, "check", `{decoder_header_mutation_rules: {disallow_all: false}}`, "$E.decoder_header_mutation_rules"},
		{"mutation-rules", 40, both, "check", `{validate_mutations: null}`, "$E.validate_mutations"},
		{"allowed-headers", 40, both, "check", `{allowed_headers: null}`, "$E.allowed_headers"},
		{"allowed-headers", 40, both, "check", `{disallowed_headers: {patterns: [{exact: x-samepod-port}]}}`, "$E.allowed_headers"},
		{"allowed-headers", 40, both, "check", `{encode_raw_headers: false}`, "$E.encode_raw_headers"},
		{"health-check", 40, both, "authz", `{health_checks: null}`, "$A.health_checks"},
		{"health-check", 40, both, "authz", `{common_lb_config: null}`, "$A.common_lb_config.healthy_panic_threshold"},
		{"health-check", 40, both, "check", `{grpc_service: {envoy_grpc: {cluster_name: elsewhere}}}`, "$E.grpc_service"},
		{"black-hole", 40, both, "cluster", `{connect_timeout: null}`, "$C.connect_timeout"},
		{"black-hole", 40, both, "cluster", `{upstream_connection_options: null}`, "$C.upstream_connection_options.tcp_keepalive"},
		{"black-hole", 40, both, "cluster", `{upstream_bind_config: null}`, "$C.upstream_bind_config.socket_options"},
		{"no-route", 40, both, "route", `{match: {prefix: /pods}}`, "$H.routes"},
		{"no-route", 40, both, "host", `{domains: [mine.test]}`, "$M.route_config.virtual_hosts"},
		{"local-replies", 40, both, "manager", `{local_reply_config: null}`, "$M.local_reply_config"},
		{"stream-bound", 40, both, "action", `{max_stream_duration: null}`, "$R.route.max_stream_duration"},
		{"admin-open", 40, both, "root", `{admin: {address: {socket_address: {address: 0.0.0.0}}}}`, "admin.address"},
		{"not-judged", 40, both, "manager", `{+http_filters: [{name: new, typed_config: {"@type": type.googleapis.com/some.Filter}}]}`, "$F[new]"},
		{"not-judged", 40, both, "manager", `{+http_filters: [{name: new, config_discovery: {config_source: {ads: {}}, type_urls: [x]}}]}`, "$F[new]"},
		{"not-judged", 40, both, "root", `{static_resources: {listeners+: [{name: x, filter_chains: [{filters: [{name: f, typed_config: {"@type": type.googleapis.com/some.Filter}}]}]}]}}`, "static_resources.listeners[x].filter_chains[0].filters[f]"},
		{"not-judged", 40, both, "cluster", `{transport_socket: {name: proxy, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport}}}`, "$C.transport_socket"},
		{"not-judged", 40, both, "cluster", `{upstream_config: {name: x, typed_config: {"@type": type.googleapis.com/some.Pool}}}`, "$C.upstream_config"},
		{"not-judged", 40, both, "root", `{layered_runtime: {layers: [{name: s, static_layer: {circuit_breakers: {samepod_verified: {default: {max_connections: 1}}}}}]}}`, "layered_runtime.layers[s]"},
		{"other-destination", 40, both, "root", `{static_resources: {clusters+: [{name: any, type: ORIGINAL_DST, lb_policy: CLUSTER_PROVIDED, original_dst_lb_config: {use_http_header: true}}]}}`, "static_resources.clusters[any].original_dst_lb_config"},
		{"not-judged", 40, both, "root", `{dynamic_resources: {lds_config: {ads: {}}}}`, "dynamic_resources.lds_config"},
		{"not-judged", 40, both, "config", `{vhds: {config_source: {ads: {}}}}`, "$M.route_config.vhds"},
		{"not-judged", 40, assert, "cluster", `{type: EDS, load_assignment: null, eds_cluster_config: {eds_config: {ads: {}}}}`, "$C.eds_cluster_config"},
		{"not-judged", 40, both, "root", `{static_resources: {listeners+: [{name: x, filter_chains: [{filters: [{name: h, typed_config: {` + types + `network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: x, rds: {route_config_name: r, config_source: {ads: {}}}}}]}]}]}}`, "static_resources.listeners[x].filter_chains[0].http_connection_manager.rds"},
	}) {
		all, err := check(mutated(t, tc.version, tc.upstream, tc.part, tc.fragment), options(tc.version, tc.upstream))
		want := strings.Split(tc.rule+" "+places.Replace(tc.where), "; ")
		slices.Sort(want)
		if got := found(all); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s, %v %s, %s: %s:\n got %q, %v\nwant %q", tc.rule, tc.version, tc.upstream, tc.part, tc.fragment, got, err, want)
		}
		covered[tc.rule] = true
	}
	for _, r := range hazard.Rules() {
		if !covered[r.ID] {
			t.Errorf("%s: nobody breaks it", r.ID)
		}
	}
}
