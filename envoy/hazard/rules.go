package hazard

// report is how a rule says what it found.
type report func(at place, format string, args ...any)

// rules is every rule with what finds it broken, in the order of a request's way:
// is there a check, does it hold, what happens behind it, where it is dialled.
var rules = []struct {
	Rule

	find func(*subject, report)
}{
	{Rule{
		"nothing-protected", Hazard, "No route leads to the protected cluster, so nothing of this configuration is verified.",
		"Name the cluster of the Pods with --cluster, or route to samepod_verified.",
	}, nothingProtected},
	{Rule{
		"not-judged", Hazard, "This part is elsewhere, or of a type that samepod does not know. It may lead past the check.",
		"Check the running Envoy by its admin URL, which shows what came from elsewhere; look at unknown types by hand.",
	}, notJudged},
	{Rule{
		"check-missing", Hazard, "Requests reach the protected cluster and samepod is not asked: a stranger's Pod answers them.",
		"Put samepod's gRPC ext_authz, as samepod envoy filters prints it, into this chain, or route elsewhere.",
	}, checkMissing},
	{Rule{
		"sends-itself", Hazard, "This filter fetches answers from the cluster of the route itself, past the check and past what asserts. What it has stored of one Pod it gives to callers of another.",
		"Take cache and cache_v2 off chains with protected routes.",
	}, sendsItself},
	{Rule{
		"check-disabled", Hazard, "The check is switched off, or replaced, on a route that leads to the protected cluster.",
		"Take ExtAuthzPerRoute.disabled, FilterConfig.disabled and service overrides off protected routes.",
	}, checkDisabled},
	{Rule{
		"samepod-unproven", Hazard, "Whoever is on the path to samepod can answer in its place, and so allow anything and name any address.",
		"Reach samepod by loopback or a unix socket, or use --samepod-tls-ca-secret and --samepod-tls-name of samepod envoy cluster.",
	}, samepodUnproven},
	{Rule{
		"samepod-exposed", Hazard, "Callers reach samepod itself: they can ask it where any Pod is, and whose address that was.",
		"Take routes to the cluster of samepod away. Only the check asks it.",
	}, samepodExposed},
	{Rule{
		"failure-mode-allow", Hazard, "When samepod is down or slow, requests pass unchecked.",
		"Set failure_mode_allow: false.",
	}, failureModeAllow},
	{Rule{
		"shadow-mode", Hazard, "Denials are counted and not obeyed.",
		"Take shadow_mode away.",
	}, shadowMode},
	{Rule{
		"filter-enabled", Hazard, "A runtime key or metadata decides whether samepod is asked; where not, requests pass.",
		"Take filter_enabled and filter_enabled_metadata away, or set deny_at_disable to a default of true.",
	}, filterEnabled},
	{Rule{
		"metadata-ingestion", Hazard, "The verified address that samepod returns is dropped, so nothing can be dialled or compared.",
		"Take enable_dynamic_metadata_ingestion away; its default is true.",
	}, metadataIngestion},
	{Rule{
		"clear-route-cache", Hazard, "After the check another route is picked by what the request says then, and nobody checks that one.",
		"Set clear_route_cache: false, and no clear_route_cache_headers.",
	}, clearRouteCache},
	{Rule{
		"filter-between", Hazard, "A filter behind the check can clear the route, or rewrite the address and what it is compared with.",
		"Move it in front of ext_authz; behind it are set_filter_state and the router only, and in the cluster upstream_rbac and upstream_codec.",
	}, filterBetween},
	{Rule{
		"address-copy", Hazard, "The verified address is not copied directly behind the check, so what is dialled or compared can differ from it.",
		"Put the set_filter_state of samepod envoy filters, for this Envoy's version, directly behind ext_authz.",
	}, addressCopy},
	{Rule{
		"address-writer", Hazard, "Something besides samepod sets the address that is dialled, or what it is compared with. Up to 1.38 an earlier writer wins over samepod's copy, from 1.39 a later one.",
		"Take the original_dst listener filter, use_original_dst and every other writer of this key off listeners with protected routes; with proxy_protocol use both, from 1.39.",
	}, addressWriter},
	{Rule{
		"destination-header", Hazard, "The cluster does not dial exactly the address that samepod returns: a header, another key or another port decides.",
		"Render the cluster with samepod envoy cluster: ORIGINAL_DST with samepod's metadata_key and nothing else in original_dst_lb_config.",
	}, destinationHeader},
	{Rule{
		"assertion-missing", Hazard, "Nothing compares the host that Envoy picked with the verified address before it connects.",
		"Put the upstream_rbac of samepod envoy cluster in front of upstream_codec; it needs Envoy 1.39. Below, use resolve.",
	}, assertionMissing},
	{Rule{
		"several-addresses", Hazard, "A host of this cluster can have several addresses, of which Envoy asserts the first one and may dial another, or it hands requests to other clusters.",
		"Use STATIC, STRICT_DNS or EDS with one address for each endpoint, or resolve.",
	}, severalAddresses},
	{Rule{
		"pool-shared", Hazard, "A connection that was opened to one Pod is used for another Pod at the same address.",
		"From 1.38 copy samepod.pod_uid as it is rendered; below, set max_requests_per_connection: 1.",
	}, poolShared},
	{Rule{
		"pod-unproven", Hazard, "Envoy speaks TLS to Pods and takes more than the verified Pod's certificate: whoever has the address by then, or is on the path, answers.",
		"Use --upstream-tls-ca-secret with --upstream-tls-uid-prefix or --upstream-tls-name of samepod envoy filters and cluster.",
	}, podUnproven},
	{Rule{
		"connection-limit", Hazard, "A request waits for a connection with its verdict in hand, and is sent when the address has another owner.",
		"Set max_connections: 4294967295 for both priorities, no per_host_thresholds, no preconnect_policy; max_requests is the limit.",
	}, connectionLimit},
	{Rule{
		"retry", Hazard, "A retry sends the request again, later, unchecked, and perhaps a second time.",
		"No retry_policy on protected routes or clusters; max_retries: 0 and no retry_budget for both priorities.",
	}, retry},
	{Rule{
		"hedge", Hazard, "A hedged request is sent twice, the second time unchecked.",
		"No hedge_policy on protected routes.",
	}, hedge},
	{Rule{
		"mirror", Hazard, "A copy of the request is sent where nobody checked, or reaches Pods unchecked. Envoy does not assert copies.",
		"No request_mirror_policies on protected routes and clusters, and none elsewhere that name the protected cluster.",
	}, mirror},
	{Rule{
		"redirect", Hazard, "The Pod's Location header picks the next route.",
		"No internal_redirect_policy on protected routes.",
	}, redirect},
	{Rule{
		"other-cluster", Hazard, "What the request says, or chance, picks the cluster, so the checked one need not be the one that is dialled.",
		"Name the one cluster in cluster; no weighted_clusters, cluster_header, plugins or route_specifiers.",
	}, otherCluster},
	{Rule{
		"connect", Hazard, "A tunnel that Envoy ends is a raw connection: nothing is asserted for it, and what is in it is never checked. A CONNECT has no path, which has ended Envoy in ext_authz (CVE-2026-73547).",
		"No CONNECT and CONNECT-UDP in upgrade_configs of routes behind the check, nor of their connection manager.",
	}, connect},
	{Rule{
		"client-headers", Hazard, "A client can name a destination, a retry policy or a Pod uid in headers that Envoy or the Pod obeys.",
		"Remove them with the early_header_mutation_extensions of samepod envoy filters.",
	}, clientHeaders},
	{Rule{
		"forged-answers", Hazard, "A Pod can send samepod's own answer headers, so a caller takes its answer for a denial that was never forwarded.",
		"Name x-samepod-reason, x-samepod-decision and x-samepod-pod-uid in response_headers_to_remove of protected routes.",
	}, forgedAnswers},
	{Rule{
		"early-hints", Hazard, "Before 1.40 a Pod's 1xx answers reach the caller with whatever headers the Pod gives them, samepod's among them.",
		"Take proxy_100_continue away.",
	}, earlyHints},
	{Rule{
		"envoy-version", Hazard, "This Envoy breaks what the rules rest on, or samepod was not tested with it. 1.37.0 appends returned headers to those of the client and loses those of denials.",
		"Use the newest release of 1.36 to 1.40.",
	}, envoyVersion},
	{Rule{
		"envoy-patch", Note, "This release lacks fixes of August 2026 in what the path rests on: ext_authz, ORIGINAL_DST and upgrades (CVE-2026-73547, -73548, -73549).",
		"Use 1.36.10, 1.37.6, 1.38.4, 1.39.1 or newer.",
	}, envoyPatch},
	{Rule{
		"opaque-filter", Note, "This filter in front of the check runs code that can write any metadata and filter state. Where nothing asserts, what it writes may be dialled.",
		"Make sure that it never writes " + addressKey + ", samepod.upstream or samepod.pod_uid.",
	}, opaqueFilter},
	{Rule{
		"other-destination", Note, "Another cluster dials what a header, the Host or metadata say, Pods too. Whoever reaches it needs no verdict.",
		"Make sure that only trusted callers reach it, or keep it from dialling the addresses of Pods.",
	}, otherDestination},
	{Rule{
		"check-timeout", Note, "A check that may take so long gives a verdict that is as old when the request is sent, and holds requests while samepod is stuck.",
		"Set a grpc_service.timeout of at most 10s; samepod envoy filters prints 0.5s.",
	}, checkTimeout},
	{Rule{
		"request-body", Note, "Requests are read to their end before they are checked: samepod, which needs no body, gets it, and streams hang.",
		"Take with_request_body away.",
	}, requestBody},
	{Rule{
		"mutation-rules", Note, "Should samepod ever be wrong or taken over, it could rewrite requests.",
		"Use the decoder_header_mutation_rules of samepod envoy filters, and validate_mutations: true.",
	}, mutationRules},
	{Rule{
		"allowed-headers", Note, "samepod gets all headers, with secrets in them, or not those of the claim, or repeated ones joined.",
		"Name the claim's headers in allowed_headers, and set encode_raw_headers: true.",
	}, allowedHeaders},
	{Rule{
		"path-form", Note, "samepod reads the path and cuts it. Where Envoy does not make it plain before, the Pod may read another path in it than samepod did.",
		"Set normalize_path and merge_slashes, path_with_escaped_slashes_action: REJECT_REQUEST and headers_with_underscores_action: REJECT_REQUEST, as samepod envoy filters --path-form prints them.",
	}, pathForm},
	{Rule{
		"claim-headers", Note, "Headers of the claim reach the Pod, which may trust them or learn from them.",
		"Name them in request_headers_to_remove of the protected routes.",
	}, claimHeaders},
	{Rule{
		"health-check", Note, "Envoy does not know which samepod is healthy, or learns it late: a minute of 503 when samepod starts after Envoy.",
		"Use the health_checks and the panic threshold of the cluster samepod_authz that samepod envoy cluster prints.",
	}, healthCheck},
	{Rule{
		"black-hole", Note, "A Pod that vanished without a word keeps requests hanging, or keeps Envoy connecting while its address changes hands.",
		"Set tcp_keepalive, TCP_USER_TIMEOUT (level 6, name 18) and a connect_timeout of at most 1s.",
	}, blackHole},
	{Rule{
		"trailers", Note, "Trailers are not cleaned: in them a Pod can send samepod's headers to a caller, and a caller a Pod uid to a Pod.",
		"Speak HTTP/1 to Pods, without enable_trailers, or use the header_mutation filter that samepod envoy filters --upstream-protocol downstream prints.",
	}, trailers},
	{Rule{
		"no-route", Note, "A request without a route is not checked; it gets Envoy's 404, which no caller can tell from a Pod's.",
		"Have a virtual host for the domain *, and end each with a route for the prefix /.",
	}, noRoute},
	{Rule{
		"local-replies", Note, "Envoy's own answers do not say whether the command may have run.",
		"Use the local_reply_config of samepod envoy filters for this version and arrangement.",
	}, localReplies},
	{Rule{
		"stream-bound", Note, "A stream is checked once, at its beginning, and may last for ever.",
		"Set max_stream_duration on protected routes; 0s says that no bound is meant.",
	}, streamBound},
	{Rule{
		"admin-open", Note, "The admin interface can change the runtime, which overrides circuit breakers, drain listeners and show secrets, and is not on loopback. Every Envoy with an admin interface has that runtime layer unless layered_runtime names others.",
		"Bind it to 127.0.0.1 or a unix socket.",
	}, adminOpen},
}
