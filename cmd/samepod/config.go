package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/identity"
)

// configFile is samepod.yaml. docs/configuration.md is made from its tags.
type configFile struct {
	Dialect   dialect         `yaml:"dialect" doc:"How a request says which Pod it means. Only \"claim\" so far." default:"claim"`
	Claim     claimConfig     `yaml:"claim" doc:"Where in the request each field of the claim stands. A field that is left out stands in its default header."`
	Scope     *scopeConfig    `yaml:"scope" doc:"The Pods that may be named. Required."`
	Ports     *portsConfig    `yaml:"ports" doc:"The ports that may be dialled: a list of numbers and ranges (\"8000-8010\"), or any. Required."`
	Addresses addressesConfig `yaml:"addresses" doc:"The addresses that may be dialled."`
	History   historyConfig   `yaml:"history" doc:"The memory of who held an address, which explains denials in the log."`
}

type dialect string

func (d *dialect) check() error {
	if *d != "claim" {
		return fmt.Errorf("%q; allowed: claim", *d)
	}
	return nil
}

// filled is a string that is not empty: an empty one is not the same as none.
type filled string

func (f *filled) check() error {
	if *f == "" {
		return errors.New(`""; allowed: a string that is not empty`)
	}
	return nil
}

type claimConfig struct {
	Target   *sourceConfig `yaml:"target" doc:"<namespace>/<pod>." default:"header x-samepod-target"`
	UID      *uidConfig    `yaml:"uid" doc:"The uid that the Pod must have." default:"header x-samepod-expect-pod-uid"`
	Recorded *sourceConfig `yaml:"recorded" doc:"The <ip>:<port> that the caller remembers, if it does." default:"header x-samepod-recorded"`
	Port     *sourceConfig `yaml:"port" doc:"The port, for callers that remember no address." default:"header x-samepod-port"`
	Allowed  *sourceConfig `yaml:"allowed" doc:"A value that must equal the target: what a verified token says that the caller may name. A header only if Envoy sets it itself, whatever the caller sends."`
}

type sourceConfig struct {
	Header           filled          `yaml:"header" doc:"The name of a request header, in lower case."`
	ContextExtension filled          `yaml:"contextExtension" doc:"A key of the route's context_extensions."`
	Metadata         *metadataConfig `yaml:"metadata" doc:"A string in the dynamic metadata of an earlier filter."`
}

func (c *sourceConfig) check() error {
	set := 0
	for _, is := range []bool{c.Header != "", c.ContextExtension != "", c.Metadata != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("%d places; allowed: exactly one of header, contextExtension and metadata", set)
	}
	if h := string(c.Header); h != "" && (!headerName.MatchString(h) || slices.Contains(notClaims, h) || strings.HasPrefix(h, "x-envoy-")) {
		return fmt.Errorf("header %q; allowed: a name in lower case, but not x-envoy-*, %s", c.Header, strings.Join(notClaims, ", "))
	}
	return nil
}

// headerName is a field name (RFC 9110) in the lower case in which Envoy compares,
// without the quotes, which neither YAML nor CEL would have to be told about. It is
// the one that package envoy renders.
var headerName = regexp.MustCompile("^[a-z0-9!#$%&*+.^_|~-]{1,200}$")

// notClaims are headers that mean something else: to HTTP itself, or to a Pod.
var notClaims = []string{
	"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "keep-alive", "proxy-connection",
	authz.PodUIDHeader, authz.ReasonHeader, authz.DecisionHeader,
}

func (c *sourceConfig) source() authz.Source {
	s := authz.Source{Header: string(c.Header), ContextExtension: string(c.ContextExtension)}
	if c.Metadata != nil {
		keys := make([]string, len(c.Metadata.Path))
		for i, key := range c.Metadata.Path {
			keys[i] = string(key)
		}
		s.Metadata = authz.MetadataPath{Namespace: string(c.Metadata.Namespace), Path: strings.Join(keys, "/")}
	}
	return s
}

// uidConfig may say that the uid is optional and leave its place at the default.
type uidConfig struct {
	sourceConfig
	Optional bool `yaml:"optional" doc:"Take requests without a uid. They also reach a Pod that was rebuilt under the name." default:"false"`
}

func (c *uidConfig) check() error {
	if c.sourceConfig == (sourceConfig{}) {
		return nil
	}
	return c.sourceConfig.check()
}

type metadataConfig struct {
	Namespace filled   `yaml:"namespace" doc:"The filter's namespace, such as envoy.filters.http.jwt_authn."`
	Path      []filled `yaml:"path" doc:"The keys from there to the string."`
}

func (c *metadataConfig) check() error {
	if c.Namespace == "" || len(c.Path) == 0 {
		return errors.New("namespace and path must be set")
	}
	for _, key := range c.Path {
		if strings.Contains(string(key), "/") {
			return fmt.Errorf("path: %q; allowed: keys without '/'", key)
		}
	}
	return nil
}

type scopeConfig struct {
	Namespaces namespaceList   `yaml:"namespaces" doc:"The namespaces whose Pods may be named, or [\"*\"] for all. Required."`
	Selector   *selectorConfig `yaml:"selector" doc:"A Kubernetes label selector that the Pod must match. Left out, every Pod does; {} is refused."`
}

type namespaceList []string

func (l *namespaceList) check() error {
	_, err := authz.ParseScope(*l)
	return err
}

// selectorConfig is a Kubernetes LabelSelector. Left out it selects every Pod; an
// empty one would too, and is refused, since it reads like the opposite.
type selectorConfig struct {
	MatchLabels      map[string]string  `yaml:"matchLabels" doc:"Labels that the Pod must have."`
	MatchExpressions []expressionConfig `yaml:"matchExpressions" doc:"Requirements that the Pod must meet."`
}

type expressionConfig struct {
	Key      string   `yaml:"key" doc:"A label key."`
	Operator operator `yaml:"operator" doc:"In, NotIn, Exists or DoesNotExist."`
	Values   []string `yaml:"values" doc:"The values of In and NotIn."`
}

type operator string

func (o *operator) check() error {
	if !slices.Contains([]operator{"In", "NotIn", "Exists", "DoesNotExist"}, *o) {
		return fmt.Errorf("%q; allowed: In, NotIn, Exists, DoesNotExist", *o)
	}
	return nil
}

func (c *selectorConfig) check() error {
	if len(c.MatchLabels) == 0 && len(c.MatchExpressions) == 0 {
		return errors.New("{} would select every Pod; leave selector out to say that")
	}
	_, err := c.compile()
	return err
}

func (c *selectorConfig) compile() (labels.Selector, error) {
	if c == nil {
		return labels.Everything(), nil
	}
	api := &metav1.LabelSelector{MatchLabels: c.MatchLabels}
	for _, e := range c.MatchExpressions {
		api.MatchExpressions = append(api.MatchExpressions, metav1.LabelSelectorRequirement{Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values})
	}
	return metav1.LabelSelectorAsSelector(api)
}

// portsConfig is the word any, or a list of numbers and ranges.
type portsConfig struct{ ports authz.Ports }

func (p *portsConfig) decode(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Value == "any" {
		p.ports = authz.AnyPort()
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("%s; allowed: a list of ports and ranges, or any", describe(n))
	}
	if len(n.Content) == 0 {
		return errNoPorts
	}
	texts := make([]string, len(n.Content))
	for i, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			return fmt.Errorf("[%d] %s; allowed: a port 1 to 65535, or a range such as 8000-8010", i, describe(item))
		}
		texts[i] = item.Value
	}
	var err error
	p.ports, err = authz.ParsePorts(texts)
	return err
}

var errNoPorts = errors.New(`missing; allowed: a list of ports and ranges, or any (sandboxes of OpenSandbox listen on 44772, of agent-sandbox on 8888; a caller of the dialect claim names its own)`)

type addressesConfig struct {
	CIDRs cidrList `yaml:"cidrs" doc:"CIDRs that may be dialled. Loopback, link-local, cloud metadata, multicast, unspecified and node addresses stay refused until a CIDR within their range names them." default:"any address that a live Pod holds"`
}

type cidrList []string

func (l *cidrList) check() error {
	if len(*l) == 0 {
		return errors.New("[] would be every address; leave cidrs out to say that")
	}
	_, err := authz.ParseAddresses(*l)
	return err
}

type historyConfig struct {
	Addresses int           `yaml:"addresses" doc:"Addresses remembered." default:"10000"`
	Tenures   int           `yaml:"tenures" doc:"Holders remembered of each." default:"8"`
	TTL       time.Duration `yaml:"ttl" doc:"How long an address is remembered after its last change; 0s for ever." default:"24h"`
}

func (c *historyConfig) check() error {
	if c.TTL != 0 && c.TTL < time.Second {
		return fmt.Errorf("ttl: %v; allowed: 0s for ever, or at least 1s", c.TTL)
	}
	return nil
}

func defaultConfig() configFile {
	return configFile{
		Dialect: "claim",
		History: historyConfig{Addresses: 10_000, Tenures: 8, TTL: 24 * time.Hour},
	}
}

// settings is the configuration in the words of the packages that use it.
type settings struct {
	dialect  dialect
	claims   authz.Mapping
	policy   authz.Policy
	selector labels.Selector
	history  identity.HistoryConfig
}

// keep is what of Pods is needed.
func (s settings) keep() identity.Keep {
	return identity.Keep{Selected: func(set map[string]string) bool { return s.selector.Matches(labels.Set(set)) }}
}

// loadConfig reads samepod.yaml.
func loadConfig(path string) (settings, error) {
	const most = 1 << 20 // bytes
	text, err := readRegular(path, most)
	if err != nil {
		return settings{}, fmt.Errorf("--config: %w", err)
	}
	c := defaultConfig()
	if err := decodeStrict(path, bytes.NewReader(text), &c); err != nil {
		return settings{}, err
	}
	s, err := c.settings()
	if err != nil {
		return settings{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// settings says what the file means. What is wrong in one place was refused there;
// what is left is what is missing, and what two places say together.
func (c *configFile) settings() (settings, error) {
	if c.Scope == nil || c.Scope.Namespaces == nil {
		return settings{}, errors.New(`scope.namespaces: missing; allowed: a list of namespaces, or ["*"] for every one`)
	}
	if c.Ports == nil {
		return settings{}, fmt.Errorf("ports: %w", errNoPorts)
	}
	s := settings{dialect: c.Dialect, history: identity.HistoryConfig{Addresses: c.History.Addresses, Tenures: c.History.Tenures, TTL: c.History.TTL}}
	s.policy.Ports = c.Ports.ports
	var errScope, errAddresses, errSelector, errClaims error
	s.policy.Scope, errScope = authz.ParseScope(c.Scope.Namespaces)
	s.policy.Addresses, errAddresses = authz.ParseAddresses(c.Addresses.CIDRs)
	s.selector, errSelector = c.Scope.Selector.compile()
	s.claims, errClaims = c.Claim.mapping()
	return s, errors.Join(errScope, errAddresses, errSelector, errClaims)
}

func (c *claimConfig) mapping() (authz.Mapping, error) {
	m := authz.DefaultMapping()
	var uid *sourceConfig
	if c.UID != nil {
		m.UIDOptional = c.UID.Optional
		if c.UID.sourceConfig != (sourceConfig{}) {
			uid = &c.UID.sourceConfig
		}
	}
	for _, f := range []struct {
		from *sourceConfig
		to   *authz.Source
	}{{c.Target, &m.Target}, {uid, &m.UID}, {c.Recorded, &m.Recorded}, {c.Port, &m.Port}, {c.Allowed, &m.Allowed}} {
		if f.from != nil {
			*f.to = f.from.source()
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
