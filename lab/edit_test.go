package lab_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// What an operator may do to a rendered bootstrap, as edits of its tree.

// An edit puts YAML at a place. In the text $A, $B and so on are addresses of the
// stage where it is played.
type edit struct {
	at   place
	text string
}

// A place applies what an edit says: most merge fields, where null takes one away,
// others insert an element.
type place func(c bootstrap, v any)

// bootstrap is a rendered configuration as a tree.
type bootstrap struct{ tree }

func readBootstrap(t *testing.T, text []byte) bootstrap {
	t.Helper()
	var c bootstrap
	if err := yaml.Unmarshal(text, &c.tree); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c bootstrap) text(t *testing.T) []byte {
	t.Helper()
	return must(yaml.Marshal(c.tree))(t)
}

// apply makes the edits, with the names of the stage replaced.
func (c bootstrap) apply(t *testing.T, names *strings.Replacer, edits ...edit) {
	t.Helper()
	for _, e := range edits {
		var v any
		if err := yaml.Unmarshal([]byte(names.Replace(e.text)), &v); err != nil {
			t.Fatalf("%v in %s", err, e.text)
		}
		e.at(c, v)
	}
}

func (c bootstrap) static() tree   { return c.tree["static_resources"].(tree) }
func (c bootstrap) listener() tree { return c.static()["listeners"].([]any)[0].(tree) }
func (c bootstrap) chain() tree    { return c.listener()["filter_chains"].([]any)[0].(tree) }

func (c bootstrap) manager() tree {
	filters := c.chain()["filters"].([]any)
	return filters[len(filters)-1].(tree)["typed_config"].(tree)
}

// filter finds one of the manager's by its name.
func (c bootstrap) filter(name string) int {
	return slices.IndexFunc(c.manager()["http_filters"].([]any), func(f any) bool { return f.(tree)["name"] == name })
}

func (c bootstrap) host() tree {
	return c.manager()["route_config"].(tree)["virtual_hosts"].([]any)[0].(tree)
}

// protected is the route that samepod rendered: the last one.
func (c bootstrap) protected() tree {
	routes := c.host()["routes"].([]any)
	return routes[len(routes)-1].(tree)
}

func (c bootstrap) cluster(name string) tree {
	all := c.static()["clusters"].([]any)
	return all[slices.IndexFunc(all, func(v any) bool { return v.(tree)["name"] == name })].(tree)
}

const (
	protectedCluster = "samepod_verified"
	checkFilter      = "envoy.filters.http.ext_authz"
	copyFilter       = "envoy.filters.http.set_filter_state"
	routerFilter     = "envoy.filters.http.router"
	httpOptions      = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
)

// The places.

func inListener(c bootstrap, v any)    { patch(c.listener(), v) }
func inManager(c bootstrap, v any)     { patch(c.manager(), v) }
func inRouteConfig(c bootstrap, v any) { patch(c.manager()["route_config"].(tree), v) }
func inHost(c bootstrap, v any)        { patch(c.host(), v) }
func inRoute(c bootstrap, v any)       { patch(c.protected(), v) }
func inAction(c bootstrap, v any)      { patch(c.protected()["route"].(tree), v) }
func inCluster(c bootstrap, v any)     { patch(c.cluster(protectedCluster), v) }
func inAuthz(c bootstrap, v any)       { patch(c.cluster("samepod_authz"), v) }

// inProtocol is in the HttpProtocolOptions of the protected cluster.
func inProtocol(c bootstrap, v any) {
	patch(c.cluster(protectedCluster)["typed_extension_protocol_options"].(tree)[httpOptions].(tree), v)
}

func inCheck(c bootstrap, v any) {
	patch(c.manager()["http_filters"].([]any)[c.filter(checkFilter)].(tree)["typed_config"].(tree), v)
}

func inCopies(c bootstrap, v any) {
	patch(c.manager()["http_filters"].([]any)[c.filter(copyFilter)].(tree)["typed_config"].(tree), v)
}

func beforeCheck(c bootstrap, v any)  { c.insertFilter(c.filter(checkFilter), v) }
func behindCheck(c bootstrap, v any)  { c.insertFilter(c.filter(checkFilter)+1, v) }
func beforeRouter(c bootstrap, v any) { c.insertFilter(c.filter(routerFilter), v) }

func (c bootstrap) insertFilter(at int, v any) {
	c.manager()["http_filters"] = slices.Insert(c.manager()["http_filters"].([]any), at, v)
}

// dropFilters takes HTTP filters away by their names.
func dropFilters(c bootstrap, v any) {
	c.manager()["http_filters"] = slices.DeleteFunc(c.manager()["http_filters"].([]any), func(f any) bool {
		return slices.Contains(v.([]any), f.(tree)["name"])
	})
}

// dropCopy takes one of the copies away by its key.
func dropCopy(c bootstrap, v any) {
	config := c.manager()["http_filters"].([]any)[c.filter(copyFilter)].(tree)["typed_config"].(tree)
	config["on_request_headers"] = slices.DeleteFunc(config["on_request_headers"].([]any), func(f any) bool { return f.(tree)["object_key"] == v })
}

// atConnection is a network filter before the manager.
func atConnection(c bootstrap, v any) {
	c.chain()["filters"] = slices.Insert(c.chain()["filters"].([]any), 0, v)
}

// addRoute is a route that is tried before the protected one.
func addRoute(c bootstrap, v any) {
	c.host()["routes"] = slices.Insert(c.host()["routes"].([]any), 0, v)
}

// addTunnel is the protected route for CONNECT, which Envoy ends.
func addTunnel(c bootstrap, _ any) {
	route := maps.Clone(c.protected())
	route["match"] = tree{"connect_matcher": tree{}}
	action := maps.Clone(route["route"].(tree))
	action["upgrade_configs"] = []any{tree{"upgrade_type": "CONNECT", "connect_config": tree{}}}
	route["route"] = action
	addRoute(c, route)
}

func addCluster(c bootstrap, v any) {
	c.static()["clusters"] = append(c.static()["clusters"].([]any), v)
}

// replaceCluster puts another discovery in the place of the rendered one, and keeps
// everything else of the protected cluster.
func replaceCluster(c bootstrap, v any) {
	delete(c.cluster(protectedCluster), "load_assignment")
	delete(c.cluster(protectedCluster), "type")
	inCluster(c, v)
}

// viaEDS makes the hosts of the protected cluster come from a file.
func viaEDS(c bootstrap, v any) {
	path := v.(tree)["path"].(string)
	hosts := tree{"@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", "cluster_name": protectedCluster, "endpoints": []any{tree{"lb_endpoints": []any{tree{"endpoint": v.(tree)["endpoint"]}}}}}
	text, err := json.Marshal(tree{"resources": []any{hosts}})
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		panic(err)
	}
	c.tree["node"] = tree{"id": "lab", "cluster": "lab"}
	replaceCluster(c, tree{"type": "EDS", "eds_cluster_config": tree{"eds_config": tree{"path_config_source": tree{"path": path}}}})
}

// upstreamFilters are those of the protected cluster: the assertion and the codec.
func (c bootstrap) upstreamFilters() []any {
	return c.cluster(protectedCluster)["typed_extension_protocol_options"].(tree)[httpOptions].(tree)["http_filters"].([]any)
}

func (c bootstrap) assertion() tree { return c.upstreamFilters()[0].(tree)["typed_config"].(tree) }

func inAssertion(c bootstrap, v any) { patch(c.assertion(), v) }

// onlyShadow makes the assertion tell what it would refuse.
func onlyShadow(c bootstrap, _ any) {
	c.assertion()["shadow_rules"] = c.assertion()["rules"]
	delete(c.assertion(), "rules")
}

// unconditional leaves the ranges of the assertion, and drops the comparison.
func unconditional(c bootstrap, _ any) {
	walk(c.assertion(), func(t tree) {
		delete(t, "condition")
		delete(t, "cel_config")
	})
}

func codecFirst(c bootstrap, _ any) { slices.Reverse(c.upstreamFilters()) }

// withoutAssertion drops what refuses a request for which samepod returned no
// address or another one.
func withoutAssertion(c bootstrap, _ any) {
	inProtocol(c, tree{"http_filters": nil})
	dropFilters(c, []any{"envoy.filters.http.rbac"})
}

// weakMappers drops what limits the mappers of local replies to samepod's.
func weakMappers(c bootstrap, v any) {
	for _, m := range c.manager()["local_reply_config"].(tree)["mappers"].([]any) {
		walk(m, func(t tree) {
			if e, ok := t["expression"].(string); ok {
				for _, part := range v.([]any) {
					e = strings.ReplaceAll(e, part.(string), "")
				}
				t["expression"] = strings.TrimPrefix(strings.TrimSpace(e), "&& ")
				if t["expression"] == "" {
					t["expression"] = "true"
				}
			}
		})
	}
}

// patch merges v into a tree as a JSON merge patch does (RFC 7386).
func patch(into tree, v any) {
	for key, value := range v.(tree) {
		below, isTree := value.(tree)
		was, wasTree := into[key].(tree)
		switch {
		case value == nil:
			delete(into, key)
		case isTree && wasTree:
			patch(was, below)
		default:
			into[key] = value
		}
	}
}

// walk calls f with every map in v.
func walk(v any, f func(tree)) {
	switch v := v.(type) {
	case tree:
		f(v)
		for _, below := range v {
			walk(below, f)
		}
	case []any:
		for _, below := range v {
			walk(below, f)
		}
	}
}

// writer is a filter that writes filter state: pairs of key and value.
func writer(pairs ...string) string {
	text := `{name: writer, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config, on_request_headers: [`
	for i := 0; i < len(pairs); i += 2 {
		text += objectYAML(pairs[i], pairs[i+1]) + ","
	}
	return text + "]}}"
}

// objectYAML is one object of filter state.
func objectYAML(key, value string) string {
	factory := ""
	if key == copied {
		factory = "factory_key: envoy.string, "
	}
	return fmt.Sprintf("{object_key: %s, %sformat_string: {text_format_source: {inline_string: %q}}}", key, factory, value)
}

// Keys of filter state.
const (
	originalDst = "envoy.network.transport_socket.original_dst_address" // what the cluster dials
	copied      = "samepod.upstream"                                    // what the assertion compares with
)
