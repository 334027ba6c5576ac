package hazard

import (
	"errors"
	"fmt"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// config is one Envoy's configuration, from a file or from the Envoy itself.
type config struct {
	live      bool   // it is a dump: what is not here is not there
	release   string // of the Envoy, where a dump says so
	admin     *bootstrapv3.Admin
	runtime   *bootstrapv3.LayeredRuntime
	listeners []located[*listenerv3.Listener]
	clusters  []located[*clusterv3.Cluster]
	routes    []located[*routev3.RouteConfiguration] // that listeners name (RDS)
	endpoints map[string]*endpointv3.ClusterLoadAssignment
	filters   map[string]*anypb.Any // that chains name (ECDS)
	gaps      []gap
}

func fromBootstrap(b *bootstrapv3.Bootstrap) *config {
	c := &config{admin: b.GetAdmin(), runtime: b.GetLayeredRuntime()}
	const static = place("static_resources")
	for i, l := range b.GetStaticResources().GetListeners() {
		c.listeners = append(c.listeners, located[*listenerv3.Listener]{static.item("listeners", l.GetName(), i), l})
	}
	for i, cl := range b.GetStaticResources().GetClusters() {
		c.clusters = append(c.clusters, located[*clusterv3.Cluster]{static.item("clusters", cl.GetName(), i), cl})
	}
	const dynamic = place("dynamic_resources")
	d := b.GetDynamicResources()
	if d.GetLdsConfig() != nil || d.GetLdsResourcesLocator() != "" {
		c.gaps = append(c.gaps, gapf(dynamic.field("lds_config"), "listeners come from elsewhere"))
	}
	if d.GetCdsConfig() != nil || d.GetCdsResourcesLocator() != "" {
		c.gaps = append(c.gaps, gapf(dynamic.field("cds_config"), "clusters come from elsewhere"))
	}
	return c
}

// fromDump reads the answer to /config_dump?include_eds.
func fromDump(dump *adminv3.ConfigDump) (*config, error) {
	c := &config{live: true, endpoints: map[string]*endpointv3.ClusterLoadAssignment{}, filters: map[string]*anypb.Any{}}
	var bootstrap, listeners, clusters bool
	for i, a := range dump.GetConfigs() {
		m, err := a.UnmarshalNew()
		if err != nil {
			return nil, fmt.Errorf("configs[%d]: %w", i, err)
		}
		switch m := m.(type) {
		case *adminv3.BootstrapConfigDump:
			bootstrap = true
			c.admin, c.runtime = m.GetBootstrap().GetAdmin(), m.GetBootstrap().GetLayeredRuntime()
			if v := m.GetBootstrap().GetNode().GetUserAgentBuildVersion().GetVersion(); v != nil {
				c.release = fmt.Sprintf("%d.%d.%d", v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
			}
		case *adminv3.ListenersConfigDump:
			listeners, err = true, c.dumpedListeners(m)
		case *adminv3.ClustersConfigDump:
			clusters, err = true, c.dumpedClusters(m)
		case *adminv3.RoutesConfigDump:
			err = c.dumpedRoutes(m)
		case *adminv3.EndpointsConfigDump:
			err = c.dumpedEndpoints(m)
		case *adminv3.EcdsConfigDump:
			err = c.dumpedFilters(m)
		}
		if err != nil {
			return nil, fmt.Errorf("configs[%d]: %w", i, err)
		}
	}
	if !bootstrap || !listeners || !clusters {
		return nil, errors.New("config dump: incomplete; allowed: the whole answer to /config_dump?include_eds, with the bootstrap, the listeners and the clusters")
	}
	return c, nil
}

// unpack is a resource of a dump.
func unpack[T proto.Message](a *anypb.Any, into T) (T, error) {
	return into, a.UnmarshalTo(into)
}

func (c *config) dumpedListeners(m *adminv3.ListenersConfigDump) error {
	add := func(at func(name string) place, a *anypb.Any) error {
		if a == nil {
			return nil
		}
		l, err := unpack(a, &listenerv3.Listener{})
		c.listeners = append(c.listeners, located[*listenerv3.Listener]{at(l.GetName()), l})
		return err
	}
	var errs []error
	for i, s := range m.GetStaticListeners() {
		errs = append(errs, add(func(name string) place { return place("static_resources").item("listeners", name, i) }, s.GetListener()))
	}
	for i, d := range m.GetDynamicListeners() {
		at := func(string) place { return place("").item("dynamic_listeners", d.GetName(), i) }
		errs = append(errs,
			add(at, d.GetActiveState().GetListener()),
			add(func(string) place { return at("").field("warming_state") }, d.GetWarmingState().GetListener()),
			add(func(string) place { return at("").field("draining_state") }, d.GetDrainingState().GetListener()))
	}
	return errors.Join(errs...)
}

func (c *config) dumpedClusters(m *adminv3.ClustersConfigDump) error {
	add := func(root place, list string, i int, a *anypb.Any) error {
		cl, err := unpack(a, &clusterv3.Cluster{})
		c.clusters = append(c.clusters, located[*clusterv3.Cluster]{root.item(list, cl.GetName(), i), cl})
		return err
	}
	var errs []error
	for i, s := range m.GetStaticClusters() {
		errs = append(errs, add("static_resources", "clusters", i, s.GetCluster()))
	}
	for i, d := range m.GetDynamicActiveClusters() {
		errs = append(errs, add("", "dynamic_clusters", i, d.GetCluster()))
	}
	for i, d := range m.GetDynamicWarmingClusters() {
		errs = append(errs, add("", "dynamic_warming_clusters", i, d.GetCluster()))
	}
	return errors.Join(errs...)
}

// dumpedRoutes leaves out static_route_configs: they stand in their listeners too.
func (c *config) dumpedRoutes(m *adminv3.RoutesConfigDump) error {
	for i, d := range m.GetDynamicRouteConfigs() {
		if d.GetRouteConfig() == nil {
			continue // not delivered yet
		}
		r, err := unpack(d.GetRouteConfig(), &routev3.RouteConfiguration{})
		if err != nil {
			return err
		}
		c.routes = append(c.routes, located[*routev3.RouteConfiguration]{place("").item("dynamic_route_configs", r.GetName(), i), r})
	}
	return nil
}

func (c *config) dumpedEndpoints(m *adminv3.EndpointsConfigDump) error {
	var all []*anypb.Any
	for _, s := range m.GetStaticEndpointConfigs() {
		all = append(all, s.GetEndpointConfig())
	}
	for _, d := range m.GetDynamicEndpointConfigs() {
		all = append(all, d.GetEndpointConfig())
	}
	for _, a := range all {
		e, err := unpack(a, &endpointv3.ClusterLoadAssignment{})
		if err != nil {
			return err
		}
		c.endpoints[e.GetClusterName()] = e
	}
	return nil
}

func (c *config) dumpedFilters(m *adminv3.EcdsConfigDump) error {
	for _, d := range m.GetEcdsFilters() {
		f, err := unpack(d.GetEcdsFilter(), &corev3.TypedExtensionConfig{})
		if err != nil {
			return err
		}
		c.filters[f.GetName()] = f.GetTypedConfig()
	}
	return nil
}
