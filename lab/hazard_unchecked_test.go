package lab_test

// Hazards in which a request is forwarded that samepod has denied, or was never
// asked about. In all of them the request means a Pod that A has replaced.
//
// With resolve such a request has no address, so none of them alone is enough: each
// is also shown with the one further fault that makes it so.

const (
	disabled      = `envoy.filters.http.ext_authz: {"@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute, disabled: true}`
	httpHeader    = "original_dst_lb_config: {use_http_header: true, http_header_name: x-where}"
	caches        = `{name: envoy.filters.http.cache, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.cache.v3.CacheConfig, typed_config: {"@type": type.googleapis.com/envoy.extensions.http.cache.simple_http_cache.v3.SimpleHttpCacheConfig}}}`
	cacheSends    = "the log has no host: the request was answered before the router"
	composite     = `{name: composite, lb_policy: CLUSTER_PROVIDED, connect_timeout: 1s, cluster_type: {name: envoy.clusters.composite, typed_config: {"@type": type.googleapis.com/envoy.extensions.clusters.composite.v3.ClusterConfig, clusters: [{name: samepod_verified}]}}}`
	noAddress     = "503 no-verdict"
	neverAsked    = "samepod returned no address, so there is no host"
	assertsOnly   = "503 no-verdict"
	failOpen      = "failure_mode_allow: true"
	sampled       = "filter_enabled: {default_value: {numerator: 0}}"
	byMetadata    = "filter_enabled_metadata: {filter: none, path: [{key: k}], value: {present_match: true}}"
	authzIsAbsent = "load_assignment: {endpoints: [{lb_endpoints: [{endpoint: $ENDPOINT_NOBODY}]}]}"
)

var noAssertion = edit{withoutAssertion, ""}

var uncheckedHazards = []scene{
	{rules: "check-missing", name: "resolve", upstream: resolve, edits: []edit{{dropFilters, "[" + checkFilter + "]"}}, probe: askDenied(),
		mutated: from{36: noAddress}, safe: from{36: "409 pod-replaced"}, holds: neverAsked},
	{rules: "check-missing", name: "both", upstream: both, edits: []edit{{dropFilters, "[" + checkFilter + ", " + copyFilter + "]"}}, probe: askDenied(),
		mutated: from{36: noAddress}, safe: from{36: "409 pod-replaced"}, holds: neverAsked},
	{rules: "check-missing assertion-missing", name: "assert-unasserted", upstream: assert, edits: []edit{{dropFilters, "[" + checkFilter + "]"}, noAssertion}, probe: askDenied(),
		mutated: from{36: "200 ls@A"}, safe: from{36: "409 pod-replaced"}},
	{rules: "check-missing destination-header", name: "with-a-header", upstream: resolve, edits: []edit{{dropFilters, "[" + checkFilter + "]"}, {inCluster, httpHeader}}, probe: askDenied("x-where", "$B"),
		mutated: from{36: "200 ls@B"}, safe: from{36: "409 pod-replaced"}},

	{rules: "sends-itself", name: "cache", upstream: assert, given: []edit{toB}, edits: []edit{{beforeCheck, caches}}, probe: ask("GET", "/ping"),
		mutated: from{39: "200 ping@B"}, safe: from{39: "409 upstream-not-verified"}, unlogged: cacheSends},
	{rules: "sends-itself", name: "cache-of-anybody", upstream: assert, edits: []edit{{beforeCheck, caches}}, probe: askWithoutClaim("/ping"),
		mutated: from{36: "200 ping@A"}, safe: from{36: "400 claim-missing"}, unlogged: cacheSends},
	{rules: "several-addresses", name: "composite", upstream: assert, given: []edit{toB}, edits: []edit{{addCluster, composite}, {inAction, "cluster: composite"}}, probe: ask("GET", "/ping"),
		mutated: from{39: "200 ping@B"}, safe: from{39: "409 upstream-not-verified"}},

	{rules: "failure-mode-allow", name: "resolve", upstream: resolve, cold: true, edits: []edit{{inCheck, failOpen}}, probe: askDenied(),
		mutated: from{36: noAddress}, safe: from{36: noAddress}, holds: neverAsked},
	{rules: "failure-mode-allow assertion-missing", name: "assert-unasserted", upstream: assert, cold: true, edits: []edit{{inCheck, failOpen}, noAssertion}, probe: askDenied(),
		mutated: from{36: "200 ls@A"}, safe: from{36: noAddress}},
	{rules: "failure-mode-allow address-writer", name: "with-a-writer", upstream: resolve, cold: true, edits: []edit{{inCheck, failOpen}, {atConnection, connWriter}}, probe: askDenied(),
		mutated: from{36: "200 ls@B"}, safe: from{36: noAddress}},

	{rules: "shadow-mode", name: "resolve", upstream: resolve, edits: []edit{{inCheck, "shadow_mode: true"}}, probe: askDenied(),
		mutated: from{38: noAddress}, safe: from{38: "409 pod-replaced"}, holds: "a denial carries no address; TestShadowMode has the control"},
	{rules: "shadow-mode assertion-missing", name: "assert-unasserted", upstream: assert, edits: []edit{{inCheck, "shadow_mode: true"}, noAssertion}, probe: askDenied(),
		mutated: from{38: "200 ls@A"}, safe: from{38: "409 pod-replaced"}},

	{rules: "filter-enabled", name: "resolve", upstream: resolve, edits: []edit{{inCheck, sampled}}, probe: askDenied(),
		mutated: from{36: noAddress}, safe: from{36: "409 pod-replaced"}, holds: neverAsked},
	{rules: "filter-enabled assertion-missing", name: "assert-unasserted", upstream: assert, edits: []edit{{inCheck, sampled}, noAssertion}, probe: askDenied(),
		mutated: from{36: "200 ls@A"}, safe: from{36: "409 pod-replaced"}},
	{rules: "filter-enabled assertion-missing", name: "metadata-assert-unasserted", upstream: assert, edits: []edit{{inCheck, byMetadata}, noAssertion}, probe: askDenied(),
		mutated: from{36: "200 ls@A"}, safe: from{36: "409 pod-replaced"}},

	{rules: "check-disabled", name: "resolve", upstream: resolve, edits: []edit{{inRoute, "typed_per_filter_config: {" + disabled + "}"}}, probe: askDenied(),
		mutated: from{36: noAddress}, safe: from{36: "409 pod-replaced"}, holds: neverAsked},
	{rules: "check-disabled assertion-missing", name: "route-assert-unasserted", upstream: assert, edits: []edit{{inRoute, "typed_per_filter_config: {" + disabled + "}"}, noAssertion}, probe: askDenied(),
		mutated: from{36: "200 ls@A"}, safe: from{36: "409 pod-replaced"}},
	{rules: "check-disabled assertion-missing", name: "virtual-host-assert-unasserted", upstream: assert, edits: []edit{{inHost, "typed_per_filter_config: {" + disabled + "}"}, noAssertion}, probe: askDenied(),
		mutated: from{36: "200 ls@A"}, safe: from{36: "409 pod-replaced"}},
	{rules: "check-disabled assertion-missing", name: "route-config-assert-unasserted", upstream: assert, edits: []edit{{inRouteConfig, "typed_per_filter_config: {" + disabled + "}"}, noAssertion}, probe: askDenied(),
		mutated: from{36: "200 ls@A"}, safe: from{36: "409 pod-replaced"}},
	{rules: "check-disabled destination-header", name: "with-a-header", upstream: both, edits: []edit{{inRoute, "typed_per_filter_config: {" + disabled + "}"}, {inCluster, httpHeader}}, probe: askDenied("x-where", "$B"),
		mutated: from{36: "200 ls@B", 39: noAddress}, safe: from{36: "409 pod-replaced"}, holds: "from 1.39 the assertion"},
	{rules: "check-disabled address-writer", name: "behind-proxy-protocol", upstream: resolve, edits: []edit{{inRoute, "typed_per_filter_config: {" + disabled + "}"}, {inListener, proxied}}, probe: askBehindProxy,
		mutated: from{36: "200 ping@B"}, safe: from{36: "400"}},

	{rules: "clear-route-cache", name: "route-by-the-answer", upstream: both, probe: ask("GET", "/ping"),
		given:   []edit{{addCluster, otherB}, {addRoute, "{match: {prefix: /, headers: [{name: x-samepod-pod-uid, present_match: true}]}, route: {cluster: other}}"}},
		edits:   []edit{{inCheck, "clear_route_cache: true"}},
		mutated: from{36: "200 ping@B"}, safe: from{36: "200 ping@A"}},
	{rules: "other-cluster", name: "weighted", upstream: both, given: []edit{{addCluster, otherB}}, probe: ask("GET", "/ping"),
		edits:   []edit{{inAction, "{cluster: null, weighted_clusters: {clusters: [{name: samepod_verified, weight: 0}, {name: other, weight: 100}]}}"}},
		mutated: from{36: "200 ping@B"}, safe: from{36: "200 ping@A"}},
	{rules: "other-cluster", name: "header", upstream: both, given: []edit{{addCluster, otherB}}, probe: ask("GET", "/ping", "x-cluster", "other"),
		edits:   []edit{{inAction, "{cluster: null, cluster_header: x-cluster}"}},
		mutated: from{36: "200 ping@B"}, safe: from{36: "200 ping@A"}},
	{rules: "no-route", name: "another-host", upstream: both, edits: []edit{{inHost, `domains: ["mine.test"]`}}, probe: askDenied(),
		mutated: from{36: "404"}, safe: from{36: "409 pod-replaced"}, harm: "a request without a route is answered 404, and not checked"},
	{rules: "metadata-ingestion", name: "resolve", upstream: resolve, edits: []edit{{inCheck, "enable_dynamic_metadata_ingestion: false"}}, probe: ask("GET", "/ping"),
		mutated: from{36: noAddress}, safe: from{36: "200 ping@A"}, harm: "it serves nobody: no address, no host"},
}
