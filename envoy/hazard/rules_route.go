package hazard

import (
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// Rules about protected routes, and the levels above them.

// retries reports whether a policy ever retries. num_retries: 0 is how a level
// says no to the one above.
func retries(p *routev3.RetryPolicy) bool {
	return p.GetNumRetries() == nil || p.GetNumRetries().GetValue() != 0
}

func retry(s *subject, found report) {
	for _, r := range s.protectedRoutes() {
		for _, l := range slices.Backward(r.levels) { // the most specific policy counts
			if l.typed != nil {
				found(l.at.field("retry_policy_typed_config"), "set")
			}
			if l.retry == nil {
				continue
			}
			if retries(l.retry) {
				found(l.at.field("retry_policy"), "retry_on: %q", l.retry.GetRetryOn())
			}
			break
		}
	}
	retryClusters(s, found)
}

func hedge(s *subject, found report) {
	for _, r := range s.protectedRoutes() {
		for _, l := range r.levels {
			if l.hedge != nil {
				found(l.at.field("hedge_policy"), "set")
			}
		}
	}
}

func mirror(s *subject, found report) {
	for _, c := range s.chains {
		for _, r := range c.routes {
			for _, l := range r.levels {
				for i, m := range l.mirrors {
					at := l.at.item("request_mirror_policies", "", i)
					switch {
					case s.isProtected(m.GetCluster()) || m.GetClusterHeader() != "":
						found(at, "copies can reach %s unchecked", s.params.Cluster)
					case r.protected:
						found(at, "copies to %s", printable(m.GetCluster()))
					}
				}
			}
		}
	}
	mirrorClusters(s, found)
}

func redirect(s *subject, found report) {
	for _, r := range s.protectedRoutes() {
		if r.action.GetInternalRedirectPolicy() != nil {
			found(r.field("route").field("internal_redirect_policy"), "set")
		}
		if r.action.GetInternalRedirectAction() == routev3.RouteAction_HANDLE_INTERNAL_REDIRECT { //nolint:staticcheck // deprecated, and still obeyed
			found(r.field("route").field("internal_redirect_action"), "HANDLE_INTERNAL_REDIRECT")
		}
	}
}

func otherCluster(s *subject, found report) {
	for _, c := range s.chains {
		for _, r := range c.protectedRoutes() {
			at := r.field("route")
			switch spec := r.action.GetClusterSpecifier().(type) {
			case *routev3.RouteAction_WeightedClusters:
				found(at.field("weighted_clusters"), "%d clusters", len(spec.WeightedClusters.GetClusters()))
			case *routev3.RouteAction_ClusterHeader:
				found(at.field("cluster_header"), "the header %s names the cluster, and may name %s", printable(spec.ClusterHeader), s.params.Cluster)
			case *routev3.RouteAction_ClusterSpecifierPlugin:
				found(at.field("cluster_specifier_plugin"), "a plugin names the cluster")
			case *routev3.RouteAction_InlineClusterSpecifierPlugin:
				found(at.field("inline_cluster_specifier_plugin"), "a plugin names the cluster")
			}
			for _, l := range r.levels {
				if l.specifiers {
					found(l.field("route_specifiers"), "an extension puts another route in place")
				}
			}
		}
	}
}

// connect looks at every route behind a check that runs: it is the check that a
// CONNECT can end.
func connect(s *subject, found report) {
	for _, c := range s.checked() {
		for i, u := range c.manager.is.GetUpgradeConfigs() {
			if strings.HasPrefix(strings.ToUpper(u.GetUpgradeType()), "CONNECT") && (u.GetEnabled() == nil || u.GetEnabled().GetValue()) {
				found(c.manager.item("upgrade_configs", u.GetUpgradeType(), i), "tunnels are let in")
			}
		}
		for _, r := range c.routes {
			if _, off := c.filters[c.check].disabledOn(r); off && !r.protected {
				continue
			}
			for i, u := range r.action.GetUpgradeConfigs() {
				tunnel := u.GetConnectConfig() != nil || strings.HasPrefix(strings.ToUpper(u.GetUpgradeType()), "CONNECT")
				if tunnel && (u.GetEnabled() == nil || u.GetEnabled().GetValue()) {
					found(r.field("route").item("upgrade_configs", u.GetUpgradeType(), i), "Envoy ends the tunnel")
				}
			}
		}
	}
}

func noRoute(s *subject, found report) {
	for _, r := range s.protectedRoutes() {
		if !slices.ContainsFunc(r.hosts.is.GetRoutes(), isCatchAll) {
			found(r.hosts.field("routes"), "none for every request")
		}
		if !slices.ContainsFunc(r.table.is.GetVirtualHosts(), func(h *routev3.VirtualHost) bool { return slices.Contains(h.GetDomains(), "*") }) {
			found(r.table.field("virtual_hosts"), "none for every domain")
		}
	}
}

func isCatchAll(r *routev3.Route) bool {
	m := r.GetMatch()
	return m.GetPrefix() == "/" && len(m.GetHeaders()) == 0 && len(m.GetQueryParameters()) == 0 && len(m.GetCookies()) == 0 &&
		len(m.GetDynamicMetadata()) == 0 && len(m.GetFilterState()) == 0 && m.GetGrpc() == nil && m.GetTlsContext() == nil && m.GetRuntimeFraction() == nil
}

func streamBound(s *subject, found report) {
	for _, c := range s.checked() {
		if c.manager.is.GetCommonHttpProtocolOptions().GetMaxStreamDuration() != nil {
			continue
		}
		for _, r := range c.protectedRoutes() {
			if r.action.GetMaxStreamDuration().GetMaxStreamDuration() == nil {
				found(r.field("route").field("max_stream_duration"), "unset")
			}
		}
	}
}
