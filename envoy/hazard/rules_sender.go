package hazard

import (
	"maps"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
)

// Rules about what sends requests besides routes.

// sendsItself: behind the check such a filter is filterBetween's.
func sendsItself(s *subject, found report) {
	for _, c := range s.checked() {
		for _, f := range c.filters[:c.check] {
			runs := func(r route) bool { _, off := f.disabledOn(r); return !off }
			if f.in(fetches) && slices.ContainsFunc(c.protectedRoutes(), runs) {
				found(f.place, "%s in front of the check", f.title())
			}
		}
	}
}

// judgeSenders reports filters, in any chain, that may send requests to the
// protected cluster by themselves: what names it, and what nobody can read.
func (s *subject) judgeSenders(found report) {
	for _, c := range s.chains {
		unread := c.filters[:max(c.check, 0)] // behind it is filterBetween's
		if len(c.protectedRoutes()) == 0 {
			unread = c.filters
		}
		for _, f := range unread {
			if f.is == nil {
				found(f.place, "the configuration of this filter is elsewhere")
			}
		}
		for _, f := range c.filters {
			s.judgeSender(f, found)
		}
		for _, r := range c.routes {
			for _, l := range r.levels {
				for _, name := range slices.Sorted(maps.Keys(l.perFilter)) {
					s.judgeSender(open(l.item("typed_per_filter_config", name, 0), name, l.perFilter[name]), found)
				}
			}
		}
	}
}

func (s *subject) judgeSender(f filter, found report) {
	if s.namesProtected(f.is) && !f.in(kindsOfReaders) || f.in(runsCode) && mentions(f.is, s.params.Cluster) {
		found(f.place, "%s, which names %s, or what leads there", f.title(), s.params.Cluster)
	}
}

// samepodExposed looks at every way, also where nothing is protected.
func samepodExposed(s *subject, found report) {
	authz := map[string]bool{authzCluster: true}
	s.eachCheck(func(_ place, m *authzv3.ExtAuthz) {
		authz[m.GetGrpcService().GetEnvoyGrpc().GetClusterName()] = true
	})
	delete(authz, "") // google_grpc
	for _, c := range s.chains {
		for _, r := range c.routes {
			if authz[r.cluster] {
				found(r.field("route"), "leads to %s", printable(r.cluster))
			}
		}
	}
	for _, l := range s.listeners {
		for i, chain := range append(slices.Clone(l.is.GetFilterChains()), l.is.GetDefaultFilterChain()) {
			for _, f := range s.networkFilters(l.item("filter_chains", chain.GetName(), i), chain.GetFilters()) {
				if m, ok := f.is.(*tcpv3.TcpProxy); ok && authz[m.GetCluster()] {
					found(f.place, "tcp_proxy sends connections to %s", printable(m.GetCluster()))
				}
			}
		}
	}
}

// isLeaf reports whether a cluster has hosts of its own, or says which clusters it
// has in their place.
func isLeaf(c *clusterv3.Cluster) bool {
	t := c.GetClusterType()
	if t == nil || t.GetTypedConfig() == nil && slices.Contains([]string{"envoy.cluster.eds", "envoy.cluster.logical_dns", "envoy.cluster.static", "envoy.cluster.strict_dns"}, t.GetName()) {
		return true
	}
	kind, _, _ := strings.Cut(clusterKind(c), ".")
	return slices.Contains([]string{"aggregate", "composite", "dns", "dynamic_forward_proxy", "redis"}, kind)
}

// clusterKind is the type of an extension that makes a cluster, such as dns.v3.DnsCluster.
func clusterKind(c *clusterv3.Cluster) string {
	t := c.GetClusterType()
	return strings.TrimPrefix(open("", t.GetName(), t.GetTypedConfig()).kind, "envoy.extensions.clusters.")
}
