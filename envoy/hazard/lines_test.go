package hazard_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/samepod/samepod/envoy"
)

// unjudged are the lines of a rendering without which no request goes elsewhere:
// what the operator chooses, what Envoy refuses to start without, limits and names.
var unjudged = regexp.MustCompile(`^(` + strings.Join([]string{
	// what the operator chooses
	`admin(\.address(\.socket_address\.port_value)?)?`,
	`listener(\.name|\.address.*)`,
	`manager\.(access_log|codec_type|http2_protocol_options.*|normalize_path|request_headers_timeout|stat_prefix|use_remote_address)`,
	`manager\.route_config(\.virtual_hosts\[0\])?\.name`,
	`route\.(idle_timeout|timeout|upgrade_configs.*)`,
	`cluster\.circuit_breakers\.thresholds\[.\]\.max_(pending_)?requests`,
	`cluster\.(cleanup_interval|upstream_connection_options\.tcp_keepalive\.keepalive_.*|upstream_bind_config\.socket_options\[0\]\.description)`,
	`options\.common_http_protocol_options\.idle_timeout`,
	`options\.http_filters\[0\]\.typed_config\.rules\.policies(\.only-the-verified-address(\.(permissions|principals).*)?)?`, // narrows; without a policy nothing passes
	`authz\.(circuit_breakers.*|connect_timeout|type|typed_extension_protocol_options.*)`,
	`authz\.health_checks\[0\]\.(grpc_health_check.*|(un)?healthy_threshold|interval|timeout)`,
	`check\.(grpc_service\.timeout|max_denied_response_body_bytes|enforce_response_header_limits|stat_prefix|status_on_error.*|allowed_headers\.patterns\[.\]\.ignore_case)`,
	// the default
	`check\.(clear_route_cache|failure_mode_allow)`,
	`cluster\.(circuit_breakers\.thresholds\[0\]\.priority|upstream_bind_config\.socket_options\[0\]\.state)`,
	`authz\.common_lb_config\.healthy_panic_threshold\.value`,
	`options\.http_filters\[0\]\.typed_config\.rules\.action`,
	// Envoy does not start
	`check\.transport_api_version`,
	`cluster\.lb_policy`,
	`options\.explicit_http_config`,
	// a name; what it is says the type
	`hcm\.name`, `(manager|options)\.(http_filters|early_header_mutation_extensions)\[.\]\.name`,
}, "|") + `)$`)

// beginnings shorten paths.
var beginnings = strings.NewReplacer(
	".static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[0].typed_config", "check",
	".static_resources.listeners[0].filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[0].routes[0].route", "route",
	".static_resources.listeners[0].filter_chains[0].filters[0].typed_config", "manager",
	".static_resources.listeners[0].filter_chains[0].filters[0]", "hcm",
	".static_resources.listeners[0]", "listener",
	".static_resources.clusters[0].typed_extension_protocol_options."+protocolOptions, "options",
	".static_resources.clusters[0]", "cluster", ".static_resources.clusters[1]", "authz",
	".admin", "admin")

// TestEveryLine takes every line of the rendering away, one at a time: it is
// missed, or it is named above.
func TestEveryLine(t *testing.T) {
	for _, tc := range []struct {
		version  envoy.Version
		upstream envoy.Arrangement
	}{{36, envoy.Resolve}, {40, envoy.Both}} {
		var whole tree
		if err := yaml.Unmarshal(render(t, tc.version, tc.upstream), &whole); err != nil {
			t.Fatal(err)
		}
		withoutEach(whole, "", func(path string) {
			text, err := json.Marshal(whole)
			if err != nil {
				t.Fatal(err)
			}
			all, err := check(text, options(tc.version, tc.upstream))
			line := beginnings.Replace(path)
			if missed := err != nil || len(all) > 0; missed == unjudged.MatchString(line) {
				t.Errorf("%v %s without %s: %d findings, %v", tc.version, tc.upstream, line, len(all), err)
			}
		})
	}
}

// withoutEach calls f with every field of a tree taken away, one at a time. What is
// compared as a whole is taken away as a whole.
func withoutEach(t any, path string, f func(path string)) {
	switch t := t.(type) {
	case []any:
		for i, v := range t {
			withoutEach(v, fmt.Sprintf("%s[%d]", path, i), f)
		}
	case tree:
		for _, k := range slices.Sorted(maps.Keys(t)) {
			v := t[k]
			if k != "@type" && k != "common_http_protocol_options" { // no line of its own; two lines, each by itself
				delete(t, k)
				f(path + "." + k)
				t[k] = v
			}
			if !slices.Contains([]string{"access_log", "condition", "mappers", "load_assignment", "permissions"}, k) {
				withoutEach(v, path+"."+k, f)
			}
		}
	}
}
