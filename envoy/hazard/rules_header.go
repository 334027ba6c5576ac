package hazard

import (
	"slices"
	"strings"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	headerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"

	"github.com/samepod/samepod/envoy"
)

// Rules about headers that clients and Pods send.

// clientHeaders asks for every header that the rendering removes, and for the
// spellings with underscores that a gateway in the Pod may take for dashes.
func clientHeaders(s *subject, found report) {
	for _, c := range s.checked() {
		for _, r := range c.protectedRoutes() {
			gone := slices.Concat(early(c.manager.is), c.cleaning(r, (*headerv3.Mutations).GetRequestMutations))
			var left []string
			for _, m := range early(s.want.chain.manager.is) {
				if h := m.GetRemove(); h != "" && !removes(gone, h) {
					left = append(left, h)
				}
			}
			refused := c.manager.is.GetCommonHttpProtocolOptions().GetHeadersWithUnderscoresAction() != 0
			for _, h := range []string{"x_samepod_pod_uid", "x-samepod_pod-uid", "x_samepod-pod-uid", "x-samepod-pod_uid"} {
				if !refused && !removes(gone, h) {
					left = append(left, h)
				}
			}
			if len(left) > 0 {
				found(c.manager.field("early_header_mutation_extensions"), "left in requests: %s", strings.Join(left, ", "))
			}
		}
	}
	s.addedHeaders(found)
}

// addedHeaders: what a route adds is obeyed as what a client says.
func (s *subject) addedHeaders(found report) {
	hostile := early(s.want.chain.manager.is)
	for _, r := range s.protectedRoutes() {
		for _, l := range r.levels {
			for i, h := range l.requestAdded {
				if name := h.GetHeader().GetKey(); removes(hostile, strings.ToLower(name)) {
					found(l.item("request_headers_to_add", "", i), "adds %s", printable(name))
				}
			}
		}
	}
}

// cleaning are the mutations of the filters in front of the check that run on a
// route. One that the route configures anew cleans nothing, and may add something.
func (c chain) cleaning(r route, of func(*headerv3.Mutations) []*mutationv3.HeaderMutation) []*mutationv3.HeaderMutation {
	var all []*mutationv3.HeaderMutation
	for _, f := range c.filters[:c.check] {
		m, ok := f.is.(*headerv3.HeaderMutation)
		if _, off := f.disabledOn(r); !ok || off {
			continue
		}
		anew := f.overrides(r)
		if len(anew) == 0 {
			all = append(all, of(m.GetMutations())...)
		}
		for _, o := range anew {
			p, _ := o.is.(*headerv3.HeaderMutationPerRoute)
			for _, m := range of(p.GetMutations()) {
				if m.GetAppend() != nil {
					all = append(all, m)
				}
			}
		}
	}
	return all
}

// cleansTrailers reports whether filters take samepod's headers out of trailers, in
// both directions.
func (c chain) cleansTrailers(r route) bool {
	request := c.cleaning(r, (*headerv3.Mutations).GetRequestTrailersMutations)
	response := c.cleaning(r, (*headerv3.Mutations).GetResponseTrailersMutations)
	return removes(request, "x-samepod-pod-uid") && removes(response, "x-samepod-reason") && removes(response, "x-samepod-decision")
}

// early are the mutations before everything else.
func early(m *hcmv3.HttpConnectionManager) []*mutationv3.HeaderMutation {
	var all []*mutationv3.HeaderMutation
	for _, e := range m.GetEarlyHeaderMutationExtensions() {
		var h earlyv3.HeaderMutation
		if e.GetTypedConfig().UnmarshalTo(&h) == nil {
			all = append(all, h.GetMutations()...)
		}
	}
	return all
}

// removes reports whether mutations, one after the other, end without a header.
func removes(all []*mutationv3.HeaderMutation, header string) (gone bool) {
	for _, m := range all {
		switch {
		case strings.EqualFold(m.GetRemove(), header), m.GetRemoveOnMatch() != nil && matches(m.GetRemoveOnMatch().GetKeyMatcher(), header):
			gone = true
		case strings.EqualFold(m.GetAppend().GetHeader().GetKey(), header):
			gone = false
		}
	}
	return gone
}

// pathForm compares with the rendering, which is strict only where the path is read.
func pathForm(s *subject, found report) {
	if !s.params.SetsPath {
		return
	}
	want := s.want.chain.manager.is
	for _, c := range s.checked() {
		got := c.manager.is
		for _, setting := range []struct {
			field     string
			got, want any
		}{
			{"normalize_path", got.GetNormalizePath().GetValue(), want.GetNormalizePath().GetValue()},
			{"merge_slashes", got.GetMergeSlashes(), want.GetMergeSlashes()},
			{"path_with_escaped_slashes_action", got.GetPathWithEscapedSlashesAction(), want.GetPathWithEscapedSlashesAction()},
			{"common_http_protocol_options.headers_with_underscores_action", got.GetCommonHttpProtocolOptions().GetHeadersWithUnderscoresAction(), want.GetCommonHttpProtocolOptions().GetHeadersWithUnderscoresAction()},
		} {
			if setting.got != setting.want {
				found(c.manager.field(setting.field), "%v", setting.got)
			}
		}
	}
}

func forgedAnswers(s *subject, found report) {
	for _, r := range s.protectedRoutes() {
		if left := leftBy(r, s.want.replyGone, func(l level) []string { return l.replyGone }); len(left) > 0 {
			found(r.field("response_headers_to_remove"), "left in responses: %s", strings.Join(left, ", "))
		}
	}
}

func earlyHints(s *subject, found report) {
	const dropped envoy.Version = 40 // from here on what is not 100 is
	for _, c := range s.checked() {
		if c.manager.is.GetProxy_100Continue() && s.params.Version < dropped {
			found(c.manager.field("proxy_100_continue"), "true")
		}
	}
}

func claimHeaders(s *subject, found report) {
	for _, r := range s.protectedRoutes() {
		if left := leftBy(r, s.want.claimsGone, func(l level) []string { return l.requestGone }); len(left) > 0 {
			found(r.field("request_headers_to_remove"), "left in requests: %s", strings.Join(left, ", "))
		}
	}
}

// leftBy are the headers that no level of a route removes.
func leftBy(r route, want []string, removed func(level) []string) []string {
	var left []string
	for _, h := range want {
		gone := slices.ContainsFunc(r.levels, func(l level) bool {
			return slices.ContainsFunc(removed(l), func(got string) bool { return strings.EqualFold(got, h) })
		})
		if !gone {
			left = append(left, h)
		}
	}
	return left
}

// trailers are carried by everything but HTTP/1 as it is by default.
func trailers(s *subject, found report) {
	dirty := func(c chain) bool {
		return slices.ContainsFunc(c.protectedRoutes(), func(r route) bool { return !c.cleansTrailers(r) })
	}
	if !slices.ContainsFunc(s.checked(), dirty) {
		return
	}
	for _, c := range s.protected {
		o := protocol(c.is)
		http1 := o.GetExplicitHttpConfig().GetHttpProtocolOptions()
		switch {
		case o.GetUpstreamProtocolOptions() != nil && http1 == nil:
			found(protocolPlace(c.place), "not HTTP/1 alone")
		case http1.GetEnableTrailers():
			found(protocolPlace(c.place).field("explicit_http_config.http_protocol_options.enable_trailers"), "true")
		}
	}
}
