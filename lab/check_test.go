package lab_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// checkReport is what samepod envoy check prints for machines.
type checkReport struct {
	Version   string
	Protected []string
	Findings  []struct{ Rule, Severity, Place string }
}

// envoyCheck runs samepod envoy check, and holds its exit code to its report.
func envoyCheck(t *testing.T, args ...string) checkReport {
	t.Helper()
	out, err := exec.Command(must(binaries.race())(t), append([]string{"envoy", "check", "--output", "json"}, args...)...).Output()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	}
	var r checkReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("samepod envoy check %q: exit %d: %v: %s", args, code, err, out)
	}
	hazards := 0
	for _, f := range r.Findings {
		if f.Severity == "hazard" {
			hazards++
		}
	}
	if code != min(1, hazards) {
		t.Errorf("samepod envoy check %q: exit %d with %d hazards", args, code, hazards)
	}
	return r
}

// findings are the rules and places of a report, but for the release's own, which
// a rendering cannot mend.
func findings(r checkReport) []string {
	var all []string
	for _, f := range r.Findings {
		if f.Rule != "envoy-patch" {
			all = append(all, f.Rule+" "+f.Place)
		}
	}
	return all
}

// split takes listeners, routes, clusters and the check out of a bootstrap, as a
// management server would send them, and leaves a bootstrap that names them.
func split(t *testing.T, dir string, bootstrap []byte) []byte {
	t.Helper()
	var whole tree
	if err := yaml.Unmarshal(bootstrap, &whole); err != nil {
		t.Fatal(err)
	}
	source := func(name, kind string, resources ...any) tree {
		for _, r := range resources {
			r.(tree)["@type"] = "type.googleapis.com/envoy.config." + kind
		}
		path := filepath.Join(dir, name+".json")
		text := must(json.Marshal(tree{"version_info": "1", "resources": resources}))(t)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return tree{"path_config_source": tree{"path": path}, "resource_api_version": "V3"}
	}
	static := whole["static_resources"].(tree)
	listeners, clusters := static["listeners"].([]any), static["clusters"].([]any)
	manager := listeners[0].(tree)["filter_chains"].([]any)[0].(tree)["filters"].([]any)[0].(tree)["typed_config"].(tree)
	check := manager["http_filters"].([]any)[0].(tree)
	check["config_discovery"] = tree{
		"config_source": source("ecds", "core.v3.TypedExtensionConfig", tree{"name": check["name"], "typed_config": check["typed_config"]}),
		"type_urls":     []any{check["typed_config"].(tree)["@type"]},
	}
	delete(check, "typed_config")
	manager["rds"] = tree{"route_config_name": "front", "config_source": source("rds", "route.v3.RouteConfiguration", manager["route_config"])}
	delete(manager, "route_config")
	whole["dynamic_resources"] = tree{
		"lds_config": source("lds", "listener.v3.Listener", listeners...),
		"cds_config": source("cds", "cluster.v3.Cluster", clusters...),
	}
	delete(whole, "static_resources")
	whole["node"] = tree{"id": "lab", "cluster": "lab"}
	return must(json.Marshal(whole))(t)
}

// TestCheckRunning checks running Envoys by their admin interface: what samepod
// rendered is clean, however it got there, and what is wrong in it is found.
func TestCheckRunning(t *testing.T) {
	const bare = `  - name: back
    address: { socket_address: { address: 127.0.0.1, port_value: 0 } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.tcp_proxy
        typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: back, cluster: samepod_verified }
`
	onEveryEnvoyAtOnce(t, func(t *testing.T, version string) {
		l := newLab(t)
		clean := string(samepodCLI(t, "envoy", "bootstrap", "--envoy-version", version, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
		retry := strings.Replace(clean, "  timeout: 0s", "  retry_policy: { retry_on: connect-failure }\n                  timeout: 0s", 1)
		hazardous := strings.Replace(retry, "  clusters:\n", bare+"  clusters:\n", 1)
		const route = "route_config.virtual_hosts[pods].routes[0].route.retry_policy"
		const named = "dynamic_route_configs[front].virtual_hosts[pods].routes[0].route.retry_policy"
		const front = "listeners[front].filter_chains[0].http_connection_manager."
		const back = "listeners[back].filter_chains[0].filters[envoy.filters.network.tcp_proxy]"
		for _, tc := range []struct {
			name   string
			config []byte
			want   []string
		}{
			{"clean", []byte(clean), nil},
			{"open", []byte(hazardous), []string{"check-missing static_resources." + back, "retry static_resources." + front + route}},
			{"clean-dynamic", split(t, l.Dir, []byte(clean)), nil},
			{"open-dynamic", split(t, t.TempDir(), []byte(hazardous)), []string{"check-missing dynamic_" + back, "retry " + named}},
		} {
			e := must(l.StartEnvoy(t.Context(), tc.name, envoyBinary(t, version), tc.config))(t)
			r := envoyCheck(t, "http://"+e.Admin.String())
			if got := findings(r); !slices.Equal(got, tc.want) || r.Version != version || len(r.Protected) != 1 {
				t.Errorf("%s: %q of %+v, want %q", tc.name, got, r, tc.want)
			}
			e.Kill()
		}
		file := filepath.Join(l.Dir, "clean-dynamic.yaml")
		unjudged := []string{"nothing-protected listeners", "not-judged dynamic_resources.lds_config", "not-judged dynamic_resources.cds_config", "not-judged clusters[samepod_verified]"}
		if got := findings(envoyCheck(t, "--envoy-version", version, file)); !slices.Equal(got, unjudged) {
			t.Errorf("the file, which names what is elsewhere: %q, want %q", got, unjudged)
		}
	})
}

// tree is a YAML document.
type tree = map[string]any
