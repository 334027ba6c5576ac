package agentsandbox

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/samepod/samepod/identity"
)

// The headers of agent-sandbox's routers, in lower case.
const (
	IDHeader        = "x-sandbox-id"
	NamespaceHeader = "x-sandbox-namespace"
	PortHeader      = "x-sandbox-port"
	UIDHeader       = "x-sandbox-uid"    // of the Sandbox, not of a Pod
	PodIPHeader     = "x-sandbox-pod-ip" // what the client remembers
)

// Routes says how requests name Sandboxes, as agent-sandbox's two routers take them:
// by headers and, beyond them, by the path <prefix>/<namespace>/<id>/<port>/<rest>.
type Routes struct {
	// DefaultNamespace and DefaultPort are for requests that do not say.
	DefaultNamespace string
	DefaultPort      uint16
	// PathPrefix begins the path form: "/sandboxes", say. Every path under it is of that
	// form. "" is no path form.
	PathPrefix string
}

// DefaultRoutes are those of the routers: namespace default, port 8888, no path form.
func DefaultRoutes() Routes { return Routes{DefaultNamespace: "default", DefaultPort: 8888} }

// Validate says what is wrong with r.
func (r Routes) Validate() error {
	switch p := r.PathPrefix; {
	case !isLabel(r.DefaultNamespace):
		return fmt.Errorf("default namespace: %q; %w", r.DefaultNamespace, errLabel)
	case r.DefaultPort == 0:
		return errors.New("default port: 0; allowed: a port 1 to 65535")
	case p == "":
	case !strings.HasPrefix(p, "/"), strings.HasSuffix(p, "/"), strings.ContainsFunc(p, notInPrefix), path.Clean(p) != p:
		return fmt.Errorf("path prefix: %q; allowed: a path that begins with '/' and does not end with it, of A-Z, a-z, 0-9, '-', '.', '_' and '~', without empty parts or dots alone", p)
	}
	return nil
}

func notInPrefix(r rune) bool {
	return r != '/' && r != '-' && r != '.' && r != '_' && r != '~' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// Claim reads what a request says. As in the routers an id is a DNS label, and what is
// wrong is refused with 400. Where they guess ("+80", " 80", an empty header, the first
// of two) it is refused too. A uid that is not the Sandbox's is refused later: the Go
// router would forward to whoever has it.
//
// The address is a hint, never dialled, so whose it could be does not matter: where the
// routers refuse a loopback address, here it only differs from the Pod's.
func (r Routes) Claim(req identity.Request) (identity.Claim, error) {
	c, err := headers(req)
	if err != nil {
		return identity.Claim{}, err
	}
	if rest, under := strings.CutPrefix(req.Path(), r.PathPrefix+"/"); r.PathPrefix != "" && under {
		if c, err = r.inPath(c, rest); err != nil {
			return identity.Claim{}, err
		}
	}
	if c.Sandbox == "" {
		return identity.Claim{}, &identity.ClaimError{Fault: identity.ClaimMissing, Detail: "header " + IDHeader + " is not in the request"}
	}
	if c.Namespace == "" {
		c.Namespace = r.DefaultNamespace
	}
	if c.Port == 0 {
		c.Port = r.DefaultPort
	}
	return c, nil
}

// headers reads what the headers say; what they do not say is zero.
func headers(req identity.Request) (c identity.Claim, err error) {
	read := func(name string, parse func(text string) error) {
		text, present, wrong := req.Header(name)
		switch {
		case err != nil:
		case wrong != nil:
			err = wrong
		case present:
			if wrong := parse(text); wrong != nil {
				err = malformed("header "+name, text, wrong)
			}
		}
	}
	read(IDHeader, label(&c.Sandbox))
	read(NamespaceHeader, label(&c.Namespace))
	read(PortHeader, func(text string) (err error) {
		c.Port, err = identity.ParsePort(text)
		return err
	})
	read(UIDHeader, func(text string) (err error) {
		c.SandboxUID, err = identity.ParseUID(text)
		return err
	})
	read(PodIPHeader, func(text string) (err error) {
		c.Hint, err = identity.ParseAddr(text)
		if err == nil && c.Hint.String() != text {
			err = fmt.Errorf("must be in canonical form, which is %q", c.Hint)
		}
		return err
	})
	if err != nil {
		return identity.Claim{}, err
	}
	return c, nil
}

// inPath adds what the path says behind the prefix to what the headers say, which may
// say less, but nothing else.
func (r Routes) inPath(c identity.Claim, rest string) (identity.Claim, error) {
	route, query, asked := strings.Cut(rest, "?")
	part := strings.SplitN(route, "/", 4)
	if len(part) < 3 {
		return identity.Claim{}, malformed("path", route, fmt.Errorf("must be %s/<namespace>/<id>/<port>/", r.PathPrefix))
	}
	var p identity.Claim
	var errPort error
	p.Port, errPort = identity.ParsePort(part[2])
	if err := cmp.Or(label(&p.Namespace)(part[0]), label(&p.Sandbox)(part[1]), errPort); err != nil {
		return identity.Claim{}, malformed("path", route, fmt.Errorf("must be %s/<namespace>/<id>/<port>/: %w", r.PathPrefix, err))
	}
	switch {
	case c.Namespace != "" && c.Namespace != p.Namespace:
		return identity.Claim{}, conflict(NamespaceHeader, c.Namespace, p.Namespace)
	case c.Sandbox != "" && c.Sandbox != p.Sandbox:
		return identity.Claim{}, conflict(IDHeader, c.Sandbox, p.Sandbox)
	case c.Port != 0 && c.Port != p.Port:
		return identity.Claim{}, conflict(PortHeader, c.Port, p.Port)
	}
	c.Namespace, c.Sandbox, c.Port, c.Path = p.Namespace, p.Sandbox, p.Port, "/"
	if len(part) == 4 {
		c.Path += part[3]
	}
	if asked {
		c.Path += "?" + query
	}
	return c, nil
}

func malformed(place, text string, err error) error {
	return &identity.ClaimError{Fault: identity.ClaimMalformed, Detail: fmt.Sprintf("%s is %q: %v", place, identity.Shorten(text), err)}
}

func conflict(header string, said, path any) error {
	return &identity.ClaimError{Fault: identity.ClaimConflict, Detail: fmt.Sprintf("header %s says %v, the path says %v", header, said, path)}
}

var errLabel = errors.New("must be a DNS label: 1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends")

// label keeps a text that is a DNS label (RFC 1123).
func label(to *string) func(string) error {
	return func(text string) error {
		if !isLabel(text) {
			return errLabel
		}
		*to = text
		return nil
	}
}

func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') })
}
