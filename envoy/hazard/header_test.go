package hazard_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/samepod/samepod/envoy"
)

const (
	adds    = `{append: {header: {key: X-Envoy-Retry-On, value: "%REQ(x-mine)%"}}}`
	cleaner = `{name: cleaner, typed_config: {` + types + `http.header_mutation.v3.HeaderMutation, mutations: {request_mutations: [{remove_on_match: {key_matcher: {prefix: x}}}]}}}`
	adder   = `{name: adder, typed_config: {` + types + `http.header_mutation.v3.HeaderMutation, mutations: {request_mutations: [` + adds + `]}}}`
)

// headerRows are those of TestRules about headers that clients and Pods send.
var headerRows = []row{
	{"client-headers", 40, envoy.Both, "manager", `{early_header_mutation_extensions: null}`, "$M.early_header_mutation_extensions"},
	{"client-headers", 40, envoy.Both, "host", `{request_headers_to_add: [{header: {key: X-Envoy-Retry-On, value: 5xx}}]}`, "$H.request_headers_to_add[0]"},
	{"forged-answers", 40, envoy.Both, "route", `{response_headers_to_remove: [x-samepod-reason]}`, "$R.response_headers_to_remove"},
	{"early-hints", 39, envoy.Both, "manager", `{proxy_100_continue: true}`, "$M.proxy_100_continue"},
	{"trailers", 40, envoy.Both, "options", `{explicit_http_config: {http_protocol_options: {enable_trailers: true}}}`, "$O.explicit_http_config.http_protocol_options.enable_trailers"},
	{"trailers", 40, envoy.Both, "options", `{explicit_http_config: {http_protocol_options: null, http2_protocol_options: {}}}`, "$O"},
	{"claim-headers", 40, envoy.Both, "route", `{request_headers_to_remove: [x-samepod-target, x-samepod-expect-pod-uid, x-samepod-recorded]}`, "$R.request_headers_to_remove"},
	{"client-headers", 40, envoy.Both, "manager", `{early_header_mutation_extensions: null, +http_filters: [` + cleaner + `], route_config: {typed_per_filter_config: {cleaner: ` + filterOff + `}}}`, "$M.early_header_mutation_extensions"},
	{"client-headers", 40, envoy.Both, "manager", `{early_header_mutation_extensions: null, +http_filters: [` + cleaner + `], route_config: {typed_per_filter_config: {cleaner: {` + types + `http.header_mutation.v3.HeaderMutationPerRoute}}}}`, "$M.early_header_mutation_extensions"},
	{"client-headers", 40, envoy.Both, "manager", `{+http_filters: [` + adder + `]}`, "$M.early_header_mutation_extensions"},
	{"client-headers", 40, envoy.Both, "manager", `{+http_filters: [` + cleaner + `], route_config: {typed_per_filter_config: {cleaner: {` + types + `http.header_mutation.v3.HeaderMutationPerRoute, mutations: {request_mutations: [` + adds + `]}}}}}`, "$M.early_header_mutation_extensions"},
}

// TestCleaning: filters in front of the check clean, where they run.
func TestCleaning(t *testing.T) {
	all, err := check(mutated(t, 40, envoy.Both, "manager", `{early_header_mutation_extensions: null, +http_filters: [`+cleaner+`]}`), options(40, envoy.Both))
	if err != nil || len(all) > 0 {
		t.Errorf("a filter that removes: %v, %v", all, err)
	}
	p := envoy.DefaultParams()
	p.ClaimHeaders, p.UpstreamProtocol = claims, "downstream"
	text, err := envoy.Bootstrap(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ route, want string }{
		{`{}`, ""},
		{`{typed_per_filter_config: {envoy.filters.http.header_mutation: ` + filterOff + `}}`, "trailers $O"},
		{`{typed_per_filter_config: {envoy.filters.http.header_mutation: {` + types + `http.header_mutation.v3.HeaderMutationPerRoute}}}`, "trailers $O"},
	} {
		var whole, change tree
		if err := yaml.Unmarshal(text, &whole); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(tc.route), &change); err != nil {
			t.Fatal(err)
		}
		merge(parts["route"](whole), change)
		config, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		all, err := check(config, options(40, envoy.Both))
		if got := strings.Join(found(all), "; "); err != nil || got != places.Replace(tc.want) {
			t.Errorf("%s: %q, %v; want %q", tc.route, got, err, tc.want)
		}
	}
}
