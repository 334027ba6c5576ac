package hazard

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// chain is the HTTP filters of a listener, and the routes behind them.
type chain struct {
	place // of the filters

	listener located[*listenerv3.Listener]
	manager  located[*hcmv3.HttpConnectionManager]
	outer    []filter // the listener filters and network filters in front
	filters  []filter
	check    int // the index of samepod's filter; -1 without one
	routes   []route
}

// route is one way from a chain to a cluster. A route with weighted clusters is
// several.
type route struct {
	place // of the route

	action    *routev3.RouteAction
	cluster   string  // empty if it is chosen later
	levels    []level // the general ones first
	table     located[*routev3.RouteConfiguration]
	hosts     located[*routev3.VirtualHost]
	protected bool // it leads to the protected cluster, or may
}

// level is what a route configuration, a virtual host, a route and a weighted
// cluster all can say.
type level struct {
	place

	fields // of the place where it acts as a route

	perFilter              map[string]*anypb.Any
	requestGone, replyGone []string // headers that are removed
	requestAdded           []*corev3.HeaderValueOption
	specifiers             bool // something may put another route in place
}

// fields are those of a level that say how a request is sent.
type fields struct {
	at      place
	retry   *routev3.RetryPolicy
	typed   *anypb.Any
	hedge   *routev3.HedgePolicy
	mirrors []*routev3.RouteAction_RequestMirrorPolicy
}

// walk finds every chain and every route of the configuration.
func (s *subject) walk() {
	for _, l := range s.listeners {
		s.walkListener(l)
	}
}

func (s *subject) walkListener(l located[*listenerv3.Listener]) {
	outer := s.listenerFilters(l)
	for _, f := range outer {
		s.judgeOuter(f, harmlessListener)
	}
	for i, c := range l.is.GetFilterChains() {
		s.walkConnection(l, outer, l.item("filter_chains", c.GetName(), i), c)
	}
	if c := l.is.GetDefaultFilterChain(); c != nil {
		s.walkConnection(l, outer, l.field("default_filter_chain"), c)
	}
	if l.is.GetFcdsConfig() != nil {
		s.gaps = append(s.gaps, gapf(l.field("fcds_config"), "filter chains come from elsewhere"))
	}
	if a := l.is.GetApiListener().GetApiListener(); a != nil {
		at := l.field("api_listener")
		s.walkFilter(l, nil, open(at, "api_listener", a))
	}
}

func (s *subject) walkConnection(l located[*listenerv3.Listener], outer []filter, at place, c *listenerv3.FilterChain) {
	all := s.networkFilters(at, c.GetFilters())
	for i, f := range all {
		s.walkFilter(l, slices.Concat(outer, all[:i]), f)
	}
}

// walkFilter follows a network filter to the clusters that it can reach.
func (s *subject) walkFilter(l located[*listenerv3.Listener], outer []filter, f filter) {
	switch m := f.is.(type) {
	case *hcmv3.HttpConnectionManager:
		at := f.place
		if parent, ok := strings.CutSuffix(string(at), ".filters["+f.name+"]"); ok {
			at = place(parent).field("http_connection_manager")
		}
		s.walkManager(l, outer, located[*hcmv3.HttpConnectionManager]{at, m})
	case *tcpv3.TcpProxy:
		s.walkTCP(outer, f, m)
	default:
		if s.namesProtected(f.is) {
			s.bypasses = append(s.bypasses, gapf(f.place, "%s names %s", f.kind, s.params.Cluster))
			return
		}
		s.judgeOuter(f, harmlessNetwork)
	}
}

// walkTCP: what is in front may choose the cluster of a tcp_proxy.
func (s *subject) walkTCP(outer []filter, f filter, m *tcpv3.TcpProxy) {
	direct := s.isProtected(m.GetCluster())
	for _, w := range m.GetWeightedClusters().GetClusters() {
		direct = direct || s.isProtected(w.GetName())
	}
	if direct {
		s.bypasses = append(s.bypasses, gapf(f.place, "tcp_proxy sends connections to %s", s.params.Cluster))
		return
	}
	for _, o := range outer {
		if strings.HasPrefix(o.kind, "network.sni_cluster.") || mentions(o.is, "envoy.tcp_proxy.cluster") {
			s.bypasses = append(s.bypasses, gapf(o.place, "the cluster of the tcp_proxy behind it is chosen per connection, and may be %s", s.params.Cluster))
		}
	}
}

// judgeOuter reports a filter in front of HTTP that nobody knows. Those that choose
// an address or a cluster have rules of their own.
func (s *subject) judgeOuter(f filter, harmless map[string]bool) {
	switch {
	case f.in(harmless), isOriginalDst(f), strings.HasPrefix(f.kind, "network.sni_cluster."):
	case f.is == nil:
		s.gaps = append(s.gaps, gapf(f.place, "the configuration of this filter is elsewhere"))
	default:
		s.gaps = append(s.gaps, gapf(f.place, "a filter of type %s", f.kind))
	}
}

func isOriginalDst(f filter) bool {
	return strings.HasPrefix(f.kind, "listener.original_dst.") || f.name == "envoy.filters.listener.original_dst"
}

func (s *subject) walkManager(l located[*listenerv3.Listener], outer []filter, m located[*hcmv3.HttpConnectionManager]) {
	routes := s.routesOf(m)
	add := func(at place, list string, filters []*hcmv3.HttpFilter) {
		c := chain{place: at.field(list), listener: l, manager: m, outer: outer, filters: s.httpFilters(at, list, filters), routes: routes}
		c.check = findCheck(c.filters)
		s.chains = append(s.chains, c)
	}
	add(m.place, "http_filters", m.is.GetHttpFilters())
	for i, u := range m.is.GetUpgradeConfigs() {
		if len(u.GetFilters()) > 0 { // upgrades have a chain of their own
			add(m.item("upgrade_configs", u.GetUpgradeType(), i), "filters", u.GetFilters())
		}
	}
}

// findCheck finds samepod's filter: the last gRPC ext_authz that asks the rendered
// cluster, or else the last one at all. Its cluster may have another name.
func findCheck(all []filter) int {
	last, ours := -1, -1
	for i, f := range all {
		m, ok := f.is.(*authzv3.ExtAuthz)
		if !ok || m.GetGrpcService() == nil {
			continue
		}
		last = i
		if m.GetGrpcService().GetEnvoyGrpc().GetClusterName() == authzCluster {
			ours = i
		}
	}
	if ours >= 0 {
		return ours
	}
	return last
}
