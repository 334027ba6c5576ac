package envoy

import "fmt"

// Reply is an answer that Envoy gives by itself on a protected route, in the form
// of samepod's own. A caller can always tell whether its command may have run.
type Reply struct {
	Reason string
	Status int
	Title  string
	// Forwarded is false where nothing of the request has left Envoy, and "unknown"
	// where the Pod may have executed it.
	Forwarded any
	// RetryAfter says that trying again is safe and may help.
	RetryAfter bool
	// When says in Envoy's words what happened: response flags, or a CEL condition
	// on response.code_details.
	Flags     string
	Condition string
}

// upstreamNotVerified is upstream_rbac's refusal. The second half keeps an
// operator's own RBAC filter, which knows no verdict, out of it.
var upstreamNotVerified = Reply{
	Reason: "upstream-not-verified", Status: 409, Title: "The upstream that Envoy picked is not the verified Pod", Forwarded: false,
	Condition: "response.code_details.startsWith('rbac_access_denied') && metadata.filter_metadata['envoy.filters.http.ext_authz']['samepod_upstream'] != ''",
}

// Replies returns the answers in the order in which they are tried.
func (p Params) Replies() []Reply {
	var all []Reply
	if p.Asserts() {
		all = append(all, upstreamNotVerified)
	}
	noVerdict := "response.code_details.startsWith('ext_authz_error')"
	if p.Upstream != Assert {
		// An ORIGINAL_DST cluster has no host if no address was returned. A cluster
		// of the operator's has none if its Pods are down: nothing ours.
		noVerdict = "(" + noVerdict + " || response.code_details == 'no_healthy_upstream')"
	}
	all = append(all, Reply{Reason: "no-verdict", Status: 503, Title: "No verdict on this request", Forwarded: false, RetryAfter: true, Condition: noVerdict})
	if p.Upstream == Assert {
		all = append(all, Reply{Reason: "pod-unreachable", Status: 503, Title: "No Pod to connect to", Forwarded: false, RetryAfter: true, Condition: "response.code_details == 'no_healthy_upstream'"})
	}
	return append(all,
		Reply{Reason: "pod-unreachable", Status: 503, Title: "The verified Pod did not accept the connection", Forwarded: false, RetryAfter: true, Flags: "UF"},
		Reply{Reason: "upstream-reset", Status: 502, Title: "The connection to the Pod broke; the request may have been executed", Forwarded: "unknown", Flags: "UC, UR, LR, UPE"},
		Reply{Reason: "overloaded", Status: 503, Title: "Too many requests in flight to Pods", Forwarded: false, RetryAfter: true, Flags: "UO"},
		Reply{Reason: "upstream-timeout", Status: 504, Title: "The Pod did not answer in time; the request may have been executed", Forwarded: "unknown", Flags: "UT, SI, DT, UMSDR"},
	)
}

// cel is the whole condition: ours only, by the protected cluster's name.
func (r Reply) cel(cluster string) string {
	here := fmt.Sprintf("xds.cluster_name == '%s'", cluster)
	if r.Condition == "" {
		return here
	}
	return here + " && " + r.Condition
}
