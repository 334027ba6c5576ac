package hazard_test

import "github.com/samepod/samepod/envoy"

const (
	cache     = `{name: cache, typed_config: {` + types + `http.cache.v3.CacheConfig, typed_config: {"@type": type.googleapis.com/envoy.extensions.http.cache.simple_http_cache.v3.SimpleHttpCacheConfig}}}`
	composite = `{name: other, lb_policy: CLUSTER_PROVIDED, cluster_type: {name: envoy.clusters.composite, typed_config: {"@type": type.googleapis.com/envoy.extensions.clusters.composite.v3.ClusterConfig, clusters: [{name: samepod_verified}]}}}`
)

// senderRows are those of TestRules about what sends requests besides routes.
var senderRows = []row{
	{"sends-itself", 40, envoy.Assert, "manager", `{+http_filters: [` + cache + `]}`, "$F[cache]"},
	{"sends-itself", 40, envoy.Both, "manager", `{+http_filters: [{name: c2, typed_config: {` + types + `http.cache_v2.v3.CacheV2Config}}]}`, "$F[c2]"},
	{"not-judged", 40, envoy.Both, "manager", `{+http_filters: [{name: k, typed_config: {` + types + `http.kill_request.v3.KillRequest}}]}`, "$F[k]"},
	{"not-judged", 40, envoy.Both, "manager", `{+http_filters: [{name: o, typed_config: {` + types + `http.ext_authz.v3.ExtAuthz, http_service: {server_uri: {uri: x, cluster: samepod_verified, timeout: 1s}}}}]}`, "$F[o]"},
	{"not-judged", 40, envoy.Both, "root", `{static_resources: {listeners+: [{name: x, filter_chains: [{filters: [{name: h, typed_config: {` + types + `network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: x, http_filters: [{name: lua, typed_config: {` + types + `http.lua.v3.Lua, default_source_code: {inline_string: "h:httpCall('samepod_verified')"}}}, ` + router + `]}}]}]}]}}`, "static_resources.listeners[x].filter_chains[0].http_connection_manager.http_filters[lua]"},
	{"not-judged", 40, envoy.Both, "root", `{static_resources: {listeners+: [{name: x, filter_chains: [{filters: [{name: h, typed_config: {` + types + `network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: x, http_filters: [{name: e, config_discovery: {config_source: {ads: {}}, type_urls: [x]}}, ` + router + `]}}]}]}]}}`, "static_resources.listeners[x].filter_chains[0].http_connection_manager.http_filters[e]"},
	{"not-judged", 40, envoy.Both, "host", `{+routes: [{name: o, match: {prefix: /o}, route: {cluster: other}, typed_per_filter_config: {x: {` + types + `http.ext_proc.v3.ExtProcPerRoute, overrides: {grpc_service: {envoy_grpc: {cluster_name: samepod_verified}}}}}}]}`, "$H.routes[o].typed_per_filter_config[x]"},
	{"check-missing", 40, envoy.Both, "root", `{static_resources: {listeners+: [{name: raw, filter_chains: [{filters: [` + otherTCP + `]}]}], clusters+: [` + composite + `]}}`, "static_resources.listeners[raw].filter_chains[0].filters[tcp]; several-addresses static_resources.clusters[other].cluster_type"},
	{"several-addresses", 40, envoy.Both, "root", `{static_resources: {clusters+: [` + aggregate + `, {name: more, cluster_type: {name: envoy.clusters.mcp_multicluster, typed_config: {"@type": type.googleapis.com/envoy.extensions.clusters.mcp_multicluster.v3.ClusterConfig, servers: [{name: a, mcp_cluster: {cluster: all}}]}}}]}}`, "static_resources.clusters[all].cluster_type; several-addresses static_resources.clusters[more].cluster_type"},
	{"not-judged", 40, envoy.Both, "root", `{static_resources: {clusters+: [{name: m, cluster_type: {name: envoy.clusters.dynamic_modules, typed_config: {"@type": type.googleapis.com/envoy.extensions.clusters.dynamic_modules.v3.ClusterConfig}}}]}}`, "static_resources.clusters[m].cluster_type"},
	{"samepod-exposed", 40, envoy.Both, "host", `{+routes: [{name: s, match: {prefix: /envoy.service.auth.v3.Authorization}, route: {cluster: samepod_authz}}]}`, "$H.routes[s].route"},
	{"samepod-exposed", 40, envoy.Both, "host", `{+routes: [{name: s, match: {prefix: /x}, route: {weighted_clusters: {clusters: [{name: samepod_authz, weight: 1}]}}, typed_per_filter_config: {envoy.filters.http.ext_authz: ` + perRoute + `disabled: true}}}]}`, "$H.routes[s].route"},
	{"samepod-exposed", 40, envoy.Both, "root", `{static_resources: {listeners+: [{name: raw, filter_chains: [{filters: [{name: tcp, typed_config: {` + types + `network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: samepod_authz}}]}]}]}}`, "static_resources.listeners[raw].filter_chains[0].filters[tcp]"},
}
