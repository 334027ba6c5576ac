package hazard

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	rbacconfigv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	codecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	"google.golang.org/protobuf/proto"

	"github.com/samepod/samepod/envoy"
)

// Rules about the protected cluster.

func destinationHeader(s *subject, found report) {
	if s.params.Upstream == envoy.Assert {
		return
	}
	for _, c := range s.protected {
		if c.is.GetType() != clusterv3.Cluster_ORIGINAL_DST {
			found(c.field("type"), "%v; not ORIGINAL_DST", c.is.GetType())
			continue
		}
		at, o := c.field("original_dst_lb_config"), c.is.GetOriginalDstLbConfig()
		if o.GetUseHttpHeader() {
			found(at.field("use_http_header"), "true")
		}
		if o.GetHttpHeaderName() != "" {
			found(at.field("http_header_name"), "%s", printable(o.GetHttpHeaderName()))
		}
		if o.GetUpstreamPortOverride() != nil {
			found(at.field("upstream_port_override"), "%d", o.GetUpstreamPortOverride().GetValue())
		}
		if !proto.Equal(o.GetMetadataKey(), s.want.cluster.GetOriginalDstLbConfig().GetMetadataKey()) {
			found(at.field("metadata_key"), "%s", keyText(o.GetMetadataKey()))
		}
	}
}

func otherDestination(s *subject, found report) {
	for _, c := range s.clusters {
		if o := c.is.GetOriginalDstLbConfig(); c.is.GetName() != s.params.Cluster && (o.GetUseHttpHeader() || o.GetMetadataKey() != nil) {
			found(c.field("original_dst_lb_config"), "%s", dials(o))
		}
		if c.is.GetName() != s.params.Cluster && strings.HasPrefix(clusterKind(c.is), "dynamic_forward_proxy.") {
			found(c.field("cluster_type"), "dynamic_forward_proxy, which dials the Host of a request")
		}
	}
}

// dials says what chooses the host of an ORIGINAL_DST cluster.
func dials(o *clusterv3.Cluster_OriginalDstLbConfig) string {
	if o.GetUseHttpHeader() {
		return "dials the header " + printable(cmp.Or(o.GetHttpHeaderName(), "x-envoy-original-dst-host"))
	}
	return "dials the metadata " + printable(o.GetMetadataKey().GetKey())
}

func assertionMissing(s *subject, found report) {
	if s.params.Upstream != envoy.Resolve && !s.params.Asserts() {
		unasserted(s, found)
		return
	}
	if s.params.Upstream == envoy.Resolve {
		return
	}
	for _, c := range s.protected {
		judgeAssertion(s, c, found)
	}
}

// unasserted is assert before Envoy can: accepted when that is said, and then an
// answer without an address must be no allow.
func unasserted(s *subject, found report) {
	if s.params.Upstream != envoy.Assert {
		return // both, before it can assert, is resolve
	}
	for _, c := range s.checked() {
		if !s.opts.AcceptUnasserted {
			found(c.place, "assert, and Envoy %v cannot", s.params.Version)
		}
		if !slices.ContainsFunc(c.filters[c.check:], func(f filter) bool { return proto.Equal(f.is, s.want.guard) && !f.disabled }) {
			found(c.place, "no RBAC filter that requires an answer with an address")
		}
	}
}

func judgeAssertion(s *subject, c located[*clusterv3.Cluster], found report) {
	at := protocolPlace(c.place).field("http_filters")
	what := "no upstream_rbac"
	for _, f := range s.upstreamFilters(c) {
		if _, ok := f.is.(*codecv3.UpstreamCodec); ok {
			break
		}
		m, ok := f.is.(*rbacv3.RBAC)
		if !ok {
			continue
		}
		at = f.place
		if what = s.flaw(f, m); what == "" {
			s.judgeOverrides(f, found)
			return
		}
	}
	found(at, "%s", what)
}

// flaw is why an RBAC filter does not assert; each of its policies must, since any
// of them allows.
func (s *subject) flaw(f filter, m *rbacv3.RBAC) string {
	switch {
	case f.disabled:
		return "disabled"
	case m.GetMatcher() != nil:
		return "a matcher in place of rules"
	case m.GetRules() == nil:
		return "no rules that are enforced"
	case m.GetRules().GetAction() != rbacconfigv3.RBAC_ALLOW:
		return "the action is not ALLOW"
	}
	for _, name := range slices.Sorted(maps.Keys(m.GetRules().GetPolicies())) {
		p := m.GetRules().GetPolicies()[name]
		if p.GetCheckedCondition() != nil || !proto.Equal(p.GetCondition(), s.want.assertion.GetCondition()) || !proto.Equal(p.GetCelConfig(), s.want.assertion.GetCelConfig()) {
			return "the policy " + printable(name) + " has another condition than the rendered one"
		}
	}
	return ""
}

func (s *subject) judgeOverrides(f filter, found report) {
	for _, r := range s.protectedRoutes() {
		if at, off := f.disabledOn(r); off {
			found(at, "the assertion is switched off")
		}
		for _, o := range f.overrides(r) {
			found(o.place, "a route replaces the assertion")
		}
	}
}

func severalAddresses(s *subject, found report) {
	for _, c := range s.reaching {
		found(c.field("cluster_type"), "a cluster of clusters, with %s among them", s.params.Cluster)
	}
	if s.params.Upstream == envoy.Resolve {
		return
	}
	for _, c := range s.protected {
		var dns dnsv3.DnsCluster
		switch t := c.is.GetClusterType(); {
		case t == nil:
			if c.is.GetType() == clusterv3.Cluster_LOGICAL_DNS {
				found(c.field("type"), "LOGICAL_DNS")
			}
		case t.GetTypedConfig().UnmarshalTo(&dns) != nil:
			found(c.field("cluster_type"), "%s", printable(t.GetName()))
		case dns.GetAllAddressesInSingleEndpoint():
			found(c.field("cluster_type"), "all_addresses_in_single_endpoint")
		}
		if c.is.GetUpstreamConnectionOptions().GetHappyEyeballsConfig() != nil {
			found(c.field("upstream_connection_options").field("happy_eyeballs_config"), "set")
		}
		for _, e := range s.endpointsOf(c.is).GetEndpoints() {
			for _, h := range e.GetLbEndpoints() {
				if len(h.GetEndpoint().GetAdditionalAddresses()) > 0 {
					found(c.field("load_assignment").field("additional_addresses"), "%v has more", h.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
				}
			}
		}
	}
}

// endpointsOf are the hosts of a cluster, nil where they are elsewhere.
func (s *subject) endpointsOf(c *clusterv3.Cluster) *endpointv3.ClusterLoadAssignment {
	if c.GetLoadAssignment() != nil {
		return c.GetLoadAssignment()
	}
	if e, ok := s.endpoints[c.GetName()]; ok {
		return e
	}
	return s.endpoints[c.GetEdsClusterConfig().GetServiceName()]
}

// priorities are those that a route can give a request. Without thresholds Envoy
// has its own: 3 retries and 1024 connections.
var priorities = []corev3.RoutingPriority{corev3.RoutingPriority_DEFAULT, corev3.RoutingPriority_HIGH}

func eachThreshold(s *subject, f func(at place, t *clusterv3.CircuitBreakers_Thresholds)) {
	for _, c := range s.protected {
		at := c.field("circuit_breakers")
		for _, p := range priorities {
			here := at.item("thresholds", p.String(), 0)
			known := false
			for _, t := range c.is.GetCircuitBreakers().GetThresholds() {
				if t.GetPriority() == p {
					known = true
					f(here, t)
				}
			}
			if !known {
				f(here, nil)
			}
		}
	}
}

func connectionLimit(s *subject, found report) {
	eachThreshold(s, func(at place, t *clusterv3.CircuitBreakers_Thresholds) {
		if t.GetMaxConnections().GetValue() != math.MaxUint32 {
			found(at.field("max_connections"), "%s", value(t.GetMaxConnections(), "1024"))
		}
	})
	for _, c := range s.protected {
		if len(c.is.GetCircuitBreakers().GetPerHostThresholds()) > 0 {
			found(c.field("circuit_breakers").field("per_host_thresholds"), "set")
		}
		if c.is.GetPreconnectPolicy() != nil {
			found(c.field("preconnect_policy"), "connections are opened before a request is checked")
		}
	}
}

func retryClusters(s *subject, found report) {
	eachThreshold(s, func(at place, t *clusterv3.CircuitBreakers_Thresholds) {
		if t.GetMaxRetries() == nil || t.GetMaxRetries().GetValue() != 0 {
			found(at.field("max_retries"), "%s", value(t.GetMaxRetries(), "3"))
		}
		if t.GetRetryBudget() != nil {
			found(at.field("retry_budget"), "set, which overrides max_retries")
		}
	})
	for _, c := range s.protected {
		if p := protocol(c.is).GetRetryPolicy(); p != nil && retries(p) {
			found(protocolPlace(c.place).field("retry_policy"), "retry_on: %q", p.GetRetryOn())
		}
	}
}

func mirrorClusters(s *subject, found report) {
	for _, c := range s.clusters {
		for i, m := range protocol(c.is).GetRequestMirrorPolicies() {
			at := protocolPlace(c.place).item("request_mirror_policies", "", i)
			switch {
			case s.isProtected(m.GetCluster()) || m.GetClusterHeader() != "":
				found(at, "copies can reach %s unchecked", s.params.Cluster)
			case s.isProtected(c.is.GetName()):
				found(at, "copies to %s", printable(m.GetCluster()))
			}
		}
	}
}

func blackHole(s *subject, found report) {
	const most = time.Second
	for _, c := range s.protected {
		if t := c.is.GetConnectTimeout(); t == nil || t.AsDuration() > most {
			found(c.field("connect_timeout"), "%s; the most is %v", duration(t, "5s"), most)
		}
		if c.is.GetUpstreamConnectionOptions().GetTcpKeepalive() == nil {
			found(c.field("upstream_connection_options").field("tcp_keepalive"), "unset")
		}
		if !slices.ContainsFunc(c.is.GetUpstreamBindConfig().GetSocketOptions(), isUserTimeout) {
			found(c.field("upstream_bind_config").field("socket_options"), "no TCP_USER_TIMEOUT")
		}
	}
}

// isUserTimeout: TCP_USER_TIMEOUT is option 18 of IPPROTO_TCP, which is 6.
func isUserTimeout(o *corev3.SocketOption) bool {
	return o.GetLevel() == 6 && o.GetName() == 18 && o.GetIntValue() > 0
}
