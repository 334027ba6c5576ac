package hazard

import (
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// routesOf are the routes of a connection manager, wherever they stand.
func (s *subject) routesOf(m located[*hcmv3.HttpConnectionManager]) []route {
	switch spec := m.is.GetRouteSpecifier().(type) {
	case *hcmv3.HttpConnectionManager_RouteConfig:
		return s.walkRoutes(located[*routev3.RouteConfiguration]{m.field("route_config"), spec.RouteConfig})
	case *hcmv3.HttpConnectionManager_Rds:
		return s.namedRoutes(m.field("rds"), spec.Rds.GetRouteConfigName())
	case *hcmv3.HttpConnectionManager_ScopedRoutes:
		return s.scopedRoutes(m.field("scoped_routes"), spec.ScopedRoutes)
	}
	return nil
}

// namedRoutes are a route configuration that a listener takes from elsewhere.
func (s *subject) namedRoutes(at place, name string) []route {
	for _, r := range s.routes {
		if r.is.GetName() == name {
			return s.walkRoutes(r)
		}
	}
	s.gaps = append(s.gaps, gapf(at, "the routes %q are elsewhere", name))
	return nil
}

// scopedRoutes are chosen among by what a request says. What a management server
// sends may name any route configuration.
func (s *subject) scopedRoutes(at place, scoped *hcmv3.ScopedRoutes) []route {
	var all []route
	for i, sc := range scoped.GetScopedRouteConfigurationsList().GetScopedRouteConfigurations() {
		in := at.item("scoped_route_configurations_list", sc.GetName(), i)
		if sc.GetRouteConfiguration() != nil {
			all = append(all, s.walkRoutes(located[*routev3.RouteConfiguration]{in.field("route_configuration"), sc.GetRouteConfiguration()})...)
			continue
		}
		all = append(all, s.namedRoutes(in, sc.GetRouteConfigurationName())...)
	}
	if scoped.GetScopedRds() == nil {
		return all
	}
	if !s.live {
		s.gaps = append(s.gaps, gapf(at.field("scoped_rds"), "the routes are elsewhere"))
	}
	for _, r := range s.routes {
		all = append(all, s.walkRoutes(r)...)
	}
	return all
}

func (s *subject) walkRoutes(c located[*routev3.RouteConfiguration]) []route {
	if c.is.GetVhds() != nil {
		s.gaps = append(s.gaps, gapf(c.field("vhds"), "virtual hosts come from elsewhere, when they are asked for"))
	}
	top := level{
		place: c.place, perFilter: c.is.GetTypedPerFilterConfig(), specifiers: len(c.is.GetRouteSpecifiers()) > 0,
		requestAdded: c.is.GetRequestHeadersToAdd(),
		requestGone:  c.is.GetRequestHeadersToRemove(), replyGone: c.is.GetResponseHeadersToRemove(),
		fields: fields{at: c.place, mirrors: c.is.GetRequestMirrorPolicies()},
	}
	var all []route
	for i, h := range c.is.GetVirtualHosts() {
		at := c.item("virtual_hosts", h.GetName(), i)
		if h.GetMatcher() != nil {
			s.gaps = append(s.gaps, gapf(at.field("matcher"), "the routes are in a matcher"))
		}
		host := level{
			place: at, perFilter: h.GetTypedPerFilterConfig(), specifiers: len(h.GetRouteSpecifiers()) > 0,
			requestAdded: h.GetRequestHeadersToAdd(),
			requestGone:  h.GetRequestHeadersToRemove(), replyGone: h.GetResponseHeadersToRemove(),
			fields: fields{at, h.GetRetryPolicy(), h.GetRetryPolicyTypedConfig(), h.GetHedgePolicy(), h.GetRequestMirrorPolicies()},
		}
		for j, r := range h.GetRoutes() {
			if r.GetRoute() != nil {
				way := route{place: at.item("routes", r.GetName(), j), table: c, hosts: located[*routev3.VirtualHost]{at, h}, levels: []level{top, host}}
				all = append(all, s.waysOf(way, r)...)
			}
		}
	}
	return all
}

// waysOf are where one route can lead, one for each weighted cluster.
func (s *subject) waysOf(way route, r *routev3.Route) []route {
	action := r.GetRoute()
	here := level{
		place: way.place, perFilter: r.GetTypedPerFilterConfig(), specifiers: len(r.GetRouteSpecifiers()) > 0,
		requestAdded: r.GetRequestHeadersToAdd(),
		requestGone:  r.GetRequestHeadersToRemove(), replyGone: r.GetResponseHeadersToRemove(),
		fields: fields{way.field("route"), action.GetRetryPolicy(), action.GetRetryPolicyTypedConfig(), action.GetHedgePolicy(), action.GetRequestMirrorPolicies()},
	}
	way.action, way.levels = action, append(way.levels, here)
	for _, l := range way.levels {
		way.protected = way.protected || l.specifiers
	}
	switch spec := action.GetClusterSpecifier().(type) {
	case *routev3.RouteAction_Cluster:
		way.cluster, way.protected = spec.Cluster, way.protected || s.isProtected(spec.Cluster)
	case *routev3.RouteAction_WeightedClusters:
		return s.weighted(way, spec.WeightedClusters)
	case nil:
	default: // a header, a plugin: any cluster
		way.protected = true
	}
	return []route{way}
}

func (s *subject) weighted(way route, weights *routev3.WeightedCluster) []route {
	var all []route
	for i, w := range weights.GetClusters() {
		one := way
		one.cluster = w.GetName()
		at := way.field("route").field("weighted_clusters").item("clusters", w.GetName(), i)
		one.levels = append(slices.Clone(way.levels), level{
			place: at, perFilter: w.GetTypedPerFilterConfig(), fields: fields{at: at},
			requestAdded: w.GetRequestHeadersToAdd(),
			requestGone:  w.GetRequestHeadersToRemove(), replyGone: w.GetResponseHeadersToRemove(),
		})
		one.protected = way.protected || s.isProtected(w.GetName()) || w.GetClusterHeader() != ""
		all = append(all, one)
	}
	return all
}

// protectedRoutes are those of checked chains: without a check, the check is what
// is to be mended first.
func (s *subject) protectedRoutes() []route {
	var all []route
	for _, c := range s.checked() {
		all = append(all, c.protectedRoutes()...)
	}
	return all
}

func (c chain) protectedRoutes() []route {
	var all []route
	for _, r := range c.routes {
		if r.protected {
			all = append(all, r)
		}
	}
	return all
}

// checked are the chains with a check and something to protect.
func (s *subject) checked() []chain {
	var all []chain
	for _, c := range s.chains {
		if c.check >= 0 && len(c.protectedRoutes()) > 0 {
			all = append(all, c)
		}
	}
	return all
}
