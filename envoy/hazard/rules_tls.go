package hazard

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
)

// Rules about whom Envoy takes for a Pod, and whom for samepod.

// wantPrefix is the one that the rendering to compare with has.
const wantPrefix = "uid:pod/"

// socket is a transport socket of a cluster: plaintext, TLS or something else.
type socket struct {
	filter

	plain bool
	tls   *tlsv3.UpstreamTlsContext
}

func sockets(c located[*clusterv3.Cluster]) []socket {
	one := func(at place, t *corev3.TransportSocket) socket {
		s := socket{filter: open(at, t.GetName(), t.GetTypedConfig())}
		s.tls, _ = s.is.(*tlsv3.UpstreamTlsContext)
		s.plain = t == nil || strings.HasPrefix(s.socketKind(), "raw_buffer.")
		return s
	}
	all := []socket{one(c.field("transport_socket"), c.is.GetTransportSocket())}
	for i, m := range c.is.GetTransportSocketMatches() {
		all = append(all, one(c.item("transport_socket_matches", m.GetName(), i), m.GetTransportSocket()))
	}
	return all
}

func (f filter) socketKind() string {
	return strings.TrimPrefix(f.kind, "envoy.extensions.transport_sockets.")
}

// podUnproven: without TLS nothing is promised, so nothing is missing.
func podUnproven(s *subject, found report) {
	for _, c := range s.protected {
		all := sockets(c)
		if !slices.ContainsFunc(all, func(t socket) bool { return t.tls != nil }) {
			continue
		}
		for _, t := range all {
			if t.plain {
				found(t.place, "plaintext to some, and TLS to others")
			}
			if t.tls == nil {
				continue
			}
			for _, m := range judgeTrust(c.is, t, found) {
				if prefix := m.is.GetMatcher().GetPrefix(); prefix != "" && m.is.GetSanType() == tlsv3.SubjectAltNameMatcher_URI {
					s.judgeNameCopy(c, prefix, found)
				} else {
					found(m.place, "not one name: %v", m.is.GetMatcher())
				}
			}
		}
	}
}

// judgeNameCopy: the prefix is that of all Pods, so that whose name it must be is
// what samepod answered.
func (s *subject) judgeNameCopy(c located[*clusterv3.Cluster], prefix string, found report) {
	want := proto.CloneOf(s.want.copied(nameKey))
	format := want.GetFormatString().GetTextFormatSource()
	format.Specifier = &corev3.DataSource_InlineString{InlineString: prefix + strings.TrimPrefix(format.GetInlineString(), wantPrefix)}
	for _, chain := range s.checked() {
		all := chain.copies()
		i := slices.IndexFunc(all, func(v located[*statev3.FilterStateValue]) bool { return v.is.GetObjectKey() == nameKey })
		switch {
		case i < 0:
			found(chain.place, "%s is not copied directly behind %s, so any name that begins with %s will do", nameKey, chain.filters[chain.check].name, printable(prefix))
		case !s.sameCopy(all[i].is, want):
			found(all[i].place, "other than rendered for %s", printable(prefix))
		}
	}
	if protocol(c.is).GetUpstreamHttpProtocolOptions().GetAutoSanValidation() {
		found(protocolPlace(c.place).field("upstream_http_protocol_options.auto_san_validation"), "true: the request's Host is the name, in place of the verified Pod's")
	}
}

// judgeTrust reports a TLS context that takes any certificate, or any of its CA. It
// returns the matchers that allow more than one name.
func judgeTrust(c *clusterv3.Cluster, t socket, found report) []located[*tlsv3.SubjectAltNameMatcher] {
	at, common := t.field("common_tls_context").field("validation_context"), t.tls.GetCommonTlsContext()
	v, elsewhere := common.GetValidationContext(), common.GetValidationContext() == nil && common.GetValidationContextType() != nil
	if both := common.GetCombinedValidationContext(); both != nil {
		at = t.field("common_tls_context").field("combined_validation_context").field("default_validation_context")
		v = both.GetDefaultValidationContext()
		elsewhere = both.GetValidationContextSdsSecretConfig() != nil
	}
	pinned := len(v.GetVerifyCertificateHash())+len(v.GetVerifyCertificateSpki()) > 0
	authority := v.GetTrustedCa() != nil || v.GetSystemRootCerts() != nil || v.GetCaCertificateProviderInstance() != nil || elsewhere
	if v.GetCustomValidatorConfig() != nil {
		found(at.field("custom_validator_config"), "an extension decides: %s", printable(v.GetCustomValidatorConfig().GetName()))
	}
	if v.GetTrustChainVerification() == tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED && !pinned {
		found(at.field("trust_chain_verification"), "ACCEPT_UNTRUSTED")
	}
	if !authority && !pinned {
		found(at.field("trusted_ca"), "unset, which is any certificate")
	}
	asked := t.tls.GetSni() != "" && !t.tls.GetAutoHostSni() && !protocol(c).GetUpstreamHttpProtocolOptions().GetAutoSni()
	switch {
	case t.tls.GetAutoSniSanValidation() && !asked:
		found(t.field("auto_sni_san_validation"), "true, and the name that is asked for is of the request or of the host")
	case t.tls.GetAutoSniSanValidation(): // exactly the SNI
		return nil
	case len(v.GetMatchTypedSubjectAltNames()) == 0 && !pinned:
		found(at.field("match_typed_subject_alt_names"), "unset, which is any name")
	}
	var wide []located[*tlsv3.SubjectAltNameMatcher]
	for i, m := range v.GetMatchTypedSubjectAltNames() {
		if m.GetMatcher().GetExact() == "" {
			wide = append(wide, located[*tlsv3.SubjectAltNameMatcher]{at.item("match_typed_subject_alt_names", "", i), m})
		}
	}
	return wide
}

// samepodUnproven: what says yes must be samepod.
func samepodUnproven(s *subject, found report) {
	s.eachCheck(func(at place, m *authzv3.ExtAuthz) {
		if m.GetGrpcService().GetGoogleGrpc() != nil {
			found(at.field("grpc_service"), "google_grpc, whose credentials are not judged")
		}
		for _, c := range s.clusters {
			if c.is.GetName() != m.GetGrpcService().GetEnvoyGrpc().GetClusterName() {
				continue
			}
			for _, t := range sockets(c) {
				switch {
				case t.plain:
					judgePlain(t.place, s.endpointsOf(c.is), found)
				case t.tls == nil:
					found(t.place, "a transport socket of type %s", t.kind)
				default:
					for _, wide := range judgeTrust(c.is, t, found) {
						found(wide.place, "not one name: %v", wide.is.GetMatcher())
					}
				}
			}
		}
	})
}

// judgePlain: only what does not leave the machine needs no TLS.
func judgePlain(at place, hosts *endpointv3.ClusterLoadAssignment, found report) {
	if hosts == nil {
		found(at, "plaintext, to hosts that are elsewhere")
	}
	for _, e := range hosts.GetEndpoints() {
		for _, h := range e.GetLbEndpoints() {
			addresses := []*corev3.Address{h.GetEndpoint().GetAddress()}
			for _, more := range h.GetEndpoint().GetAdditionalAddresses() {
				addresses = append(addresses, more.GetAddress())
			}
			for _, a := range addresses {
				if host := a.GetSocketAddress().GetAddress(); a.GetPipe() == nil && host != "localhost" && !isLoopback(host) {
					found(at, "plaintext, to %s", printable(host))
				}
			}
		}
	}
}
