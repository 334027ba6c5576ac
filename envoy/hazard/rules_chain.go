package hazard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	setstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	codecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/samepod/samepod/envoy"
)

// Rules about the chain that the check is in.

type matcher = *matcherv3.StringMatcher

func clearRouteCache(s *subject, found report) {
	s.eachCheck(func(at place, m *authzv3.ExtAuthz) {
		if m.GetClearRouteCache() {
			found(at.field("clear_route_cache"), "true")
		}
		if len(m.GetClearRouteCacheHeaders()) > 0 {
			found(at.field("clear_route_cache_headers"), "set")
		}
	})
	for _, c := range s.checked() {
		for _, f := range c.filters[c.check:] {
			if m, ok := f.is.(*setstatev3.Config); ok && m.GetClearRouteCache() {
				found(f.field("clear_route_cache"), "true, behind the check")
			}
		}
	}
}

func filterBetween(s *subject, found report) {
	for _, c := range s.checked() {
		for _, f := range c.filters[c.check+1:] {
			switch m := f.is.(type) {
			case *setstatev3.Config:
				continue
			case *routerv3.Router:
				if len(m.GetUpstreamHttpFilters()) > 0 {
					found(f.field("upstream_http_filters"), "set, behind the check")
				}
				continue
			case *rbacv3.RBAC:
				if s.want.guard != nil && proto.Equal(m, s.want.guard) {
					continue
				}
			}
			runs := func(r route) bool { _, off := f.disabledOn(r); return !off }
			if slices.ContainsFunc(c.protectedRoutes(), runs) {
				found(f.place, "%s, behind the check", f.title())
			}
		}
	}
	for _, c := range s.protected {
		for _, f := range s.upstreamFilters(c) {
			switch f.is.(type) {
			case *rbacv3.RBAC, *codecv3.UpstreamCodec:
			default:
				found(f.place, "%s, behind the check", f.title())
			}
		}
	}
}

func (f filter) title() string {
	if f.is == nil {
		return "a filter whose configuration is elsewhere"
	}
	return "a filter of type " + f.kind
}

// copies are the values that the filters directly behind the check copy.
func (c chain) copies() []located[*statev3.FilterStateValue] {
	var all []located[*statev3.FilterStateValue]
	for _, f := range c.filters[c.check+1:] {
		m, ok := f.is.(*setstatev3.Config)
		if !ok {
			break
		}
		for i, v := range m.GetOnRequestHeaders() {
			all = append(all, located[*statev3.FilterStateValue]{f.item("on_request_headers", v.GetObjectKey(), i), v})
		}
	}
	return all
}

// addressCopy leaves the copy of the uid to poolShared, that of a name to podUnproven.
func addressCopy(s *subject, found report) {
	for _, c := range s.checked() {
		all := c.copies()
		for _, want := range s.want.copies {
			key := want.GetObjectKey()
			i := slices.IndexFunc(all, func(v located[*statev3.FilterStateValue]) bool { return v.is.GetObjectKey() == key })
			switch {
			case key == uidKey, key == nameKey:
			case i < 0:
				found(c.place, "%s is not copied directly behind %s", key, c.filters[c.check].name)
			case !s.sameCopy(all[i].is, want):
				found(all[i].place, "other than rendered for Envoy %v", s.params.Version)
			}
		}
		for _, f := range c.filters[c.check+1:] {
			if _, ok := f.is.(*setstatev3.Config); !ok {
				break
			}
			for _, r := range c.protectedRoutes() {
				if at, off := f.disabledOn(r); off {
					found(at, "the copies are switched off")
				}
				for _, o := range f.overrides(r) {
					found(o.place, "a route replaces the copies")
				}
			}
		}
	}
}

func poolShared(s *subject, found report) {
	for _, c := range s.protected {
		most := protocol(c.is).GetCommonHttpProtocolOptions().GetMaxRequestsPerConnection()
		if most.GetValue() == 1 {
			continue
		}
		if !s.params.Partitions() {
			found(protocolPlace(c.place).field("common_http_protocol_options").field("max_requests_per_connection"), "%s, and Envoy %v cannot keep connections apart by Pod uid", value(most, "unlimited"), s.params.Version)
			continue
		}
		for _, c := range s.checked() {
			apart := func(v located[*statev3.FilterStateValue]) bool { return s.sameCopy(v.is, s.want.copied(uidKey)) }
			if !slices.ContainsFunc(c.copies(), apart) {
				found(c.place, "%s is not copied as it is rendered, and a connection serves several requests", uidKey)
			}
		}
	}
}

func addressWriter(s *subject, found report) {
	for _, c := range s.checked() {
		l := c.listener
		if l.is.GetUseOriginalDst().GetValue() {
			found(l.field("use_original_dst"), "true")
		}
		if l.is.GetInternalListener() != nil {
			found(l.field("internal_listener"), "the connection in front can hand over filter state of its own")
		}
		for _, f := range c.outer {
			switch {
			case isOriginalDst(f):
				found(f.place, "sets the address from the connection")
			case strings.HasPrefix(f.kind, "listener.proxy_protocol.") && !s.params.Asserts():
				found(f.place, "sets the address from what the client says, and nothing asserts")
			}
			for _, key := range stateKeys {
				if mentions(f.is, key) {
					found(f.place, "names %s", key)
				}
			}
		}
		s.writersInChain(c, found)
	}
}

// writersInChain reports filters of the chain, and configurations of routes, that
// name what only samepod may set. The first copy directly behind the check is the
// rendered one, or addressCopy, poolShared and podUnproven say that it is not.
func (s *subject) writersInChain(c chain, found report) {
	behind := map[place]bool{}
	for _, v := range c.copies() {
		behind[v.place] = true
	}
	seen := map[string]bool{}
	for i, f := range c.filters {
		m, ok := f.is.(*setstatev3.Config)
		if !ok {
			if key, writes := f.writes(); writes && i != c.check {
				found(f.place, "names %s", key)
			}
			continue
		}
		for j, v := range m.GetOnRequestHeaders() {
			key := v.GetObjectKey()
			at := f.item("on_request_headers", key, j)
			switch {
			case !slices.Contains(stateKeys, key):
			case behind[at] && !seen[key]:
				seen[key] = true
			default:
				found(at, "writes %s beside samepod's copy", key)
			}
		}
	}
	for _, r := range c.protectedRoutes() {
		for _, l := range r.levels {
			for _, name := range slices.Sorted(maps.Keys(l.perFilter)) {
				o := open(l.item("typed_per_filter_config", name, 0), name, l.perFilter[name])
				if key, writes := o.writes(); writes && name != c.filters[c.check].name {
					found(o.place, "names %s", key)
				}
			}
		}
	}
}

// writes reports whether a filter names a key of samepod's, or, where it can write
// metadata, the namespace of samepod's answer.
func (f filter) writes() (key string, yes bool) {
	for _, key := range stateKeys {
		if mentions(f.is, key) && !f.in(kindsOfReaders) {
			return key, true
		}
	}
	return namespace, !f.in(harmlessHTTP) && mentions(f.is, namespace)
}

// kindsOfReaders are filters that compare and route, and write nothing.
var kindsOfReaders = kinds("http.", "rbac router")

func opaqueFilter(s *subject, found report) {
	for _, c := range s.checked() {
		for _, f := range c.filters[:c.check] {
			if f.in(runsCode) {
				found(f.place, "%s in front of the check", f.title())
			}
		}
	}
}

func localReplies(s *subject, found report) {
	for _, c := range s.checked() {
		var missing []string
		for _, want := range s.want.chain.manager.is.GetLocalReplyConfig().GetMappers() {
			if !slices.ContainsFunc(c.manager.is.GetLocalReplyConfig().GetMappers(), func(m *hcmv3.ResponseMapper) bool { return proto.Equal(m, want) }) {
				reason := want.GetHeadersToAdd()[0].GetHeader().GetValue()
				if !slices.Contains(missing, reason) {
					missing = append(missing, reason)
				}
			}
		}
		if len(missing) > 0 {
			found(c.manager.field("local_reply_config"), "not mapped, or not as rendered for %s: %s", s.arrangementName(), strings.Join(missing, ", "))
		}
	}
}

func (s *subject) arrangementName() string {
	u := s.params.Upstream
	if u == envoy.Both && !s.params.Asserts() {
		u = envoy.Resolve
	}
	return fmt.Sprintf("Envoy %v, %s", s.params.Version, u)
}

func adminOpen(s *subject, found report) {
	a := s.admin.GetAddress()
	if a == nil || a.GetPipe() != nil || isLoopback(a.GetSocketAddress().GetAddress()) {
		return
	}
	found(place("admin").field("address"), "%s", printable(a.GetSocketAddress().GetAddress()))
}
