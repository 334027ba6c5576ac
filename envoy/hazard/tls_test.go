package hazard_test

import (
	"strings"
	"testing"

	"github.com/samepod/samepod/envoy"
)

const (
	tlsType   = `"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext`
	trusted   = `trusted_ca: {filename: /ca}, `
	exactName = `match_typed_subject_alt_names: [{san_type: DNS, matcher: {exact: a.example.org}}]`
	uidNames  = `match_typed_subject_alt_names: [{san_type: URI, matcher: {prefix: "spiffe://x/pod/"}}]`
)

// tls is a part of a cluster that speaks TLS.
func tls(common string) string {
	return `{transport_socket: {name: tls, typed_config: {` + tlsType + `, common_tls_context: {` + common + `}}}}`
}

// tlsRows are those of TestRules about whom Envoy takes for a Pod or for samepod.
var tlsRows = []row{
	{"pod-unproven", 40, envoy.Both, "cluster", tls(`validation_context: {` + exactName + `}`), "$C.transport_socket.common_tls_context.validation_context.trusted_ca"},
	{"pod-unproven", 40, envoy.Both, "cluster", tls(`validation_context: {` + trusted + `}`), "$C.transport_socket.common_tls_context.validation_context.match_typed_subject_alt_names"},
	{"pod-unproven", 40, envoy.Both, "cluster", tls(`validation_context: {` + trusted + exactName + `, trust_chain_verification: ACCEPT_UNTRUSTED}`), "$C.transport_socket.common_tls_context.validation_context.trust_chain_verification"},
	{"pod-unproven", 40, envoy.Both, "cluster", tls(`validation_context: {` + trusted + exactName + `, custom_validator_config: {name: mine}}`), "$C.transport_socket.common_tls_context.validation_context.custom_validator_config"},
	{"pod-unproven", 40, envoy.Both, "cluster", tls(`validation_context: {` + trusted + `match_typed_subject_alt_names: [{san_type: DNS, matcher: {suffix: .example.org}}]}`), "$C.transport_socket.common_tls_context.validation_context.match_typed_subject_alt_names[0]"},
	{"pod-unproven", 40, envoy.Both, "cluster", tls(`combined_validation_context: {default_validation_context: {}, validation_context_sds_secret_config: {name: ca}}`), "$C.transport_socket.common_tls_context.combined_validation_context.default_validation_context.match_typed_subject_alt_names"},
	{"pod-unproven", 40, envoy.Both, "cluster", `{transport_socket: {name: tls, typed_config: {` + tlsType + `}}}`, "$C.transport_socket.common_tls_context.validation_context.match_typed_subject_alt_names; pod-unproven $C.transport_socket.common_tls_context.validation_context.trusted_ca"},
	{"pod-unproven", 40, envoy.Both, "cluster", `{transport_socket_matches: [{name: m, transport_socket: {name: tls, typed_config: {` + tlsType + `, common_tls_context: {validation_context: {` + trusted + exactName + `}}}}}]}`, "$C.transport_socket"},
	{"pod-unproven", 40, envoy.Both, "cluster", `{transport_socket: {name: tls, typed_config: {` + tlsType + `, auto_host_sni: true, auto_sni_san_validation: true, common_tls_context: {validation_context: {` + trusted + exactName + `}}}}}`, "$C.transport_socket.auto_sni_san_validation"},
	{"pod-unproven", 40, envoy.Both, "cluster", tls(`validation_context: {` + trusted + uidNames + `}`), "$F"},
	{"samepod-unproven", 40, envoy.Both, "authz", `{load_assignment: {endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.0.0.1, port_value: 1}}}}]}]}}`, "$A.transport_socket"},
	{"samepod-unproven", 40, envoy.Both, "authz", `{load_assignment: {endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: /x}}, additional_addresses: [{address: {socket_address: {address: samepod.svc, port_value: 1}}}]}}]}]}}`, "$A.transport_socket"},
	{"samepod-unproven", 40, envoy.Both, "authz", `{type: EDS, load_assignment: null, eds_cluster_config: {eds_config: {ads: {}}}}`, "$A.transport_socket"},
	{"samepod-unproven", 40, envoy.Both, "authz", tls(`validation_context: {` + exactName + `}`), "$A.transport_socket.common_tls_context.validation_context.trusted_ca"},
	{"samepod-unproven", 40, envoy.Both, "authz", tls(`validation_context: {` + trusted + uidNames + `}`), "$A.transport_socket.common_tls_context.validation_context.match_typed_subject_alt_names[0]"},
	{"samepod-unproven", 40, envoy.Both, "authz", `{transport_socket: {name: new, typed_config: {"@type": type.googleapis.com/some.Socket}}}`, "$A.transport_socket"},
	{"samepod-unproven", 40, envoy.Both, "check", `{grpc_service: {envoy_grpc: null, google_grpc: {target_uri: x, stat_prefix: x}}}`, "$E.grpc_service; health-check $E.grpc_service"},
}

// TestTLS: what is rendered with TLS is clean, and each part of it is needed.
func TestTLS(t *testing.T) {
	const uids, names = "spiffe://example.org/pod/", `match_typed_subject_alt_names: [ { san_type: URI, matcher: { prefix: "spiffe://example.org/pod/" } } ]`
	const copied = "$S.on_request_headers[envoy.network.upstream_subject_alt_names]"
	for _, tc := range []struct {
		rule            string
		upstream        envoy.UpstreamTLS
		replica         envoy.ReplicaTLS
		samepod         string
		old, new, where string
	}{
		{"Pods by uid", envoy.UpstreamTLS{CASecret: "/ca", PodUIDPrefix: uids}, envoy.ReplicaTLS{}, "", "", "", ""},
		{"Pods by name", envoy.UpstreamTLS{CASecret: "/ca", Name: "pod.example.org"}, envoy.ReplicaTLS{}, "", "", "", ""},
		{"Pods by SPIFFE ID", envoy.UpstreamTLS{CASecret: "/ca", Name: "spiffe://example.org/pods"}, envoy.ReplicaTLS{}, "", "", "", ""},
		{"samepod elsewhere", envoy.UpstreamTLS{}, envoy.ReplicaTLS{CASecret: "/ca", Name: "samepod.svc"}, "10.0.0.1:9191", "", "", ""},
		{"samepod elsewhere, in plaintext", envoy.UpstreamTLS{}, envoy.ReplicaTLS{}, "10.0.0.1:9191", "", "", "samepod-unproven $A.transport_socket"},
		{"samepod by IPv6 loopback", envoy.UpstreamTLS{}, envoy.ReplicaTLS{}, "[::1]:9191", "", "", ""},
		{"another prefix is copied", envoy.UpstreamTLS{CASecret: "/ca", PodUIDPrefix: uids}, envoy.ReplicaTLS{}, "", uids + "%", "spiffe://example.org/%", "pod-unproven " + copied},
		{"a name of the client is copied", envoy.UpstreamTLS{CASecret: "/ca", PodUIDPrefix: uids}, envoy.ReplicaTLS{}, "", uids + "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:samepod_pod_uid)%", uids + "%REQ(x-uid)%", "pod-unproven " + copied},
		{"nothing is copied", envoy.UpstreamTLS{CASecret: "/ca", PodUIDPrefix: uids}, envoy.ReplicaTLS{}, "", "object_key: envoy.network.upstream_subject_alt_names", "object_key: mine", "pod-unproven $F"},
		{"the Host is the name", envoy.UpstreamTLS{CASecret: "/ca", PodUIDPrefix: uids}, envoy.ReplicaTLS{}, "", "        common_http_protocol_options:\n", "        upstream_http_protocol_options: {auto_san_validation: true}\n        common_http_protocol_options:\n", "pod-unproven $O.upstream_http_protocol_options.auto_san_validation"},
		{"a DNS name that reads alike", envoy.UpstreamTLS{CASecret: "/ca", PodUIDPrefix: uids}, envoy.ReplicaTLS{}, "", names, strings.Replace(names, "URI", "DNS", 1), "pod-unproven $C.transport_socket.common_tls_context.combined_validation_context.default_validation_context.match_typed_subject_alt_names[0]"},
	} {
		for _, v := range []envoy.Version{envoy.MinVersion, envoy.MaxVersion} {
			p := envoy.DefaultParams()
			p.Version, p.ClaimHeaders, p.UpstreamTLS, p.ReplicaTLS = v, claims, tc.upstream, tc.replica
			if tc.samepod != "" {
				r, err := envoy.ParseReplica(tc.samepod)
				if err != nil {
					t.Fatal(err)
				}
				p.Replicas = []envoy.Replica{r}
			}
			text, err := envoy.Bootstrap(p)
			if err != nil || strings.Count(string(text), tc.old) == 0 {
				t.Fatal(tc.rule, err)
			}
			all, err := check([]byte(strings.Replace(string(text), tc.old, tc.new, 1)), options(v, ""))
			if got := strings.Join(found(all), "; "); err != nil || got != places.Replace(tc.where) {
				t.Errorf("%s, %v: got %q, %v; want %q", tc.rule, v, got, err, places.Replace(tc.where))
			}
		}
	}
}
