package hazard

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	rbacconfigv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	setstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"

	"github.com/samepod/samepod/envoy"
)

// The names of the rendering that have a meaning to Envoy, or between its filters.
const (
	authzCluster = "samepod_authz"
	addressKey   = "envoy.network.transport_socket.original_dst_address"
	copyKey      = "samepod.upstream"
	uidKey       = "samepod.pod_uid"
	nameKey      = "envoy.network.upstream_subject_alt_names"
	namespace    = "envoy.filters.http.ext_authz"
	httpOptions  = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
)

// stateKeys are the objects of filter state that only samepod's copies may write.
var stateKeys = []string{addressKey, copyKey, uidKey, nameKey}

// subject is what the rules look at: the configuration, every way to the protected
// cluster in it, and what samepod renders for the same arrangement.
type subject struct {
	*config

	opts    Options
	params  envoy.Params
	release string // "1.40", or "1.40.0" where that is known
	want    rendering

	chains    []chain
	protected []located[*clusterv3.Cluster]
	reaching  []located[*clusterv3.Cluster] // that lead to the protected one
	bypasses  []gap
}

// rendering is the part of a rendered configuration that others are compared with.
type rendering struct {
	check      *authzv3.ExtAuthz
	copies     []*statev3.FilterStateValue
	guard      *rbacv3.RBAC         // only where nothing asserts
	assertion  *rbacconfigv3.Policy // only where something does
	chain      chain
	cluster    *clusterv3.Cluster
	authz      *clusterv3.Cluster
	claimsGone []string
	replyGone  []string
}

func newSubject(c *config, o Options) (*subject, error) {
	p := envoy.DefaultParams()
	p.AcceptUnasserted = true
	p.ClaimHeaders, p.PrivateHeaders = o.ClaimHeaders, o.PrivateHeaders
	p.SetsPath, p.PathHardening, p.SetsHost = o.SetsPath, o.SetsPath, o.SetsHost
	p.UpstreamTLS = envoy.UpstreamTLS{CASecret: "/any", PodUIDPrefix: wantPrefix} // for the copy of the name
	if o.Cluster != "" {
		p.Cluster = o.Cluster
	}
	s := &subject{config: c, opts: o, params: p, release: o.Version}
	if s.release == "" {
		s.release = c.release
	}
	if s.release == "" {
		s.release = envoy.MaxVersion.String()
	}
	s.params.Version = nearest(s.release)
	s.findClusters()
	s.walk()
	s.params.Upstream = o.Upstream
	if o.Upstream == "" {
		s.params.Upstream = s.arrangement()
	}
	if s.params.Upstream == envoy.Assert {
		s.params.Endpoints = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:1")} // any; a cluster needs one
	}
	text, err := envoy.Bootstrap(s.params)
	if err != nil {
		return nil, err
	}
	s.want, err = readRendering(text, s.params)
	return s, err
}

// nearest is the version by whose rules an Envoy is judged. One that samepod does
// not render for is a finding of its own.
func nearest(release string) envoy.Version {
	parts := strings.Split(release, ".")
	if len(parts) < 2 || parts[0] != "1" {
		return envoy.MaxVersion
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil {
		return envoy.MaxVersion
	}
	return max(envoy.MinVersion, min(envoy.Version(minor), envoy.MaxVersion))
}

// findClusters finds the protected cluster, and those that lead to it.
func (s *subject) findClusters() {
	for _, c := range s.clusters {
		if c.is.GetName() == s.params.Cluster {
			s.protected = append(s.protected, c)
		}
	}
	for grown := true; grown; { // one of clusters may lead to one of clusters
		grown = false
		for _, c := range s.clusters {
			if !s.isProtected(c.is.GetName()) && s.namesProtected(c.is.GetClusterType().GetTypedConfig()) {
				s.reaching, grown = append(s.reaching, c), true
			}
		}
	}
}

func (s *subject) isProtected(cluster string) bool {
	return cluster == s.params.Cluster || slices.ContainsFunc(s.reaching, func(c located[*clusterv3.Cluster]) bool { return c.is.GetName() == cluster })
}

// arrangement is what the configuration looks like. One that has lost the half of
// its assertion still looks like an assertion, and is then missing the rest.
func (s *subject) arrangement() envoy.Arrangement {
	resolves, asserts := len(s.protected) == 0, false
	for _, c := range s.protected {
		resolves = resolves || c.is.GetType() == clusterv3.Cluster_ORIGINAL_DST
		for _, f := range s.upstreamFilters(c) {
			_, ok := f.is.(*rbacv3.RBAC)
			asserts = asserts || ok
		}
	}
	for _, c := range s.chains {
		for _, f := range c.filters {
			if m, ok := f.is.(*setstatev3.Config); ok {
				asserts = asserts || slices.ContainsFunc(m.GetOnRequestHeaders(), func(v *statev3.FilterStateValue) bool { return v.GetObjectKey() == copyKey })
			}
		}
	}
	switch {
	case !resolves:
		return envoy.Assert
	case asserts:
		return envoy.Both
	}
	return envoy.Resolve
}

// protocol are the HTTP options of a cluster.
func protocol(c *clusterv3.Cluster) *httpv3.HttpProtocolOptions {
	var o httpv3.HttpProtocolOptions
	if a, ok := c.GetTypedExtensionProtocolOptions()[httpOptions]; ok && a.UnmarshalTo(&o) == nil {
		return &o
	}
	return nil
}

func protocolPlace(at place) place {
	return at.item("typed_extension_protocol_options", httpOptions, 0)
}

func (s *subject) upstreamFilters(c located[*clusterv3.Cluster]) []filter {
	return s.httpFilters(protocolPlace(c.place), "http_filters", protocol(c.is).GetHttpFilters())
}

// readRendering takes apart what samepod renders.
func readRendering(text []byte, p envoy.Params) (rendering, error) {
	c, err := read(text)
	if err != nil {
		return rendering{}, fmt.Errorf("the rendering: %w", err)
	}
	s := &subject{config: c, params: p}
	s.findClusters()
	s.walk()
	r := rendering{chain: s.chains[0], cluster: s.protected[0].is}
	for _, f := range r.chain.filters {
		switch m := f.is.(type) {
		case *authzv3.ExtAuthz:
			r.check = m
		case *setstatev3.Config:
			r.copies = m.GetOnRequestHeaders()
		case *rbacv3.RBAC:
			r.guard = m
		}
	}
	for _, f := range s.upstreamFilters(s.protected[0]) {
		if m, ok := f.is.(*rbacv3.RBAC); ok {
			for _, policy := range m.GetRules().GetPolicies() {
				r.assertion = policy
			}
		}
	}
	for _, cl := range c.clusters {
		if cl.is.GetName() == authzCluster {
			r.authz = cl.is
		}
	}
	for _, l := range r.chain.routes[0].levels {
		r.claimsGone = append(r.claimsGone, l.requestGone...)
		r.replyGone = append(r.replyGone, l.replyGone...)
	}
	return r, nil
}

// copied is the rendered copy for a key.
func (r rendering) copied(key string) *statev3.FilterStateValue {
	for _, v := range r.copies {
		if v.GetObjectKey() == key {
			return v
		}
	}
	return nil
}

// sameCopy reports whether a value is copied as it is rendered. From 1.39 Envoy
// takes read_only and does nothing with it.
func (s *subject) sameCopy(got, want *statev3.FilterStateValue) bool {
	if !s.params.PinsForGood() {
		got, want = proto.CloneOf(got), proto.CloneOf(want)
		got.ReadOnly, want.ReadOnly = false, false //nolint:staticcheck // deprecated since it has no effect
	}
	return proto.Equal(got, want)
}
