package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// OpenSandboxServer is a running opensandbox-server: the real one, on the lab's API
// server.
type OpenSandboxServer struct {
	*Process
	Addr string // host:port of its API
}

// OpenSandboxConfig is what the server's configuration differs in.
type OpenSandboxConfig struct {
	Namespace string
	// Provider is batchsandbox, which is the default, or agent-sandbox.
	Provider string
	// Gateway is the host:port, or for route mode wildcard the *.domain, that callers
	// are sent to. Empty is direct mode: callers are sent to the Pod's address.
	Gateway string
	// RouteMode is header, uri or wildcard; empty is header.
	RouteMode string
	// Keys are signing keys, base64 by their one-character id, of which Active signs.
	Keys   map[string]string
	Active string
	// ProxyThroughGateway makes the server's own proxy resolve as callers are told to,
	// instead of by the Pod's address.
	ProxyThroughGateway bool
}

// StartOpenSandboxServer runs the server until it answers.
func (l *Lab) StartOpenSandboxServer(ctx context.Context, kube *Kube, config OpenSandboxConfig) (*OpenSandboxServer, error) {
	python, err := EnginesPython(ctx)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := kube.Kubeconfig(userAdmin, kube.URL)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(l.Dir, fmt.Sprintf("opensandbox-server-%d.toml", port))
	if err := os.WriteFile(file, []byte(config.toml(port, l.Dir, kubeconfig)), 0o600); err != nil {
		return nil, err
	}
	cmd := engineCommand(l.Dir, python, "-c", "from opensandbox_server.cli import main; main()", "--config", file)
	cmd.Env = append(cmd.Env, "OPENSANDBOX_INSECURE_SERVER=YES") // without a key of its own API
	p, err := l.run("opensandbox-server", cmd)
	if err != nil {
		return nil, err
	}
	s := &OpenSandboxServer{Process: p, Addr: fmt.Sprintf("127.0.0.1:%d", port)}
	return s, wait(ctx, p, "opensandbox-server answers", 60*time.Second, func() bool {
		status, _, err := get(s.URL("/health"))
		return err == nil && status == http.StatusOK
	})
}

// toml is the configuration file. JSON strings are TOML strings.
func (c OpenSandboxConfig) toml(port int, dir, kubeconfig string) string {
	var b strings.Builder
	quote := func(s string) string { text, _ := json.Marshal(s); return string(text) } // a string
	provider := c.Provider
	if provider == "" {
		provider = "batchsandbox"
	}
	fmt.Fprintf(&b, "[server]\nhost = \"127.0.0.1\"\nport = %d\n", port)
	fmt.Fprintf(&b, "[runtime]\ntype = \"kubernetes\"\nexecd_image = \"execd\"\n[egress]\nimage = \"egress\"\n")
	fmt.Fprintf(&b, "[store]\ntype = \"sqlite\"\npath = %s\n", quote(filepath.Join(dir, fmt.Sprintf("opensandbox-%d.db", port))))
	fmt.Fprintf(&b, "[kubernetes]\nkubeconfig_path = %s\nnamespace = %s\nworkload_provider = %s\n", quote(kubeconfig), quote(c.Namespace), quote(provider))
	fmt.Fprintf(&b, "[proxy]\nresolve_internal = %v\n", !c.ProxyThroughGateway)
	if c.Gateway == "" {
		fmt.Fprintf(&b, "[ingress]\nmode = \"direct\"\n")
		return b.String()
	}
	route := c.RouteMode
	if route == "" {
		route = "header"
	}
	fmt.Fprintf(&b, "[ingress]\nmode = \"gateway\"\n[ingress.gateway]\naddress = %s\n[ingress.gateway.route]\nmode = %s\n", quote(c.Gateway), quote(route))
	if len(c.Keys) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "[ingress.secure_access]\nactive_key = %s\n", quote(c.Active))
	for id, key := range c.Keys {
		fmt.Fprintf(&b, "[[ingress.secure_access.keys]]\nkey_id = %s\nkey = %s\n", quote(id), quote(key))
	}
	return b.String()
}

// URL is an address of the server's.
func (s *OpenSandboxServer) URL(path string) string { return "http://" + s.Addr + path }

// ProxyURL is the path on which the server itself forwards to a sandbox's execd.
func (s *OpenSandboxServer) ProxyURL(id, path string) string {
	return s.URL(fmt.Sprintf("/v1/sandboxes/%s/proxy/%d%s", id, ExecdPort, path))
}

// Endpoint is where the server sends callers, and what they shall say there.
type Endpoint struct {
	Endpoint string
	Headers  map[string]string
}

// Endpoint asks the server for a sandbox's endpoint for a port. Query is more of the
// query, such as expires=1893456000. The error has the server's answer.
func (s *OpenSandboxServer) Endpoint(id string, port int, query string) (e Endpoint, err error) {
	status, body, err := get(s.URL(fmt.Sprintf("/v1/sandboxes/%s/endpoints/%d?%s", id, port, query)))
	if err != nil {
		return e, err
	}
	if status != http.StatusOK {
		return e, fmt.Errorf("endpoint of %s: %d %s", id, status, body)
	}
	return e, json.Unmarshal(body, &e)
}

// State is the state that the server reports of a sandbox, such as Running.
func (s *OpenSandboxServer) State(id string) (string, error) {
	status, body, err := get(s.URL("/v1/sandboxes/" + id))
	if err != nil {
		return "", err
	}
	var sandbox struct{ Status struct{ State string } }
	if status != http.StatusOK {
		return "", fmt.Errorf("%s: %d %s", id, status, body)
	}
	return sandbox.Status.State, json.Unmarshal(body, &sandbox)
}
