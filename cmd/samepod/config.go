package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/identity"
)

// configFile is samepod.yaml. docs/configuration.md is made from its tags.
type configFile struct {
	Dialect   string          `yaml:"dialect" doc:"How a request says which Pod it means. Only \"claim\" so far." default:"claim"`
	Claim     claimConfig     `yaml:"claim" doc:"Where in the request each field of the claim stands. A field that is left out stands in its default header."`
	Scope     *scopeConfig    `yaml:"scope" doc:"The Pods that may be named. Required."`
	Ports     *portsConfig    `yaml:"ports" doc:"The ports that may be dialled: a list of numbers and ranges (\"8000-8010\"), or any. Required."`
	Addresses addressesConfig `yaml:"addresses" doc:"The addresses that may be dialled."`
	History   historyConfig   `yaml:"history" doc:"The memory of who held an address, which explains denials in the log."`
}

type claimConfig struct {
	Target   *sourceConfig `yaml:"target" doc:"<namespace>/<pod>." default:"header x-samepod-target"`
	UID      *uidConfig    `yaml:"uid" doc:"The uid that the Pod must have." default:"header x-samepod-expect-pod-uid"`
	Recorded *sourceConfig `yaml:"recorded" doc:"The <ip>:<port> that the caller remembers, if it does." default:"header x-samepod-recorded"`
	Port     *sourceConfig `yaml:"port" doc:"The port, for callers that remember no address." default:"header x-samepod-port"`
	Allowed  *sourceConfig `yaml:"allowed" doc:"A value that must equal the target: what a verified token says that the caller may name."`
}

type sourceConfig struct {
	Header           string          `yaml:"header" doc:"The name of a request header, in lower case."`
	ContextExtension string          `yaml:"contextExtension" doc:"A key of the route's context_extensions."`
	Metadata         *metadataConfig `yaml:"metadata" doc:"A string in the dynamic metadata of an earlier filter."`
}

type uidConfig struct {
	Header           string          `yaml:"header" doc:"As above."`
	ContextExtension string          `yaml:"contextExtension" doc:"As above."`
	Metadata         *metadataConfig `yaml:"metadata" doc:"As above."`
	Optional         bool            `yaml:"optional" doc:"Take requests without a uid. They also reach a Pod that was rebuilt under the name." default:"false"`
}

type metadataConfig struct {
	Namespace string   `yaml:"namespace" doc:"The filter's namespace, such as envoy.filters.http.jwt_authn."`
	Path      []string `yaml:"path" doc:"The keys from there to the string."`
}

type scopeConfig struct {
	Namespaces []string        `yaml:"namespaces" doc:"The namespaces whose Pods may be named, or [\"*\"] for all. Required."`
	Selector   *selectorConfig `yaml:"selector" doc:"A Kubernetes label selector that the Pod must match. Left out, every Pod does; {} is refused."`
}

type selectorConfig struct {
	MatchLabels      map[string]string  `yaml:"matchLabels" doc:"Labels that the Pod must have."`
	MatchExpressions []expressionConfig `yaml:"matchExpressions" doc:"Requirements that the Pod must meet."`
}

type expressionConfig struct {
	Key      string   `yaml:"key" doc:"A label key."`
	Operator string   `yaml:"operator" doc:"In, NotIn, Exists or DoesNotExist."`
	Values   []string `yaml:"values" doc:"The values of In and NotIn."`
}

type addressesConfig struct {
	CIDRs []string `yaml:"cidrs" doc:"CIDRs that may be dialled. Loopback, link-local, cloud metadata, multicast, unspecified and node addresses stay refused until a CIDR within their range names them." default:"any address that a live Pod holds"`
}

type historyConfig struct {
	Addresses int           `yaml:"addresses" doc:"Addresses remembered." default:"10000"`
	Tenures   int           `yaml:"tenures" doc:"Holders remembered of each." default:"8"`
	TTL       time.Duration `yaml:"ttl" doc:"How long an address is remembered after its last change." default:"24h"`
}

func defaultConfig() configFile {
	return configFile{
		Dialect: "claim",
		History: historyConfig{Addresses: 10_000, Tenures: 8, TTL: 24 * time.Hour},
	}
}

// settings is the configuration in the words of the packages that use it.
type settings struct {
	claims   authz.Mapping
	policy   authz.Policy
	selected func(labels map[string]string) bool
	selector string
	scope    []string
	history  identity.HistoryConfig
}

// loadConfig reads samepod.yaml.
func loadConfig(path string) (settings, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's own file
	if err != nil {
		return settings{}, fmt.Errorf("--config: %w", err)
	}
	defer f.Close()
	c := defaultConfig()
	if err := decodeStrict(path, f, &c); err != nil {
		return settings{}, err
	}
	s, err := c.settings()
	if err != nil {
		return settings{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func (c *configFile) settings() (settings, error) {
	if c.Dialect != "claim" {
		return settings{}, fmt.Errorf("dialect: %q; allowed: claim", c.Dialect)
	}
	s := settings{history: identity.HistoryConfig{Addresses: c.History.Addresses, Tenures: c.History.Tenures, TTL: c.History.TTL}}
	if c.History.Addresses == 0 || c.History.Tenures == 0 {
		return settings{}, errors.New("history: addresses and tenures must be at least 1")
	}
	var err error
	if s.claims, err = c.Claim.mapping(); err != nil {
		return settings{}, err
	}
	if c.Scope == nil || c.Scope.Namespaces == nil {
		return settings{}, errors.New(`scope.namespaces: missing; allowed: a list of namespaces, or ["*"] for every one`)
	}
	s.scope = c.Scope.Namespaces
	if s.policy.Scope, err = authz.ParseScope(c.Scope.Namespaces); err != nil {
		return settings{}, fmt.Errorf("scope.namespaces: %w", err)
	}
	if s.selected, s.selector, err = c.Scope.Selector.compile(); err != nil {
		return settings{}, fmt.Errorf("scope.selector: %w", err)
	}
	if s.policy.Ports, err = c.Ports.parse(); err != nil {
		return settings{}, err
	}
	if s.policy.Addresses, err = authz.ParseAddresses(c.Addresses.CIDRs); err != nil {
		return settings{}, fmt.Errorf("addresses.cidrs: %w", err)
	}
	return s, nil
}

func (c *claimConfig) mapping() (authz.Mapping, error) {
	m := authz.DefaultMapping()
	uid := (*sourceConfig)(nil)
	if c.UID != nil {
		m.UIDOptional = c.UID.Optional
		if s := (sourceConfig{c.UID.Header, c.UID.ContextExtension, c.UID.Metadata}); s != (sourceConfig{}) {
			uid = &s
		}
	}
	for _, f := range []struct {
		name string
		from *sourceConfig
		to   *authz.Source
	}{
		{"target", c.Target, &m.Target}, {"uid", uid, &m.UID}, {"recorded", c.Recorded, &m.Recorded}, {"port", c.Port, &m.Port}, {"allowed", c.Allowed, &m.Allowed},
	} {
		if f.from == nil {
			continue
		}
		var err error
		if *f.to, err = f.from.source(); err != nil {
			return authz.Mapping{}, fmt.Errorf("claim.%s: %w", f.name, err)
		}
	}
	all := m.Sources()
	for i, s := range all {
		if slices.Contains(all[:i], s) {
			return authz.Mapping{}, fmt.Errorf("claim: two fields stand in %s", s)
		}
	}
	return m, nil
}

// headerName is a field name (RFC 9110) in the lower case that Envoy compares in.
// Envoy's own headers and pseudo headers mean something else.
var headerName = regexp.MustCompile("^[a-z0-9!#$%&'*+.^_`|~-]+$")

func (c *sourceConfig) source() (authz.Source, error) {
	set := 0
	for _, is := range []bool{c.Header != "", c.ContextExtension != "", c.Metadata != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return authz.Source{}, errors.New("exactly one of header, contextExtension and metadata must be set")
	}
	switch {
	case c.ContextExtension != "":
		return authz.Source{ContextExtension: c.ContextExtension}, nil
	case c.Metadata != nil:
		if c.Metadata.Namespace == "" || len(c.Metadata.Path) == 0 {
			return authz.Source{}, errors.New("metadata: namespace and path must be set")
		}
		for _, key := range c.Metadata.Path {
			if key == "" || strings.Contains(key, "/") {
				return authz.Source{}, fmt.Errorf("metadata.path: %q; allowed: keys that are not empty and have no '/'", key)
			}
		}
		return authz.Source{Metadata: authz.MetadataPath{Namespace: c.Metadata.Namespace, Path: strings.Join(c.Metadata.Path, "/")}}, nil
	}
	if !headerName.MatchString(c.Header) || c.Header == "host" || strings.HasPrefix(c.Header, "x-envoy-") || c.Header == authz.PodUIDHeader {
		return authz.Source{}, fmt.Errorf("header: %q; allowed: a header name in lower case, but not host, %s or one of Envoy's own", c.Header, authz.PodUIDHeader)
	}
	return authz.Source{Header: c.Header}, nil
}

// compile makes the selector's question. The nil selector selects every Pod; an
// empty one would too, and is refused, since it reads like the opposite.
func (c *selectorConfig) compile() (func(map[string]string) bool, string, error) {
	if c == nil {
		return func(map[string]string) bool { return true }, "every Pod", nil
	}
	if len(c.MatchLabels) == 0 && len(c.MatchExpressions) == 0 {
		return nil, "", errors.New("{} would select every Pod; leave selector out to say that")
	}
	api := &metav1.LabelSelector{MatchLabels: c.MatchLabels}
	for _, e := range c.MatchExpressions {
		api.MatchExpressions = append(api.MatchExpressions, metav1.LabelSelectorRequirement{Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values})
	}
	selector, err := metav1.LabelSelectorAsSelector(api)
	if err != nil {
		return nil, "", err
	}
	return func(set map[string]string) bool { return selector.Matches(labels.Set(set)) }, selector.String(), nil
}

// portsConfig is "any", or a list of numbers and ranges.
type portsConfig struct{ texts []string }

func (p *portsConfig) parse() (authz.Ports, error) {
	if p == nil || len(p.texts) == 0 {
		return authz.Ports{}, errors.New(`ports: missing; allowed: a list of ports and ranges, or any (sandboxes of OpenSandbox listen on 44772, of agent-sandbox on 8888; a caller of the dialect claim names its own)`)
	}
	if len(p.texts) == 1 && p.texts[0] == "any" {
		return authz.AnyPort(), nil
	}
	ports, err := authz.ParsePorts(p.texts)
	if err != nil {
		return authz.Ports{}, fmt.Errorf("ports: %w", err)
	}
	return ports, nil
}

var portsType = reflect.TypeFor[portsConfig]()
