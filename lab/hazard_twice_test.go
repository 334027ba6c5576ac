package lab_test

// Hazards in which a request is executed twice, or later than it was verified, or
// by somebody who was not verified besides.

const (
	limits      = "max_connections: 4294967295, max_pending_requests: 20000, max_requests: 20000"
	retries     = "circuit_breakers: {thresholds: [{priority: DEFAULT, max_retries: 3, " + limits + "}, {priority: HIGH, max_retries: 3, " + limits + "}]}"
	retriesHigh = "circuit_breakers: {thresholds: [{priority: DEFAULT, max_retries: 0, " + limits + "}]}" // HIGH has Envoy's defaults then
	budget      = "circuit_breakers: {thresholds: [{priority: DEFAULT, max_retries: 0, retry_budget: {}, " + limits + "}, {priority: HIGH, max_retries: 0, " + limits + "}]}"
	oneDefault  = "circuit_breakers: {thresholds: [{priority: DEFAULT, max_retries: 0, max_connections: 1}, {priority: HIGH, max_retries: 0, " + limits + "}]}"
	oneHigh     = "circuit_breakers: {thresholds: [{priority: DEFAULT, max_retries: 0, " + limits + "}, {priority: HIGH, max_retries: 0, max_connections: 1}]}"
	onReset     = "{retry_on: reset, num_retries: 1}"
	onSlow      = "{retry_on: 5xx, num_retries: 1, per_try_timeout: 0.3s}"
	toOther     = "request_mirror_policies: [{cluster: other}]"
	toItself    = "request_mirror_policies: [{cluster: samepod_verified}]"
	once        = "502 upstream-reset reset@A"
	twice       = "502 upstream-reset reset@A, reset@A"
	theBreaker  = "max_retries: 0"
	unmirrored  = "the access log has no line for a mirrored request"
	internal    = "internal_address_config: {cidr_ranges: [{address_prefix: 127.0.0.0, prefix_len: 8}]}"
	keepHeaders = "early_header_mutation_extensions: null"
)

var otherCluster = []edit{{addCluster, otherB}}

var twiceHazards = []scene{
	{rules: "retry", name: "route", upstream: both, edits: []edit{{inAction, "retry_policy: " + onReset}, {inCluster, retries}}, probe: ask("POST", "/reset"),
		mutated: from{36: twice}, safe: from{36: once}},
	{rules: "retry", name: "virtual-host", upstream: both, edits: []edit{{inHost, "retry_policy: " + onReset}, {inCluster, retries}}, probe: ask("POST", "/reset"),
		mutated: from{36: twice}, safe: from{36: once}},
	{rules: "retry", name: "cluster", upstream: both, edits: []edit{{inProtocol, "retry_policy: " + onReset}, {inCluster, retries}}, probe: ask("POST", "/reset"),
		mutated: from{38: twice}, safe: from{36: once}},
	{rules: "retry connection-limit", name: "high-priority", upstream: both, given: []edit{{inAction, "priority: HIGH"}}, edits: []edit{{inAction, "retry_policy: " + onReset}, {inCluster, retriesHigh}}, probe: ask("POST", "/reset"),
		mutated: from{36: twice}, safe: from{36: once}},
	{rules: "retry", name: "budget", upstream: both, edits: []edit{{inAction, "retry_policy: " + onReset}, {inCluster, budget}}, probe: ask("POST", "/reset"),
		mutated: from{36: twice}, safe: from{36: once}},
	{rules: "retry", name: "route-behind-the-breaker", upstream: both, edits: []edit{{inAction, "retry_policy: " + onReset}}, probe: ask("POST", "/reset"),
		mutated: from{36: once}, safe: from{36: once}, holds: theBreaker},
	{rules: "retry", name: "breaker-alone", upstream: both, edits: []edit{{inCluster, retries}}, probe: ask("POST", "/reset", "x-envoy-retry-on", "reset", "x-envoy-max-retries", "1"),
		mutated: from{36: once}, safe: from{36: once}, holds: "no policy, and the client's is removed"},

	{rules: "hedge retry", name: "route", upstream: both, edits: []edit{{inAction, "{retry_policy: " + onSlow + ", hedge_policy: {hedge_on_per_try_timeout: true}}"}, {inCluster, retries}}, probe: ask("GET", "/wait?for=1s"),
		mutated: from{36: "200 wait@A, wait@A"}, safe: from{36: "200 wait@A"}},
	{rules: "hedge retry", name: "virtual-host", upstream: both, edits: []edit{{inHost, "{retry_policy: " + onSlow + ", hedge_policy: {hedge_on_per_try_timeout: true}}"}, {inCluster, retries}}, probe: ask("GET", "/wait?for=1s"),
		mutated: from{36: "200 wait@A, wait@A"}, safe: from{36: "200 wait@A"}},
	{rules: "hedge", name: "behind-the-breaker", upstream: both, edits: []edit{{inAction, "hedge_policy: {hedge_on_per_try_timeout: true, initial_requests: 2}"}}, probe: ask("GET", "/wait?for=1s"),
		mutated: from{36: "200 wait@A"}, safe: from{36: "200 wait@A"}, holds: theBreaker},

	{rules: "mirror", name: "route", upstream: both, given: otherCluster, edits: []edit{{inAction, toOther}}, probe: ask("POST", "/command"),
		mutated: from{36: "200 ls@A, ls@B"}, safe: from{36: "200 ls@A"}, unlogged: unmirrored},
	{rules: "mirror", name: "virtual-host", upstream: both, given: otherCluster, edits: []edit{{inHost, toOther}}, probe: ask("POST", "/command"),
		mutated: from{36: "200 ls@A, ls@B"}, safe: from{36: "200 ls@A"}, unlogged: unmirrored},
	{rules: "mirror", name: "route-config", upstream: both, given: otherCluster, edits: []edit{{inRouteConfig, toOther}}, probe: ask("POST", "/command"),
		mutated: from{36: "200 ls@A, ls@B"}, safe: from{36: "200 ls@A"}, unlogged: unmirrored},
	{rules: "mirror", name: "cluster", upstream: both, given: otherCluster, edits: []edit{{inProtocol, toOther}}, probe: ask("POST", "/command"),
		mutated: from{38: "200 ls@A, ls@B"}, safe: from{36: "200 ls@A"}, unlogged: unmirrored},
	{rules: "mirror", name: "itself-resolve", upstream: resolve, edits: []edit{{inAction, toItself}}, probe: ask("POST", "/command"),
		mutated: from{36: "200 ls@A"}, safe: from{36: "200 ls@A"}, holds: "the copy has no address"},
	{rules: "mirror", name: "itself-assert", upstream: assert, edits: []edit{{inAction, toItself}}, probe: ask("POST", "/command"),
		mutated: from{39: "200 ls@A, ls@A"}, safe: from{39: "200 ls@A"}, unlogged: unmirrored},
	{rules: "mirror", name: "itself-assert-stranger", upstream: assert, given: []edit{{inCluster, "load_assignment: {endpoints: [{lb_endpoints: [{endpoint: $ENDPOINT_A}, {endpoint: $ENDPOINT_B}]}]}"}}, edits: []edit{{inAction, toItself}}, probe: askUntilPicked,
		mutated: from{39: "200 ls@A, ls@B"}, safe: from{39: "200 ls@A"}, unlogged: unmirrored}, // nothing asserts for the copy
	{rules: "mirror", name: "itself-assert-refused", upstream: assert, given: []edit{toB}, edits: []edit{{inAction, toItself}}, probe: ask("POST", "/command"),
		mutated: from{39: "409 upstream-not-verified"}, safe: from{39: "409 upstream-not-verified"}, holds: "what is refused is not copied"},

	{rules: "redirect", name: "route", upstream: both, given: []edit{{addCluster, otherB}, {addRoute, "{match: {path: /ping}, route: {cluster: other}, typed_per_filter_config: {" + disabled + "}}"}},
		edits: []edit{{inAction, "internal_redirect_policy: {}"}}, probe: ask("GET", "/redirect?to=http://x/ping"),
		mutated: from{36: "200 redirect@A, ping@B"}, safe: from{36: "302 redirect@A"}},

	{rules: "connection-limit", name: "default-priority", upstream: both, edits: []edit{{inCluster, oneDefault}}, probe: askBehindBusy,
		mutated: from{36: "200 ping@A, wait@A, ls@B"}, safe: from{36: "200 ping@A, wait@A, ls@A"}, unlogged: "B has the address that was verified"},
	{rules: "connection-limit", name: "high-priority", upstream: both, given: []edit{{inAction, "priority: HIGH"}}, edits: []edit{{inCluster, oneHigh}}, probe: askBehindBusy,
		mutated: from{36: "200 ping@A, wait@A, ls@B"}, safe: from{36: "200 ping@A, wait@A, ls@A"}, unlogged: "B has the address that was verified"},
	{rules: "connection-limit", name: "preconnect", upstream: resolve, says: believer, given: []edit{{inProtocol, "common_http_protocol_options: {idle_timeout: 10s}"}}, edits: []edit{{inCluster, "preconnect_policy: {per_upstream_preconnect_ratio: 3}"}}, probe: askSuccessor,
		mutated: from{36: "200, for B 200 ping@A, ls@A", 38: "200, for B 200 ping@A, ls@B"}, safe: from{36: "200, for B 200 ping@A, ls@B"}, holds: "from 1.38 the pool is kept by uid", unlogged: "A's connection has the address of B"},
	{rules: "pool-shared", name: "no-uid", upstream: resolve, says: believer, edits: []edit{{dropCopy, "samepod.pod_uid"}}, probe: askSuccessor,
		mutated: from{38: "200, for B 200 ping@A, ls@A"}, safe: from{38: "200, for B 200 ping@A, ls@B"}, unlogged: "A's connection has the address of B"},
	{rules: "pool-shared", name: "kept", upstream: resolve, says: believer, edits: []edit{{inProtocol, "common_http_protocol_options: {max_requests_per_connection: null, idle_timeout: 10s}"}}, probe: askSuccessor,
		mutated: from{36: "200, for B 200 ping@A, ls@A", 38: "200, for B 200 ping@A, ls@B"}, safe: from{36: "200, for B 200 ping@A, ls@B"}, holds: "from 1.38 the pool is kept by uid", unlogged: "A's connection has the address of B"},
	{rules: "address-copy pool-shared", name: "none-and-pools-shared", upstream: resolve, says: believer, edits: []edit{{dropFilters, "[" + copyFilter + "]"}}, probe: askSuccessor,
		mutated: from{36: "200, for B 200 ping@A, ls@B", 38: "200, for B 200 ping@A, ls@A"}, safe: from{36: "200, for B 200 ping@A, ls@B"}, holds: "below 1.38 a connection has one request", unlogged: "A's connection has the address of B"},

	{rules: "client-headers retry", name: "retry", upstream: both, given: []edit{{inManager, internal}}, edits: []edit{{inManager, keepHeaders}, {inCluster, retries}},
		probe: ask("POST", "/reset", "x-envoy-retry-on", "reset", "x-envoy-max-retries", "1"), mutated: from{36: twice}, safe: from{36: once}},
	{rules: "client-headers retry", name: "retry-not-the-edge", upstream: both, given: []edit{{inManager, "{use_remote_address: false, " + internal + "}"}}, edits: []edit{{inManager, keepHeaders}, {inCluster, retries}},
		probe: ask("POST", "/reset", "x-forwarded-for", "127.0.0.1", "x-envoy-retry-on", "reset", "x-envoy-max-retries", "1"), mutated: from{36: twice}, safe: from{36: once}},
	{rules: "client-headers retry", name: "hedge", upstream: both, given: []edit{{inManager, internal}}, edits: []edit{{inManager, keepHeaders}, {inCluster, retries}},
		probe:   ask("GET", "/wait?for=1s", "x-envoy-retry-on", "5xx", "x-envoy-max-retries", "1", "x-envoy-hedge-on-per-try-timeout", "true", "x-envoy-upstream-rq-per-try-timeout-ms", "300"),
		mutated: from{36: "200 wait@A, wait@A"}, safe: from{36: "200 wait@A"}},
	{rules: "client-headers", name: "retry-behind-the-breaker", upstream: both, given: []edit{{inManager, internal}}, edits: []edit{{inManager, keepHeaders}},
		probe: ask("POST", "/reset", "x-envoy-retry-on", "reset", "x-envoy-max-retries", "1"), mutated: from{36: once}, safe: from{36: once}, holds: theBreaker},
	{rules: "client-headers", name: "timeout", upstream: both, given: []edit{{inManager, internal}}, edits: []edit{{inManager, keepHeaders}},
		probe: ask("GET", "/wait?for=1s", "x-envoy-upstream-rq-timeout-ms", "100"), mutated: from{36: "504 upstream-timeout wait@A"}, safe: from{36: "200 wait@A"}, harm: "it only costs the caller the answer"},
}
