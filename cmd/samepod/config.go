package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/identity"
)

// configFile is samepod.yaml. docs/configuration.md is made from its tags.
type configFile struct {
	Dialect      dialect             `yaml:"dialect" doc:"How a request says which Pod it means: claim (it names the Pod), opensandbox or agent-sandbox (it names a sandbox of that engine)." default:"claim"`
	Claim        claimConfig         `yaml:"claim" doc:"Where in the request each field of the claim stands. A field that is left out stands in its default header. With an engine only allowed can be set."`
	OpenSandbox  *openSandboxConfig  `yaml:"opensandbox" doc:"With the dialect opensandbox: what its ingress is told by flags."`
	AgentSandbox *agentSandboxConfig `yaml:"agentSandbox" doc:"With the dialect agent-sandbox: what its router is told by flags."`
	Assert       bool                `yaml:"assert" doc:"With an engine: Envoy dials the hosts of a cluster of yours (samepod envoy --upstream assert). The address that the engine publishes must then be the Pod's." default:"false"`
	Scope        *scopeConfig        `yaml:"scope" doc:"The Pods that may be named. Required."`
	Ports        *portsConfig        `yaml:"ports" doc:"The ports that may be dialled: a list of numbers and ranges (\"8000-8010\"), or any. Required."`
	Addresses    addressesConfig     `yaml:"addresses" doc:"The addresses that may be dialled."`
	History      historyConfig       `yaml:"history" doc:"The memory of who held an address, which explains denials in the log."`
}

type dialect string

const (
	dialectClaim        dialect = "claim"
	dialectOpenSandbox  dialect = "opensandbox"
	dialectAgentSandbox dialect = "agent-sandbox"
)

func (d *dialect) check() error {
	if !slices.Contains([]dialect{dialectClaim, dialectOpenSandbox, dialectAgentSandbox}, *d) {
		return fmt.Errorf("%q; allowed: claim, opensandbox, agent-sandbox", *d)
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
		Dialect: dialectClaim,
		History: historyConfig{Addresses: 10_000, Tenures: 8, TTL: 24 * time.Hour},
	}
}

// settings is the configuration in the words of the packages that use it.
type settings struct {
	dialect  dialect
	claims   authz.Mapping // with an engine, Allowed alone
	engine   *engine       // nil for the dialect claim
	policy   authz.Policy
	selector labels.Selector
	history  identity.HistoryConfig
}

// selected is the selector's question.
func (s settings) selected(set map[string]string) bool { return s.selector.Matches(labels.Set(set)) }

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
	errEngine := c.checkDialect()
	if errEngine == nil && c.Dialect != dialectClaim {
		s.engine, errEngine = c.readEngine()
	}
	return s, errors.Join(errScope, errAddresses, errSelector, errClaims, errEngine)
}
