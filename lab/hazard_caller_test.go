package lab_test

import (
	"context"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
)

// Hazards in which the right Pod is reached, or nobody, and somebody learns or is
// told what they should not, or waits for ever.

const (
	readsBody  = "with_request_body: {max_request_bytes: 1024}"
	ownRBAC    = `{name: envoy.filters.http.rbac, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC, rules: {action: DENY, policies: {no-admin: {permissions: [{url_path: {path: {exact: /other/admin}}}], principals: [{any: true}]}}}}}`
	deadRoute  = "{match: {prefix: /other}, route: {cluster: other}, typed_per_filter_config: {" + disabled + "}}"
	deadOther  = `{name: other, type: STATIC, connect_timeout: 0.5s, load_assignment: {cluster_name: other, endpoints: [{lb_endpoints: [{endpoint: $ENDPOINT_NOBODY}]}]}}`
	ourCluster = "xds.cluster_name == 'samepod_verified'"
	ourAnswer  = "&& metadata.filter_metadata['envoy.filters.http.ext_authz']['samepod_upstream'] != ''"
)

var operator = []edit{{addCluster, deadOther}, {addRoute, deadRoute}, {beforeCheck, ownRBAC}}

var callerHazards = []scene{
	{rules: "mutation-rules", name: "path", upstream: both, says: alsoSets(":path", "/forge"), edits: []edit{{inCheck, "decoder_header_mutation_rules: null"}}, probe: ask("GET", "/ping"),
		mutated: from{36: "200 forge@A"}, safe: from{36: "500"}, unlogged: "the address is right"},
	{rules: "mutation-rules", name: "header", upstream: both, says: alsoSets("authorization", "stolen"), edits: []edit{{inCheck, "decoder_header_mutation_rules: null"}}, probe: seenByPod("/ping", []string{"authorization"}),
		mutated: from{36: "200, authorization: stolen ping@A"}, safe: from{36: "500"}, unlogged: "the address is right"},
	{rules: "claim-headers", name: "reach-the-pod", upstream: both, edits: []edit{{inRoute, "request_headers_to_remove: null"}}, probe: seenByPod("/ping", []string{"x-samepod-expect-pod-uid"}),
		mutated: from{36: "200, x-samepod-expect-pod-uid: uid-a ping@A"}, safe: from{36: "200 ping@A"}, harm: "the Pod learns the claim"},
	{rules: "client-headers", name: "twin-of-the-uid", upstream: both, edits: []edit{{inManager, keepHeaders}}, probe: seenByPod("/ping", []string{"x_samepod_pod_uid"}, "x_samepod_pod_uid", "evil"),
		mutated: from{36: "200, x_samepod_pod_uid: evil ping@A"}, safe: from{36: "200 ping@A"}, harm: "the right Pod is told a wrong uid"},
	{rules: "client-headers", name: "uid", upstream: both, says: believer, edits: []edit{{inManager, keepHeaders}}, probe: seenByPod("/ping", []string{"x-samepod-pod-uid"}, "x-samepod-pod-uid", "evil"),
		mutated: from{36: "200, x-samepod-pod-uid: evil ping@A"}, safe: from{36: "200 ping@A"}, harm: "the right Pod is told a wrong uid"},
	{rules: "forged-answers", name: "header", upstream: both, edits: []edit{{inRoute, "response_headers_to_remove: null"}}, probe: ask("GET", "/forge"),
		mutated: from{36: "200 forged forge@A"}, safe: from{36: "200 forge@A"}, harm: "the caller is told a wrong reason"},
	{rules: "trailers", name: "enabled", upstream: both, edits: []edit{{inManager, "http_protocol_options: {enable_trailers: true}"}, {inProtocol, "explicit_http_config: {http_protocol_options: {enable_trailers: true}}"}}, probe: askWithTrailers,
		mutated: from{36: "200, 2 trailers at the Pod, 3 at the caller trailers@A"}, safe: from{36: "200, 0 trailers at the Pod, 0 at the caller trailers@A"}, harm: "a Pod tells the caller a reason, and a caller tells the Pod a uid"},
	{rules: "early-hints", name: "proxied", upstream: both, edits: []edit{{inManager, "proxy_100_continue: true"}}, probe: bytesOf("GET /hints HTTP/1.1\n$CLAIM\n"),
		mutated: from{36: "103 forged hints@A", 40: "103 hints@A"}, safe: from{36: "200 hints@A"}, holds: "from 1.40 headers are removed from interim answers too", harm: "a Pod tells the caller a reason"},
	{rules: "allowed-headers", name: "secrets", upstream: both, says: tellsHeaders, edits: []edit{{inCheck, "allowed_headers: null"}}, probe: ask("GET", "/ping", "authorization", "Bearer secret"),
		mutated: from{36: "403 Bearer secret"}, safe: from{36: "403"}, harm: "samepod learns a secret"},
	{rules: "allowed-headers", name: "joined", upstream: both, edits: []edit{{inCheck, "encode_raw_headers: false"}}, probe: ask("GET", "/ping", "x-samepod-target", "sandboxes/b"),
		mutated: from{36: "400 claim-conflict"}, safe: from{36: "400 claim-conflict"}, holds: "samepod refuses a joined value as well"},
	{rules: "request-body", name: "upload", upstream: both, edits: []edit{{inCheck, readsBody}}, probe: askUpload,
		mutated: from{36: "413"}, safe: from{36: "200 upload@A"}, harm: "it serves fewer"},
	{rules: "local-replies", name: "none", upstream: both, edits: []edit{{inManager, "local_reply_config: null"}}, probe: ask("POST", "/reset"),
		mutated: from{36: "503 reset@A"}, safe: from{36: once}, harm: "the caller cannot tell that the command may have run"},
	{rules: "local-replies", name: "of-another-route", upstream: both, given: operator, edits: []edit{{weakMappers, "[" + `"` + ourCluster + `"` + "]"}}, probe: askWithoutClaim("/other"),
		mutated: from{36: "503 pod-unreachable"}, safe: from{36: "503"}, harm: "an answer that is not samepod's says that it is"},
	{rules: "local-replies", name: "of-another-rbac", upstream: both, given: operator, edits: []edit{{weakMappers, "[" + `"` + ourCluster + `", "` + ourAnswer + `"` + "]"}}, probe: askWithoutClaim("/other/admin"),
		mutated: from{36: "403", 39: "409 upstream-not-verified"}, safe: from{36: "403"}, harm: "an answer that is not samepod's says that it is"},
	{rules: "health-check", name: "no-traffic-interval", upstream: resolve, cold: true, edits: []edit{{inAuthz, "health_checks: [{timeout: 1s, interval: 60s, no_traffic_interval: 60s, unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: {}}]"}}, probe: askLate,
		mutated: from{36: "503 no-verdict"}, safe: from{36: "200 ping@A"}, harm: "it serves nobody for a minute"},
	{rules: "black-hole", name: "connect-timeout", upstream: both, edits: []edit{{inCluster, "connect_timeout: 30s"}}, probe: askHole,
		mutated: from{36: "503 pod-unreachable", 38: "no answer"}, safe: from{36: "503 pod-unreachable"}, holds: "below 1.38 the idle timeout of one second ends a connection that is not made yet", harm: "the caller waits"},
	{rules: "stream-bound", name: "duration", upstream: both, given: []edit{{inAction, "max_stream_duration: {max_stream_duration: 1s}"}}, edits: []edit{{inAction, "{max_stream_duration: null, idle_timeout: null}"}}, probe: askForSeconds,
		mutated: from{36: "still open ls@A"}, safe: from{36: "cut ls@A"}, harm: "a stream is checked once, at its beginning"},
}

// tellsHeaders denies with what it got to see.
func tellsHeaders(_ context.Context, req *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	r := denyWith(403, nil)
	for _, h := range req.GetAttributes().GetRequest().GetHttp().GetHeaderMap().GetHeaders() {
		if h.GetKey() == "authorization" {
			r.GetDeniedResponse().Headers = alsoHeader("x-samepod-reason", string(h.GetRawValue()))
		}
	}
	return r, nil
}
