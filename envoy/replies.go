package envoy

import "fmt"

// Reply is an answer that Envoy gives by itself on a protected route, in the form
// of samepod's own. A caller can always tell whether its command may have run.
type Reply struct {
	Reason string
	Status int // 0 keeps Envoy's
	Title  string
	Detail string // for the caller; it names no address and nothing of Envoy's
	// MayHaveRun says that the Pod may have executed the request: "forwarded" is
	// then "unknown", else false.
	MayHaveRun bool
	// RetryAfter says that trying again is safe and may help.
	RetryAfter bool
	// Flags and Condition say in Envoy's words what happened: any of these response
	// flags, and this CEL condition, where there is one.
	Flags     string
	Condition string
}

// refused is how upstream_rbac's refusal reads. An operator's own RBAC filter reads
// the same, so what samepod returned decides which one it was.
const (
	refused   = "response.code_details.startsWith('rbac_access_denied')"
	hasAnswer = "metadata.filter_metadata['envoy.filters.http.ext_authz']['samepod_upstream'] != ''"
	noAnswer  = "(filter_state['samepod.upstream'] == b'-' || filter_state['samepod.upstream'] == b'')" // samepod was asked, and returned no address
)

// Replies returns the answers in the order in which they are tried. Those that may
// have run come first: where Envoy gives several reasons, the worst one counts.
func (p Params) Replies() []Reply {
	var all []Reply
	noVerdict := Reply{
		Reason: "no-verdict", Status: 503, Title: "No verdict on this request", RetryAfter: true,
		Detail: "The Pod could not be verified now. Nothing was forwarded; try again.",
	}
	unreachable := Reply{
		Reason: "pod-unreachable", Status: 503, Title: "The Pod did not accept the connection", RetryAfter: true,
		Detail: "The Pod is verified, but nobody accepts connections there (yet). Nothing was forwarded; try again.",
	}
	add := func(r Reply, flags, condition string) {
		r.Flags, r.Condition = flags, condition
		all = append(all, r)
	}
	if p.Asserts() {
		add(Reply{
			Reason: "upstream-not-verified", Status: 409, Title: "The upstream that Envoy picked is not the verified Pod",
			Detail: "The gateway was about to connect to another address than the verified Pod's, and did not. Nothing was forwarded.",
		}, "", refused+" && "+hasAnswer)
		add(noVerdict, "", refused+" && "+noAnswer)
	}
	if p.unasserted() {
		add(noVerdict, "", refused+" && "+noAnswer)
	}
	add(noVerdict, "", "response.code_details.startsWith('ext_authz_error')")
	if p.Upstream == Assert {
		// A cluster of the operator's has no host if its Pods are down.
		add(unreachable, "", "response.code_details == 'no_healthy_upstream'")
	} else {
		// An ORIGINAL_DST cluster has none if no address was returned.
		add(noVerdict, "", "response.code_details == 'no_healthy_upstream'")
	}
	add(Reply{
		Reason: "request-broken", Title: "The request is malformed or too large", MayHaveRun: true,
		Detail: "The request became invalid while it was read. What was sent of it before may have reached the Pod and been executed.",
	}, "", "(response.code_details.startsWith('http1.') || response.code_details.startsWith('http2.'))") // the flag, DPE, is set later
	add(Reply{
		Reason: "upstream-reset", Status: 502, Title: "The connection to the Pod broke", MayHaveRun: true,
		Detail: "The connection to the Pod broke before the answer was complete. The request may have been executed; ask the sandbox before you try again.",
	}, "UC, UR, LR, UPE", "")
	timeout := Reply{
		Reason: "upstream-timeout", Status: 504, Title: "The Pod did not answer in time", MayHaveRun: true,
		Detail: "The Pod did not answer in time. The request may have been executed; ask the sandbox before you try again.",
	}
	add(timeout, "UT, SI, DT, UMSDR", "")
	add(timeout, "", "response.code_details == 'max_duration_timeout'") // of a route's max_stream_duration: Envoy sets no flag, and says 408 if it was not read to its end
	add(unreachable, "UF", "")
	add(Reply{
		Reason: "overloaded", Status: 503, Title: "Too many requests in flight to Pods", RetryAfter: true,
		Detail: "The gateway has too many requests in flight to Pods. Nothing was forwarded; try again.",
	}, "UO", "")
	return all
}

// cel is the whole condition: ours only, by the protected cluster's name.
func (r Reply) cel(cluster string) string {
	here := fmt.Sprintf("xds.cluster_name == '%s'", cluster)
	if r.Condition == "" {
		return here
	}
	return here + " && " + r.Condition
}
