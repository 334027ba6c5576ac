package hazard

import (
	"slices"
	"strings"

	xdsv3 "github.com/cncf/xds/go/xds/type/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// filter is a filter of any kind.
type filter struct {
	place

	name     string
	kind     string        // the message's name, without its package's beginning
	is       proto.Message // nil if its configuration is elsewhere
	disabled bool          // unless a route enables it
}

// open makes a filter of its configuration. Without one, it is judged by its name.
func open(at place, name string, a *anypb.Any) filter {
	f := filter{place: at, name: name}
	if a == nil {
		return f
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		return f
	}
	f.is, f.kind = m, string(m.ProtoReflect().Descriptor().FullName())
	if s, ok := m.(*xdsv3.TypedStruct); ok {
		f.kind = s.GetTypeUrl()[strings.LastIndexByte(s.GetTypeUrl(), '/')+1:]
	}
	f.kind = strings.TrimPrefix(f.kind, "envoy.extensions.filters.")
	return f
}

func (c *config) httpFilters(at place, list string, all []*hcmv3.HttpFilter) []filter {
	var out []filter
	for i, f := range all {
		a := f.GetTypedConfig()
		if f.GetConfigDiscovery() != nil {
			a = c.filters[f.GetName()]
		}
		opened := open(at.item(list, f.GetName(), i), f.GetName(), a)
		opened.disabled = f.GetDisabled()
		out = append(out, opened)
	}
	return out
}

func (c *config) networkFilters(at place, all []*listenerv3.Filter) []filter {
	var out []filter
	for i, f := range all {
		a := f.GetTypedConfig()
		if f.GetConfigDiscovery() != nil {
			a = c.filters[f.GetName()]
		}
		out = append(out, open(at.item("filters", f.GetName(), i), f.GetName(), a))
	}
	return out
}

func (c *config) listenerFilters(l located[*listenerv3.Listener]) []filter {
	var out []filter
	for i, f := range l.is.GetListenerFilters() {
		a := f.GetTypedConfig()
		if f.GetConfigDiscovery() != nil {
			a = c.filters[f.GetName()]
		}
		out = append(out, open(l.item("listener_filters", f.GetName(), i), f.GetName(), a))
	}
	return out
}

// mentions reports whether any text in a message contains this one. It reads every
// message alike, also one of a type that is not linked in.
func mentions(m proto.Message, text string) bool {
	if m == nil || !m.ProtoReflect().IsValid() {
		return false
	}
	all, err := protojson.Marshal(m)
	return err != nil || strings.Contains(string(all), text)
}

// namesProtected reports whether a message names a way to the protected cluster.
func (s *subject) namesProtected(m proto.Message) bool {
	return names(m, s.params.Cluster) || slices.ContainsFunc(s.reaching, func(c located[*clusterv3.Cluster]) bool { return names(m, c.is.GetName()) })
}

// names is mentions of a whole string.
func names(m proto.Message, text string) bool { return mentions(m, `"`+text+`"`) }

// disabledOn reports whether a filter does not run on a route, and where that is
// said. The most specific level that says anything decides.
func (f filter) disabledOn(r route) (place, bool) {
	at, off := f.field("disabled"), f.disabled
	for _, l := range r.levels {
		a, ok := l.perFilter[f.name]
		if !ok {
			continue
		}
		at, off = l.item("typed_per_filter_config", f.name, 0), false
		m, _ := a.UnmarshalNew()
		if w, ok := m.(*routev3.FilterConfig); ok {
			at, off = at.field("disabled"), w.GetDisabled()
			m = nil
			if w.GetConfig() != nil {
				m, _ = w.GetConfig().UnmarshalNew()
			}
		}
		if p, ok := m.(*authzv3.ExtAuthzPerRoute); ok && p.GetDisabled() {
			at, off = l.item("typed_per_filter_config", f.name, 0).field("disabled"), true
		}
	}
	return at, off
}

// overrides are the configurations that the levels of a route give a filter.
func (f filter) overrides(r route) []located[proto.Message] {
	var out []located[proto.Message]
	for _, l := range r.levels {
		a, ok := l.perFilter[f.name]
		if !ok {
			continue
		}
		m, _ := a.UnmarshalNew()
		if w, ok := m.(*routev3.FilterConfig); ok {
			if w.GetConfig() == nil {
				continue
			}
			m, _ = w.GetConfig().UnmarshalNew()
		}
		if m != nil {
			out = append(out, located[proto.Message]{l.item("typed_per_filter_config", f.name, 0), m})
		}
	}
	return out
}

// Filters in front of the check, by what they can do. Neither the address nor what
// it is compared with is written by those that are harmless; those that run code
// can write anything. A filter in neither list is not judged.
var (
	harmlessHTTP = kinds("http.", `adaptive_concurrency admission_control alternate_protocols_cache api_key_auth aws_request_signing
		bandwidth_limit bandwidth_share basic_auth body_size_limit buffer cdn_loop compressor connect_grpc_bridge cors
		credential_injector csrf custom_response decompressor dynamic_forward_proxy ext_authz fault gcp_authn geoip grpc_http1_bridge grpc_http1_reverse_bridge
		grpc_json_transcoder grpc_json_reverse_transcoder grpc_stats grpc_web gzip header_mutation health_check ip_tagging jwt_authn
		local_ratelimit oauth2 on_demand original_src rate_limit_quota ratelimit rbac set_filter_state stateful_session tap`)
	writesMetadata = kinds("http.", "grpc_field_extraction header_to_metadata json_to_metadata proto_message_extraction set_metadata sse_to_metadata thrift_to_metadata aws_eventstream_parser")
	runsCode       = kinds("http.", "dynamic_modules ext_proc golang lua wasm")
	fetches        = kinds("http.", "cache cache_v2")

	harmlessNetwork  = kinds("network.", "connection_limit direct_response echo ext_authz geoip local_ratelimit ratelimit rbac set_filter_state tcp_bandwidth_limit zookeeper_proxy mongo_proxy")
	harmlessListener = kinds("listener.", "http_inspector local_ratelimit original_src proxy_protocol set_filter_state tls_inspector")
)

func kinds(layer, all string) map[string]bool {
	out := map[string]bool{}
	for name := range strings.FieldsSeq(all) {
		out[layer+name] = true
	}
	return out
}

// in reports whether the filter's package is in a list.
func (f filter) in(list map[string]bool) bool {
	layer, rest, _ := strings.Cut(f.kind, ".")
	name, _, _ := strings.Cut(rest, ".")
	return list[layer+"."+name]
}
