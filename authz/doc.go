// Package authz answers Envoy: may this request pass, and to which address?
//
// A check is three pure steps and one line that joins them:
//
//	CheckRequest ──request.go, claim.go──► Claim ──verdict.go──► Verdict ──response.go──► CheckResponse
//
// No step logs, counts or calls the next; server.go does. What the operator
// allows at all is in policy.go (scope, ports, addresses), the closed set of
// outcomes in reason.go. grpc.go and codec.go are the transport, metrics.go and
// log.go what people see of it.
//
// Every outcome is a [authv3.CheckResponse]: an allow, or a denied HTTP response.
// Never a gRPC error, which an operator's failure_mode_allow would turn into an
// allow, and never an empty response, which Envoy takes for one.
package authz

import authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

var _ authv3.AuthorizationServer = (*Server)(nil)
