package lab_test

// Hazards in which somebody else says which address is dialled.

const (
	toSecond   = `{name: second, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config, metadata: [{metadata_namespace: envoy.filters.http.ext_authz, allow_overwrite: true, value: {samepod_upstream: $B}}]}}`
	connWriter = `{name: envoy.filters.network.set_filter_state, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.set_filter_state.v3.Config, on_new_connection: [{object_key: ` + originalDst + `, format_string: {text_format_source: {inline_string: "$B"}}}]}}`
	otherB     = `{name: other, type: STATIC, connect_timeout: 0.5s, load_assignment: {cluster_name: other, endpoints: [{lb_endpoints: [{endpoint: $ENDPOINT_B}]}]}}`
	resolver   = `typed_dns_resolver_config: {name: envoy.network.dns_resolver.cares, typed_config: {"@type": type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig, resolvers: [$DNS]}}`
	dnsCluster = `{type: LOGICAL_DNS, dns_lookup_family: V4_ONLY, ` + resolver + `, load_assignment: {cluster_name: samepod_verified, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: $NAME, port_value: $PORT}}}}]}]}}`
	dnsCache   = `dns_cache_config: {name: cache, dns_lookup_family: V4_ONLY, ` + resolver + `}`
	dfpCluster = `{lb_policy: CLUSTER_PROVIDED, cluster_type: {name: envoy.clusters.dynamic_forward_proxy, typed_config: {"@type": type.googleapis.com/envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig, allow_insecure_cluster_options: true, ` + dnsCache + `}}}`
	dfpFilter  = `{name: envoy.filters.http.dynamic_forward_proxy, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_forward_proxy.v3.FilterConfig, ` + dnsCache + `}}`
	proxied    = `listener_filters: [{name: envoy.filters.listener.proxy_protocol, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol}}]`
)

var addressHazards = []scene{
	{rules: "address-writer", name: "address-behind", upstream: resolve, edits: []edit{{beforeRouter, writer(originalDst, "$B")}}, probe: ask("GET", "/ping"),
		mutated: from{36: "200 ping@A", 39: "200 ping@B"}, safe: from{36: "200 ping@A"}, holds: "up to 1.38 the first writer of filter state wins"},
	{rules: "address-writer", name: "address-behind-asserted", upstream: both, edits: []edit{{beforeRouter, writer(originalDst, "$B")}}, probe: ask("GET", "/ping"),
		mutated: from{36: "200 ping@A", 39: "409 upstream-not-verified"}, safe: from{36: "200 ping@A"}, holds: "from 1.39 the assertion compares with the copy"},
	{rules: "address-writer", name: "address-and-copy-behind", upstream: both, edits: []edit{{beforeRouter, writer(originalDst, "$B", copied, "$B")}}, probe: ask("GET", "/ping"),
		mutated: from{36: "200 ping@A", 39: "409 upstream-not-verified"}, safe: from{36: "200 ping@A"}, holds: "from 1.39 the assertion compares with the metadata too"},
	{rules: "filter-between address-writer", name: "metadata-behind", upstream: both, edits: []edit{{beforeRouter, toSecond}}, probe: ask("GET", "/ping"),
		mutated: from{36: "200 ping@A", 39: "409 upstream-not-verified"}, safe: from{36: "200 ping@A"}, holds: "the address was copied before"},
	{rules: "filter-between address-writer", name: "everything-behind", upstream: both, edits: []edit{{beforeRouter, toSecond}, {beforeRouter, writer(originalDst, "$B", copied, "$B")}}, probe: ask("GET", "/ping"),
		mutated: from{36: "200 ping@A", 39: "200 ping@B"}, safe: from{36: "200 ping@A"}, holds: "up to 1.38 the first writer of filter state wins", unlogged: "the log tells the metadata as they are after the rewriting"},
	{rules: "filter-between address-writer address-copy pool-shared", name: "metadata-before-the-copy", upstream: both, edits: []edit{{behindCheck, toSecond}}, probe: ask("GET", "/ping"),
		mutated: from{36: "200 ping@B"}, safe: from{36: "200 ping@A"}, unlogged: "the log tells the metadata as they are after the rewriting"},
	{rules: "filter-between address-writer address-copy pool-shared", name: "metadata-before-the-copy-assert", upstream: assert, given: []edit{{inCluster, "load_assignment: {endpoints: [{lb_endpoints: [{endpoint: $ENDPOINT_B}]}]}"}}, edits: []edit{{behindCheck, toSecond}}, probe: ask("GET", "/ping"),
		mutated: from{39: "200 ping@B"}, safe: from{39: "409 upstream-not-verified"}, unlogged: "the log tells the metadata as they are after the rewriting"},

	{rules: "address-writer", name: "filter-before", upstream: resolve, edits: []edit{{beforeCheck, writer(originalDst, "$B")}}, probe: ask("GET", "/ping"),
		mutated: from{36: "200 ping@B", 39: "200 ping@A"}, safe: from{36: "200 ping@A"}, holds: "from 1.39 the last writer of filter state wins"},
	{rules: "address-writer", name: "connection", upstream: resolve, edits: []edit{{atConnection, connWriter}}, probe: ask("GET", "/ping"),
		mutated: from{36: "200 ping@B"}, safe: from{36: "200 ping@A"}},
	{rules: "address-writer", name: "connection-asserted", upstream: both, edits: []edit{{atConnection, connWriter}}, probe: ask("GET", "/ping"),
		mutated: from{36: "200 ping@B", 39: "409 upstream-not-verified"}, safe: from{36: "200 ping@A"}, holds: "from 1.39 the assertion"},
	{rules: "address-writer", name: "connection-denied", upstream: resolve, edits: []edit{{atConnection, connWriter}}, probe: askDenied(),
		mutated: from{36: "409 pod-replaced"}, safe: from{36: "409 pod-replaced"}, holds: "a denial ends the request"},
	{rules: "address-writer", name: "proxy-protocol", upstream: resolve, edits: []edit{{inListener, proxied}}, probe: askBehindProxy,
		mutated: from{36: "409 pod-replaced"}, safe: from{36: "400"}, holds: "a denial ends the request; what follows without one is check-disabled/behind-proxy-protocol"},
	{rules: "address-copy pool-shared", name: "of-a-header", upstream: resolve, edits: []edit{{inCopies, "on_request_headers: [" + objectYAML(originalDst, "%REQ(x-where)%") + "]"}}, probe: ask("GET", "/ping", "x-where", "$B"),
		mutated: from{36: "200 ping@B"}, safe: from{36: "200 ping@A"}},
	{rules: "address-copy pool-shared", name: "none-asserted", upstream: both, edits: []edit{{dropFilters, "[" + copyFilter + "]"}}, probe: ask("GET", "/ping"),
		mutated: from{36: "200 ping@A", 39: "409 upstream-not-verified"}, safe: from{36: "200 ping@A"}, holds: "up to 1.38 the cluster reads the metadata; from 1.39 the assertion refuses everything"},

	{rules: "destination-header", name: "beside-the-answer", upstream: resolve, edits: []edit{{inCluster, "original_dst_lb_config: {use_http_header: true, http_header_name: x-where}"}}, probe: ask("GET", "/ping", "x-where", "$B"),
		mutated: from{36: "200 ping@A"}, safe: from{36: "200 ping@A"}, holds: "what samepod returned comes before the header"},
	{rules: "destination-header", name: "port-override", upstream: resolve, edits: []edit{{inCluster, "original_dst_lb_config: {upstream_port_override: $OTHERPORT}"}}, probe: askBesideOther,
		mutated: from{36: "200 ping@O"}, safe: from{36: "200 ping@A"}},
	{rules: "destination-header", name: "port-override-asserted", upstream: both, edits: []edit{{inCluster, "original_dst_lb_config: {upstream_port_override: $OTHERPORT}"}}, probe: askBesideOther,
		mutated: from{36: "200 ping@O", 39: "409 upstream-not-verified"}, safe: from{36: "200 ping@A"}, holds: "from 1.39 the assertion"},

	{rules: "assertion-missing", name: "no-filter", upstream: assert, given: []edit{toB}, edits: []edit{{inProtocol, "http_filters: null"}}, probe: ask("GET", "/ping"),
		mutated: from{39: "200 ping@B"}, safe: from{39: "409 upstream-not-verified"}},
	{rules: "assertion-missing", name: "shadow-rules", upstream: assert, given: []edit{toB}, edits: []edit{{onlyShadow, ""}}, probe: ask("GET", "/ping"),
		mutated: from{39: "200 ping@B"}, safe: from{39: "409 upstream-not-verified"}},
	{rules: "assertion-missing", name: "no-condition", upstream: assert, given: []edit{toB}, edits: []edit{{unconditional, ""}}, probe: ask("GET", "/ping"),
		mutated: from{39: "200 ping@B"}, safe: from{39: "409 upstream-not-verified"}},
	{rules: "assertion-missing", name: "log-action", upstream: assert, given: []edit{toB}, edits: []edit{{inAssertion, "rules: {action: LOG}"}}, probe: ask("GET", "/ping"),
		mutated: from{39: "200 ping@B"}, safe: from{39: "409 upstream-not-verified"}},
	{rules: "assertion-missing", name: "behind-the-codec", upstream: assert, given: []edit{toB}, edits: []edit{{codecFirst, ""}}, probe: ask("GET", "/ping"),
		mutated: from{39: refused}, safe: from{39: "409 upstream-not-verified"}, holds: "Envoy takes the codec only as the last filter"},

	{rules: "connect", name: "tunnel", upstream: assert, given: []edit{toB}, edits: []edit{{addTunnel, ""}, {inManager, "upgrade_configs: [{upgrade_type: CONNECT}]"}}, probe: askThroughTunnel,
		mutated: from{39: "409 upstream-not-verified"}, safe: from{39: "404"}, holds: "the assertion sees a tunnel too"},
	{rules: "connect", name: "tunnel-resolve", upstream: both, edits: []edit{{addTunnel, ""}, {inManager, "upgrade_configs: [{upgrade_type: CONNECT}]"}}, probe: askThroughTunnel,
		mutated: from{36: "200, then 200 ping@A"}, safe: from{36: "404"}, unlogged: "requests in a tunnel are neither checked nor logged"},

	{rules: "several-addresses", name: "additional-addresses", upstream: assert, given: []edit{toNobody}, probe: askNobody,
		edits:   []edit{{inCluster, "load_assignment: {endpoints: [{lb_endpoints: [{endpoint: {address: $SOCKET_NOBODY, additional_addresses: [$ENDPOINT_B]}}]}]}"}},
		mutated: from{39: "200 ls@B"}, safe: from{39: "503 pod-unreachable"}},
	{rules: "several-addresses not-judged", name: "eds", upstream: assert, given: []edit{toNobody}, edits: []edit{{viaEDS, "{path: $DIR-eds.yaml, endpoint: {address: $SOCKET_NOBODY, additional_addresses: [$ENDPOINT_B]}}"}}, probe: askNobody,
		mutated: from{39: "200 ls@B"}, safe: from{39: "503 pod-unreachable"}},
	{rules: "several-addresses", name: "logical-dns", upstream: assert, given: []edit{toNobody}, edits: []edit{{replaceCluster, dnsCluster}}, probe: askNobody,
		mutated: from{39: "200 ls@B"}, safe: from{39: "503 pod-unreachable"}},
	{rules: "several-addresses", name: "dynamic-forward-proxy", upstream: assert, given: []edit{toNobody}, edits: []edit{{replaceCluster, dfpCluster}, {beforeCheck, dfpFilter}}, probe: askNobody,
		mutated: from{39: "200 ls@B"}, safe: from{39: "503 pod-unreachable"}},
}

var (
	toB      = edit{inCluster, "load_assignment: {endpoints: [{lb_endpoints: [{endpoint: $ENDPOINT_B}]}]}"}
	toNobody = edit{inCluster, "load_assignment: {endpoints: [{lb_endpoints: [{endpoint: $ENDPOINT_NOBODY}]}]}"}
)
