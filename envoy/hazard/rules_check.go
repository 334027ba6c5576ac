package hazard

import (
	"slices"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	"google.golang.org/protobuf/proto"

	"github.com/samepod/samepod/envoy"
)

// Rules about the check itself.

func nothingProtected(s *subject, found report) {
	for _, c := range s.chains {
		if len(c.protectedRoutes()) > 0 {
			return
		}
	}
	found("listeners", "no route to %s in %d HTTP chains", s.params.Cluster, len(s.chains))
}

func notJudged(s *subject, found report) {
	for _, g := range s.gaps {
		found(g.place, "%s", g.why)
	}
	if len(s.protected) == 0 {
		found(place("").item("clusters", s.params.Cluster, 0), "this cluster is not in the configuration")
	}
	s.judgeRuntime(found)
	for _, c := range s.checked() {
		for _, f := range c.filters[:c.check] {
			if f.is != nil && !f.in(harmlessHTTP) && !f.in(writesMetadata) && !f.in(runsCode) && !f.in(fetches) {
				found(f.place, "a filter of type %s in front of the check", f.kind)
			}
		}
	}
	s.judgeSenders(found)
	for _, c := range s.clusters {
		if !s.isProtected(c.is.GetName()) && !isLeaf(c.is) {
			found(c.field("cluster_type"), "%s, which may lead to other clusters", printable(c.is.GetClusterType().GetName()))
		}
	}
	for _, c := range s.protected {
		if s.params.Upstream != envoy.Resolve && c.is.GetType() == clusterv3.Cluster_EDS && s.endpointsOf(c.is) == nil {
			found(c.field("eds_cluster_config"), "whether an endpoint has several addresses is not known here")
		}
		if c.is.GetUpstreamConfig() != nil {
			found(c.field("upstream_config"), "an extension makes the connections")
		}
		for _, t := range sockets(c) { // that of a forward proxy connects to somebody else than the host
			if !t.plain && t.tls == nil {
				found(t.place, "a transport socket of type %s", t.kind)
			}
		}
	}
}

// judgeRuntime: a layer can override the circuit breakers, and with them what keeps
// requests from waiting and from being sent again. An admin_layer is in every Envoy
// that names no layers; who reaches the admin interface is adminOpen's.
func (s *subject) judgeRuntime(found report) {
	for i, l := range s.runtime.GetLayers() {
		at := place("layered_runtime").item("layers", l.GetName(), i)
		switch {
		case l.GetDiskLayer() != nil:
			found(at.field("disk_layer"), "what is in these files may override circuit_breakers")
		case l.GetRtdsLayer() != nil:
			found(at.field("rtds_layer"), "what the management server sends may override circuit_breakers")
		case mentions(l.GetStaticLayer(), "circuit_breakers"):
			found(at, "overrides circuit_breakers")
		}
	}
}

func checkMissing(s *subject, found report) {
	for _, b := range s.bypasses {
		found(b.place, "%s", b.why)
	}
	for _, c := range s.chains {
		ways := c.protectedRoutes()
		if c.check >= 0 || len(ways) == 0 {
			continue
		}
		what := "no ext_authz"
		for _, f := range c.filters {
			if m, ok := f.is.(*authzv3.ExtAuthz); ok && m.GetHttpService() != nil {
				what = "an ext_authz that speaks HTTP, which cannot return an address"
			}
		}
		found(c.place, "%s in front of %s", what, ways[0].place)
	}
}

func checkDisabled(s *subject, found report) {
	for _, c := range s.checked() {
		f := c.filters[c.check]
		for _, r := range c.protectedRoutes() {
			if at, off := f.disabledOn(r); off {
				found(at, "disabled: true, on the way to %s", r.place)
			}
			for _, o := range f.overrides(r) {
				p, ok := o.is.(*authzv3.ExtAuthzPerRoute)
				switch {
				case !ok:
					found(o.place, "a configuration of type %s", o.is.ProtoReflect().Descriptor().FullName())
				case p.GetCheckSettings().GetServiceOverride() != nil:
					found(o.field("check_settings"), "another service is asked")
				}
			}
		}
	}
}

// eachCheck calls f with every filter of samepod's that protects something.
func (s *subject) eachCheck(f func(at place, m *authzv3.ExtAuthz)) {
	for _, c := range s.checked() {
		f(c.filters[c.check].place, c.filters[c.check].is.(*authzv3.ExtAuthz))
	}
}

func failureModeAllow(s *subject, found report) {
	s.eachCheck(func(at place, m *authzv3.ExtAuthz) {
		if m.GetFailureModeAllow() {
			found(at.field("failure_mode_allow"), "true")
		}
	})
}

func shadowMode(s *subject, found report) {
	s.eachCheck(func(at place, m *authzv3.ExtAuthz) {
		if m.GetShadowMode() {
			found(at.field("shadow_mode"), "true")
		}
	})
}

func filterEnabled(s *subject, found report) {
	s.eachCheck(func(at place, m *authzv3.ExtAuthz) {
		if m.GetDenyAtDisable().GetDefaultValue().GetValue() {
			return
		}
		if m.GetFilterEnabled() != nil {
			found(at.field("filter_enabled"), "set, without deny_at_disable")
		}
		if m.GetFilterEnabledMetadata() != nil {
			found(at.field("filter_enabled_metadata"), "set, without deny_at_disable")
		}
	})
}

func metadataIngestion(s *subject, found report) {
	s.eachCheck(func(at place, m *authzv3.ExtAuthz) {
		if v := m.GetEnableDynamicMetadataIngestion(); v != nil && !v.GetValue() {
			found(at.field("enable_dynamic_metadata_ingestion"), "false")
		}
	})
}

// checkTimeout: none is 200 ms, and 0 is none at all.
func checkTimeout(s *subject, found report) {
	const most = 10 * time.Second
	s.eachCheck(func(at place, m *authzv3.ExtAuthz) {
		if t := m.GetGrpcService().GetTimeout(); t != nil && (t.AsDuration() == 0 || t.AsDuration() > most) {
			found(at.field("grpc_service").field("timeout"), "%v; the most is %v, and 0 is no bound", t.AsDuration(), most)
		}
	})
}

func requestBody(s *subject, found report) {
	s.eachCheck(func(at place, m *authzv3.ExtAuthz) {
		if m.GetWithRequestBody() != nil {
			found(at.field("with_request_body"), "set")
		}
	})
	for _, c := range s.checked() {
		for _, r := range c.protectedRoutes() {
			for _, o := range c.filters[c.check].overrides(r) {
				if p, ok := o.is.(*authzv3.ExtAuthzPerRoute); ok && p.GetCheckSettings().GetWithRequestBody() != nil {
					found(o.field("check_settings").field("with_request_body"), "set")
				}
			}
		}
	}
}

func mutationRules(s *subject, found report) {
	s.eachCheck(func(at place, m *authzv3.ExtAuthz) {
		if !proto.Equal(m.GetDecoderHeaderMutationRules(), s.want.check.GetDecoderHeaderMutationRules()) {
			found(at.field("decoder_header_mutation_rules"), "other than rendered")
		}
		if !m.GetValidateMutations() {
			found(at.field("validate_mutations"), "false")
		}
	})
}

func allowedHeaders(s *subject, found report) {
	s.eachCheck(func(at place, m *authzv3.ExtAuthz) {
		if len(m.GetAllowedHeaders().GetPatterns()) == 0 {
			found(at.field("allowed_headers"), "empty, which is all of them")
		}
		if !m.GetEncodeRawHeaders() {
			found(at.field("encode_raw_headers"), "false")
		}
		for _, h := range s.opts.ClaimHeaders {
			through := len(m.GetAllowedHeaders().GetPatterns()) == 0 || slices.ContainsFunc(m.GetAllowedHeaders().GetPatterns(), func(p matcher) bool { return matches(p, h) })
			held := slices.ContainsFunc(m.GetDisallowedHeaders().GetPatterns(), func(p matcher) bool { return matches(p, h) })
			if !through || held {
				found(at.field("allowed_headers"), "the claim's %s does not reach samepod", h)
			}
		}
	})
}

func healthCheck(s *subject, found report) {
	s.eachCheck(func(at place, m *authzv3.ExtAuthz) {
		name := m.GetGrpcService().GetEnvoyGrpc().GetClusterName()
		for _, c := range s.clusters {
			if c.is.GetName() == name {
				judgeHealth(c, s.want.authz, found)
				return
			}
		}
		found(at.field("grpc_service"), "the cluster of samepod is not here, or it is google_grpc, which has no health check")
	})
}

func judgeHealth(c located[*clusterv3.Cluster], want *clusterv3.Cluster, found report) {
	if len(c.is.GetHealthChecks()) == 0 {
		found(c.field("health_checks"), "none")
	}
	most := want.GetHealthChecks()[0].GetNoTrafficInterval().AsDuration()
	for i, h := range c.is.GetHealthChecks() {
		if h.GetNoTrafficInterval() == nil || h.GetNoTrafficInterval().AsDuration() > most {
			found(c.item("health_checks", "", i).field("no_traffic_interval"), "%s; the most is %v", duration(h.GetNoTrafficInterval(), "60s"), most)
		}
	}
	if p := c.is.GetCommonLbConfig().GetHealthyPanicThreshold(); p == nil || p.GetValue() != 0 {
		what := "unset, which is 50"
		if p != nil {
			what = strconv.FormatFloat(p.GetValue(), 'g', -1, 64)
		}
		found(c.field("common_lb_config").field("healthy_panic_threshold"), "%s: replicas that are not ready are asked", what)
	}
}

func envoyVersion(s *subject, found report) {
	if _, err := envoy.ParseVersion(s.release); err != nil {
		found("server", "Envoy %s", err)
	} else if s.release == "1.37.0" {
		found("server", "Envoy 1.37.0")
	}
}

// patched are the first releases with the fixes of August 2026; 1.40 has them all.
var patched = map[string]int{"1.36": 10, "1.37": 6, "1.38": 4, "1.39": 1}

func envoyPatch(s *subject, found report) {
	dot := strings.LastIndexByte(s.release, '.')
	line, level := s.release[:max(dot, 0)], s.release[dot+1:] // "1.40" has the line "1", which nobody patched
	patch, err := strconv.Atoi(level)
	if first, ok := patched[line]; ok && err == nil && patch < first {
		found("server", "Envoy %s; %s.%d has the fixes", s.release, line, first)
	}
}
