package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/samepod/samepod/authz"
)

type claimConfig struct {
	Target   *sourceConfig `yaml:"target" doc:"<namespace>/<pod>." default:"header x-samepod-target"`
	UID      *uidConfig    `yaml:"uid" doc:"The uid that the Pod must have." default:"header x-samepod-expect-pod-uid"`
	Recorded *sourceConfig `yaml:"recorded" doc:"The <ip>:<port> that the caller remembers, if it does." default:"header x-samepod-recorded"`
	Port     *sourceConfig `yaml:"port" doc:"The port, for callers that remember no address." default:"header x-samepod-port"`
	Allowed  *sourceConfig `yaml:"allowed" doc:"A value that must equal the target: what a verified token says that the caller may name. With the dialect opensandbox it is the id of the sandbox, with agent-sandbox <namespace>/<sandbox>. A header only if Envoy sets it itself, whatever the caller sends."`
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
