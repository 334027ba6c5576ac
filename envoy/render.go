package envoy

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

//go:embed envoy.yaml.tmpl
var templateText string

// Bootstrap renders a complete static bootstrap.
func Bootstrap(p Params) ([]byte, error) { return render("bootstrap", p) }

// Filters renders what belongs to the HttpConnectionManager, the
// RouteConfiguration and the routes of a configuration that exists.
func Filters(p Params) ([]byte, error) { return render("filters", p) }

// Clusters renders the protected cluster and the one of samepod itself.
func Clusters(p Params) ([]byte, error) { return render("clusters", p) }

func render(name string, p Params) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if tls := p.UpstreamTLS; name != "filters" && tls.PodUIDPrefix != "" && tls.CASecret == "" { // the filters need the prefix alone
		return nil, problem("upstream-tls-uid-prefix", "without effect; there is no --upstream-tls-ca-secret")
	}
	return execute(name, view{p})
}

func execute(name string, data any) ([]byte, error) {
	var t *template.Template
	part := func(name string, data any) (string, error) {
		var b bytes.Buffer
		err := t.ExecuteTemplate(&b, name, data)
		return b.String(), err
	}
	t, err := template.New("envoy").Option("missingkey=error").Funcs(template.FuncMap{
		"part":     part,
		"indent":   indent,
		"quote":    quote,
		"duration": duration,
		"address":  address,
		"cel":      Reply.cel,
		"millis":   func(d time.Duration) int64 { return d.Milliseconds() },
		"past":     func(last uint16) int { return int(last) + 1 }, // Envoy's ranges exclude their end
	}).Parse(templateText)
	if err != nil {
		return nil, err
	}
	text, err := part(name, data)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return []byte(text), nil
}

// view is what the template sees: the parameters, and what follows from them.
type view struct{ Params }

// Resolves reports whether the cluster dials what samepod returns.
func (v view) Resolves() bool { return v.Upstream != Assert }

// HasLimits reports whether the size of returned headers can be bounded.
func (v view) HasLimits() bool { return v.Version >= sinceLimits }

// Unasserted reports whether a cluster of the operator's picks the host and nothing
// compares it.
func (v view) Unasserted() bool { return v.unasserted() }

// Rendered is what is rendered in place of what was asked for.
func (v view) Rendered() Arrangement {
	if v.Upstream == Both && !v.Asserts() {
		return Resolve
	}
	return v.Upstream
}

// AllowedHeaders are the request headers that a page of another origin may send.
func (v view) AllowedHeaders() string {
	all := slices.Concat(v.ClaimHeaders, []string{"content-type"}, v.CORSHeaders)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// ByName reports whether Envoy has to resolve names to find samepod.
func (v view) ByName() bool {
	return slices.ContainsFunc(v.Replicas, func(r Replica) bool { return r.Name != HostPort{} })
}

// Replicated reports whether there may be several replicas.
func (v view) Replicated() bool { return len(v.Replicas) > 1 || v.ByName() }

// Extensions are the context extensions in a stable order.
func (v view) Extensions() []contextExtension {
	var all []contextExtension
	for _, k := range slices.Sorted(maps.Keys(v.ContextExtensions)) {
		all = append(all, contextExtension{k, v.ContextExtensions[k]})
	}
	return all
}

// ClaimsEndHere are the headers that no Pod gets to see: those that samepod reads,
// and its default ones even where it reads others, since a Pod may trust them.
func (v view) ClaimsEndHere() []string {
	all := slices.Concat(v.ClaimHeaders, v.PrivateHeaders)
	for _, h := range []string{"x-samepod-target", "x-samepod-expect-pod-uid", "x-samepod-recorded", "x-samepod-port"} {
		if !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	return all
}

// MaySet are the headers that samepod may set, as a regular expression.
func (v view) MaySet() string {
	all := []string{"x-samepod-pod-uid"}
	if v.SetsPath {
		all = append(all, ":path")
	}
	if v.SetsHost {
		all = append(all, ":authority")
	}
	if len(all) == 1 {
		return "^" + all[0] + "$"
	}
	return "^(" + strings.Join(all, "|") + ")$"
}

// permission is one CIDR with one range of ports.
type permission struct {
	CIDR  netip.Prefix
	Ports PortRange
}

// Permissions are what upstream_rbac lets through, besides comparing the address.
func (v view) Permissions() []permission {
	ports := v.Ports
	if len(ports) == 0 {
		ports = []PortRange{{1, 65535}}
	}
	cidrs := v.CIDRs
	if len(cidrs) == 0 {
		cidrs = []netip.Prefix{{}}
	}
	var all []permission
	for _, c := range cidrs {
		for _, r := range ports {
			all = append(all, permission{c, r})
		}
	}
	return all
}

func indent(n int, text string) string {
	pad := strings.Repeat(" ", n)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = pad + line
		}
	}
	return strings.Join(lines, "\n")
}

// quote makes a YAML string of any text: a JSON string is one.
func quote(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// duration is d as a protobuf duration: "0.5s".
func duration(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

func address(a netip.AddrPort) string {
	return fmt.Sprintf("{ socket_address: { address: %q, port_value: %d } }", a.Addr(), a.Port())
}
