package hazard_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/samepod/samepod/envoy"
	"github.com/samepod/samepod/envoy/hazard"
)

func TestUnreadable(t *testing.T) {
	for _, tc := range []struct{ rule, text, want string }{
		{"empty", "", "empty; allowed: a bootstrap or a config dump of Envoy"},
		{"a comment", "# nothing\n", "empty; allowed"},
		{"a word", "hello", "neither a bootstrap nor a config dump of Envoy: not a mapping"},
		{"null", "null", "neither a bootstrap"},
		{"a list", "[]", "neither a bootstrap"},
		{"HTML", "<html><body>404</body></html>", "neither a bootstrap"},
		{"no YAML", "a: [", "yaml: line 1: did not find expected node content"},
		{"two documents", "admin: {}\n---\nadmin: {}\n", "more than one YAML document"},
		{"a key twice", "admin: {}\nadmin: {}\n", "yaml: unmarshal errors:\n  line 2: mapping key \"admin\" already defined at line 1"},
		{"a key that is no text", "admin: {? [a] : b}", "yaml: "},
		{"a value that JSON has not", "admin: {profile_path: .nan}", "bootstrap: no JSON can be made of it: "},
		{"an anchor in itself", "admin: &a {x: *a}", "yaml: anchor 'a' value contains itself"},
		{"an unknown field", "static_resources: {clusters: [{name: a, tpye: STATIC}]}", "bootstrap: static_resources.clusters[a].tpye: unknown field"},
		{"an unknown field in an extension", `static_resources: {listeners: [{filter_chains: [{filters: [{name: f, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, x: 1}}]}]}]}`, "bootstrap: static_resources.listeners[0].filter_chains[0].filters[f].typed_config.x: unknown field"},
		{"an unknown field in a map", `static_resources: {clusters: [{name: a, typed_extension_protocol_options: {o: {"@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, x: 1}}}]}`, "bootstrap: static_resources.clusters[a].typed_extension_protocol_options[o].x: unknown field"},
		{"a field that steers a terminal", `{"\u001b[2J": 1}`, `bootstrap: "\x1b[2J": unknown field`},
		{"another type of value", "static_resources: {clusters: [{name: [a]}]}", "bootstrap: invalid value for string field name: ["},
		{"no such value of an enum", "static_resources: {clusters: [{name: a, type: NONE}]}", `bootstrap: invalid value for enum field type: "NONE"`},
		{"a dump of nothing", `{"configs": []}`, "config dump: incomplete"},
		{"a dump of another kind", `{"configs": [1]}`, "config dump: unexpected token 1"},
	} {
		_, err := check([]byte(tc.text), hazard.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s:\n got %v\nwant %s", tc.rule, err, tc.want)
		}
	}
}

// TestBadOptions: what cannot be rendered cannot be compared with.
func TestBadOptions(t *testing.T) {
	text := render(t, 40, envoy.Both)
	for _, o := range []hazard.Options{{Cluster: "a b"}, {Upstream: "x"}, {ClaimHeaders: []string{"A:"}}} {
		if _, err := check(text, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// TestVersions: what the release alone says.
func TestVersions(t *testing.T) {
	for _, tc := range []struct{ version, want string }{
		{"1.35.4", "envoy-version server"}, {"1.36", ""}, {"1.36.9", "envoy-patch server"}, {"1.36.10", ""}, {"1.37.0", "envoy-version server envoy-patch server"},
		{"1.37.6", ""}, {"1.38.3", "envoy-patch server"}, {"1.39.1", ""}, {"1.40.0", ""}, {"1.41.0", "envoy-version server"}, {"dev", "envoy-version server"},
	} {
		o := hazard.Options{Version: tc.version, ClaimHeaders: claims}
		v, err := envoy.ParseVersion(tc.version)
		if err != nil {
			v = map[string]envoy.Version{"1.35.4": 36}[tc.version]
			if v == 0 {
				v = envoy.MaxVersion
			}
		}
		all, err := check(render(t, v, envoy.Both), o)
		var got []string
		for _, f := range all {
			got = append(got, f.Rule+" "+f.Place)
		}
		if strings.Join(got, " ") != tc.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", tc.version, got, err, tc.want)
		}
	}
}

// TestNothingProtected: a configuration without samepod is no safe one.
func TestNothingProtected(t *testing.T) {
	for _, text := range []string{"{}", "admin: {}", "static_resources: {clusters: [{name: samepod_verified}]}"} {
		all, err := check([]byte(text), hazard.Options{})
		if err != nil || len(all) == 0 || all[0].Rule != "nothing-protected" || all[0].Severity != hazard.Hazard {
			t.Errorf("%s: %v, %v", text, all, err)
		}
	}
}

// TestUnasserted: assert below 1.39 is a hazard unless it is accepted.
func TestUnasserted(t *testing.T) {
	o := options(38, envoy.Assert)
	o.AcceptUnasserted = false
	all, err := check(render(t, 38, envoy.Assert), o)
	if got := found(all); err != nil || len(got) != 1 || got[0] != places.Replace("assertion-missing $F") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestFormsOfTheSame: what Envoy reads alike is judged alike.
func TestFormsOfTheSame(t *testing.T) {
	same := func(rule, text string) {
		all, err := check([]byte(text), options(40, envoy.Both))
		if err != nil || len(all) != 0 {
			t.Errorf("%s: %v, %v", rule, all, err)
		}
	}
	text := string(render(t, 40, envoy.Both))
	same("YAML's old booleans", strings.ReplaceAll(text, "failure_mode_allow: false", "failure_mode_allow: Off"))
	var whole tree
	if err := yaml.Unmarshal([]byte(text), &whole); err != nil {
		t.Fatal(err)
	}
	indented, _ := json.MarshalIndent(whole, "", "\t")
	same("JSON with tabs", string(indented))
	manager := parts["manager"](whole)
	for _, f := range manager["http_filters"].([]any) {
		c := f.(tree)["typed_config"].(tree)
		value := tree{}
		for k, v := range c {
			if k != "@type" {
				value[k] = v
			}
		}
		f.(tree)["typed_config"] = tree{"@type": "type.googleapis.com/udpa.type.v1.TypedStruct", "type_url": c["@type"], "value": value}
	}
	structs, _ := json.Marshal(whole)
	same("TypedStructs, as Istio writes them", string(structs))
}

// TestPlainWords: a plain yes is true to Envoy's YAML.
func TestPlainWords(t *testing.T) {
	text := strings.ReplaceAll(string(render(t, 40, envoy.Both)), "failure_mode_allow: false", "failure_mode_allow: yes")
	all, err := check([]byte(text), options(40, envoy.Both))
	if got := found(all); err != nil || len(got) != 1 || got[0] != places.Replace("failure-mode-allow $E.failure_mode_allow") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestIgnored: a key with the tag !ignore is not there to Envoy.
func TestIgnored(t *testing.T) {
	text := string(render(t, 40, envoy.Both))
	for _, tc := range []struct{ old, new, want string }{
		{"use_remote_address: true", "!ignore retries: &p { retry_on: 5xx }\n          use_remote_address: true", ""},
		{"failure_mode_allow: false", "!ignore failure_mode_allow: true\n              failure_mode_allow: false", ""},
		{"response_headers_to_remove:", "!ignore response_headers_to_remove:", "forged-answers $R.response_headers_to_remove"},
	} {
		if !strings.Contains(text, tc.old) {
			t.Fatal(tc.old)
		}
		all, err := check([]byte(strings.Replace(text, tc.old, tc.new, 1)), options(40, envoy.Both))
		if got := strings.Join(found(all), "; "); err != nil || got != places.Replace(tc.want) {
			t.Errorf("%s: %q, %v; want %q", tc.new, got, err, tc.want)
		}
	}
}

// FuzzCheck: no text ends the process.
func FuzzCheck(f *testing.F) {
	f.Add([]byte("static_resources: {}"), "1.40.0", "samepod_verified")
	f.Add([]byte(`{"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.BootstrapConfigDump","bootstrap":{}}]}`), "", "x")
	f.Add([]byte(`{"@type":"type.googleapis.com/xds.type.v3.TypedStruct","type_url":"type.googleapis.com/envoy.config.bootstrap.v3.Bootstrap","value":null}`), "1", "x")
	f.Add([]byte("a: &a [x, x]\nb: [*a, *a]\n"), "1.40.0.0", "samepod_verified")
	for _, v := range []envoy.Version{36, 40} {
		p := envoy.DefaultParams()
		p.Version = v
		text, err := envoy.Bootstrap(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, v.String(), p.Cluster)
	}
	f.Fuzz(func(_ *testing.T, text []byte, version, cluster string) {
		_, _ = hazard.Check(text, hazard.Options{Version: version, Cluster: cluster})
	})
}
