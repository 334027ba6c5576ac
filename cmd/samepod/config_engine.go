package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/agentsandbox"
	"github.com/samepod/samepod/identity/opensandbox"
)

type openSandboxConfig struct {
	Mode      openSandboxMode `yaml:"mode" doc:"Where the route stands, as the ingress's --mode: header (OpenSandbox-Ingress-To, or Host) or uri (the path)." default:"header"`
	Providers []provider      `yaml:"providers" doc:"What the server makes for a sandbox, as the ingress's --provider-type: batchsandbox, agent-sandbox or both." default:"[batchsandbox]"`
	Keys      filled          `yaml:"secureAccessKeysFile" doc:"A file with the keys of signed routes, as the ingress's --secure-access-keys: a=BASE64,b=BASE64. Read by samepod serve, at its start."`
}

type openSandboxMode string

func (m *openSandboxMode) check() error {
	_, err := opensandbox.ParseMode(string(*m))
	return err
}

type provider string

const (
	providerBatchSandbox provider = "batchsandbox"
	providerAgentSandbox provider = "agent-sandbox"
)

func (p *provider) check() error {
	if *p != providerBatchSandbox && *p != providerAgentSandbox {
		return fmt.Errorf("%q; allowed: batchsandbox, agent-sandbox", *p)
	}
	return nil
}

func (c *openSandboxConfig) check() error {
	for i, p := range c.Providers {
		if slices.Contains(c.Providers[:i], p) {
			return fmt.Errorf("providers: %s: listed twice", p)
		}
	}
	return nil
}

type agentSandboxConfig struct {
	DefaultNamespace filled `yaml:"defaultNamespace" doc:"The namespace of requests without X-Sandbox-Namespace." default:"default"`
	DefaultPort      int    `yaml:"defaultPort" doc:"The port of requests without X-Sandbox-Port." default:"8888"`
	PathPrefix       filled `yaml:"pathPrefix" doc:"Also take the form <prefix>/<namespace>/<id>/<port>/<rest> of the path, of which the Pod gets /<rest>: a prefix such as /sandboxes. Left out, paths are the Pod's."`
}

func (c *agentSandboxConfig) check() error {
	_, err := c.routes()
	return err
}

func (c *agentSandboxConfig) routes() (agentsandbox.Routes, error) {
	r := agentsandbox.DefaultRoutes()
	if c == nil {
		return r, nil
	}
	if c.DefaultNamespace != "" {
		r.DefaultNamespace = string(c.DefaultNamespace)
	}
	if c.DefaultPort != 0 {
		port, err := identity.ParsePort(fmt.Sprint(c.DefaultPort))
		if err != nil {
			return r, fmt.Errorf("defaultPort: %d: %w", c.DefaultPort, err)
		}
		r.DefaultPort = port
	}
	r.PathPrefix = string(c.PathPrefix)
	return r, r.Validate()
}

// checkDialect refuses the sections of another dialect: what is silently ignored is
// believed to be in force.
func (c *configFile) checkDialect() error {
	switch {
	case c.OpenSandbox != nil && c.Dialect != dialectOpenSandbox:
		return fmt.Errorf("opensandbox: without effect; dialect is %s", c.Dialect)
	case c.AgentSandbox != nil && c.Dialect != dialectAgentSandbox:
		return fmt.Errorf("agentSandbox: without effect; dialect is %s", c.Dialect)
	case c.Dialect == dialectClaim && c.Assert:
		return errors.New("assert: without effect; dialect is claim, where the recorded address is what is compared")
	case c.Dialect != dialectClaim && (c.Claim.Target != nil || c.Claim.UID != nil || c.Claim.Recorded != nil || c.Claim.Port != nil):
		return fmt.Errorf("claim: with the dialect %s only allowed has an effect", c.Dialect)
	}
	return nil
}

// readEngine is the engine that the dialect is of.
func (c *configFile) readEngine() (*engine, error) {
	e := &engine{assert: c.Assert}
	if c.Dialect == dialectAgentSandbox {
		routes, err := c.AgentSandbox.routes()
		e.agentSandbox(routes)
		return e, err
	}
	o := c.OpenSandbox
	if o == nil {
		o = &openSandboxConfig{}
	}
	mode := opensandbox.HeaderMode
	if o.Mode != "" {
		mode, _ = opensandbox.ParseMode(string(o.Mode)) // checked where it stands
	}
	providers := o.Providers
	if len(providers) == 0 {
		providers = []provider{providerBatchSandbox}
	}
	e.openSandbox(opensandbox.Routes{Mode: mode}, providers)
	e.keysFile = string(o.Keys)
	return e, nil
}

// readKeys reads the keys of signed routes, where the configuration names a file. It is
// for who serves: who renders Envoy's side reads the same configuration, and has no keys.
func (s settings) readKeys() error {
	if s.engine == nil || s.engine.keysFile == "" {
		return nil
	}
	text, err := readRegular(s.engine.keysFile, 64<<10)
	if err != nil {
		return fmt.Errorf("opensandbox.secureAccessKeysFile: %w", err)
	}
	keys, err := opensandbox.ParseKeys(string(text))
	if err != nil {
		return fmt.Errorf("opensandbox.secureAccessKeysFile: %s: %w", s.engine.keysFile, err)
	}
	s.engine.access = keys.Access
	return nil
}
