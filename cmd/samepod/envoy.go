package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/envoy"
)

// envoyFlags are the flags of samepod envoy, as text; params makes them values.
type envoyFlags struct {
	config     string
	version    string
	upstream   string
	protocol   string
	replicas   []string
	listen     string
	admin      string
	endpoints  []string
	cidrs      []string
	ports      []string
	extensions []string
	dialect    dialectFlags
	params     envoy.Params // what needs no reading
}

func newEnvoy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "envoy",
		Short: "Print Envoy's side of the configuration, and check what an Envoy has",
		Args:  cobra.NoArgs,
		RunE:  help,
	}
	for _, c := range []struct {
		use, short string
		render     func(envoy.Params) ([]byte, error)
		flags      []func(*envoyFlags, *pflag.FlagSet) // a flag without effect is no flag
	}{
		{"bootstrap", "Print a complete static bootstrap", envoy.Bootstrap, []func(*envoyFlags, *pflag.FlagSet){(*envoyFlags).common, (*envoyFlags).bootstrap, (*envoyFlags).filters, (*envoyFlags).cluster}},
		{"filters", "Print what to merge into an existing HttpConnectionManager and its routes", envoy.Filters, []func(*envoyFlags, *pflag.FlagSet){(*envoyFlags).common, (*envoyFlags).filters}},
		{"cluster", "Print the protected cluster and the cluster of samepod", envoy.Clusters, []func(*envoyFlags, *pflag.FlagSet){(*envoyFlags).common, (*envoyFlags).cluster}},
	} {
		f := defaultEnvoyFlags()
		sub := &cobra.Command{
			Use:   c.use,
			Short: c.short,
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				p, err := f.read()
				if err != nil {
					return err
				}
				if cmd.Flags().Changed("upstream-idle") && !p.Partitions() {
					return fmt.Errorf("--upstream-idle: without effect; Envoy %v keeps no connection to a Pod", p.Version)
				}
				text, err := c.render(p)
				if err != nil {
					return flagged(err)
				}
				if p.Upstream == envoy.Both && !p.Asserts() {
					cmd.PrintErrf("samepod: Envoy %v cannot assert; this is resolve\n", p.Version)
				}
				_, err = cmd.OutOrStdout().Write(text)
				return err
			},
		}
		for _, register := range c.flags {
			register(&f, sub.Flags())
		}
		cmd.AddCommand(sub)
	}
	cmd.AddCommand(newSecret(), newCheck())
	return cmd
}

// flagged names the flag of a parameter that cannot be rendered.
func flagged(err error) error {
	if wrong, ok := errors.AsType[*envoy.ParamError](err); ok {
		return fmt.Errorf("--%w", wrong)
	}
	return err
}

func defaultEnvoyFlags() envoyFlags {
	d := envoy.DefaultParams()
	return envoyFlags{
		params: d, version: d.Version.String(), upstream: string(d.Upstream), protocol: string(d.UpstreamProtocol),
		replicas: []string{d.Replicas[0].String()}, listen: d.Listen.String(), admin: d.Admin.String(),
	}
}

func (f *envoyFlags) common(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "samepod's configuration `file`: the claim's headers, the ports and the CIDRs follow it. Without it, the defaults of the --dialect")
	f.dialect.register(flags)
	flags.StringVar(&f.version, "envoy-version", f.version, "`version` of Envoy, 1.36 to 1.40")
	flags.StringVar(&f.upstream, "upstream", f.upstream, "resolve (Envoy dials the address that samepod returns), assert (a cluster of yours picks the host, and Envoy refuses any other than the verified one; 1.39 and newer) or both")
	flags.BoolVar(&f.params.AcceptUnasserted, "accept-unasserted", false, "render assert below 1.39, where nothing asserts")
	flags.StringVar(&f.params.Cluster, "cluster", f.params.Cluster, "`name` of the protected cluster")
	flags.StringVar(&f.params.UpstreamTLS.PodUIDPrefix, "upstream-tls-uid-prefix", "", "the certificate of a Pod must have the URI that is this `prefix` and the Pod's uid, such as spiffe://example.org/pod/<uid>: who else has the address by then is refused before a byte is sent")
}

func (f *envoyFlags) bootstrap(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "listen", f.listen, "`address` for clients")
	flags.StringVar(&f.admin, "admin", f.admin, "`address` of Envoy's admin interface; empty for none")
}

func (f *envoyFlags) filters(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.extensions, "context-extension", nil, "`key=value` that the route tells samepod; may be repeated")
	flags.BoolVar(&f.params.WebSocket, "websocket", f.params.WebSocket, "let WebSocket upgrades through")
	flags.BoolVar(&f.params.PathHardening, "path-hardening", f.params.PathHardening, "reject escaped slashes and underscores in header names, merge slashes: for dialects that read the path")
	flags.StringArrayVar(&f.params.CORSOrigins, "cors-origin", nil, "`origin` whose pages may call Pods, such as https://console.example.org, or * for all; may be repeated. Preflights are answered before the check")
	flags.StringArrayVar(&f.params.CORSHeaders, "cors-header", nil, "with --cors-origin: a request `header` that such pages may send, besides those of the claim and content-type; may be repeated")
	flags.DurationVar(&f.params.RenewEvery, "renew-every", 0, "tell samepod of every request to a sandbox that asks to be renewed by use, when it has ended and so often before; 0 is not to. samepod serve --renew-intents makes renewals of it")
	flags.DurationVar(&f.params.CheckTimeout, "check-timeout", f.params.CheckTimeout, "of one check; beyond it 503 no-verdict")
	flags.DurationVar(&f.params.StreamDuration, "stream-duration", f.params.StreamDuration, "of one request altogether, which is checked once, at its beginning; 0 for no bound")
	flags.DurationVar(&f.params.StreamIdle, "stream-idle", f.params.StreamIdle, "of a request without a byte in either direction; 0 for no bound")
}

func (f *envoyFlags) cluster(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.replicas, "samepod", f.replicas, "`address` of samepod: <ip>:<port>, <name>:<port> (each address of the name is a replica, as with a headless Service) or unix:///path; may be repeated")
	flags.StringVar(&f.params.ReplicaTLS.CASecret, "samepod-tls-ca-secret", "", "TLS to samepod: `file` on Envoy's machine that samepod envoy secret ca prints")
	flags.StringVar(&f.params.ReplicaTLS.ClientSecret, "samepod-tls-client-secret", "", "with a client certificate: `file` on Envoy's machine that samepod envoy secret client prints")
	flags.StringVar(&f.params.ReplicaTLS.Name, "samepod-tls-name", "", "`name` in samepod's certificate: exactly a DNS name or a spiffe:// URI")
	flags.StringArrayVar(&f.endpoints, "endpoint", nil, "assert: a host of the protected cluster, `<ip>:<port>`; may be repeated")
	flags.StringArrayVar(&f.cidrs, "pod-cidr", nil, "without --config: a `CIDR` that Envoy may dial (upstream_rbac, so with assert and both from 1.39); may be repeated")
	flags.StringArrayVar(&f.ports, "port", nil, "without --config: a `port` or range that Envoy may dial (upstream_rbac, so with assert and both from 1.39); may be repeated")
	flags.StringVar(&f.protocol, "upstream-protocol", f.protocol, "to Pods: http1, or downstream for what the caller speaks, which gRPC needs")
	flags.StringVar(&f.params.UpstreamTLS.CASecret, "upstream-tls-ca-secret", "", "TLS to Pods: `file` on Envoy's machine that samepod envoy secret ca prints")
	flags.StringVar(&f.params.UpstreamTLS.ClientSecret, "upstream-tls-client-secret", "", "with a client certificate: `file` on Envoy's machine that samepod envoy secret client prints")
	flags.StringVar(&f.params.UpstreamTLS.Name, "upstream-tls-name", "", "`name` in the certificates of Pods: exactly a DNS name or a spiffe:// URI")
	flags.DurationVar(&f.params.ConnectTimeout, "connect-timeout", f.params.ConnectTimeout, "to a Pod; beyond it 503 pod-unreachable")
	flags.DurationVar(&f.params.UpstreamIdle, "upstream-idle", f.params.UpstreamIdle, "how long a connection to a Pod is kept; from 1.38, where connections are kept apart by Pod uid")
	flags.DurationVar(&f.params.TCPUserTimeout, "tcp-user-timeout", f.params.TCPUserTimeout, "how long sent data may stay unacknowledged: ends connections to Pods that vanished, and to Pods that stopped reading")
	flags.Uint32Var(&f.params.MaxRequests, "max-requests", f.params.MaxRequests, "requests in flight to Pods; more are answered 503 overloaded at once")
}

// read makes parameters of the flags.
func (f *envoyFlags) read() (envoy.Params, error) {
	p := f.params
	var err error
	if p.Version, err = envoy.ParseVersion(f.version); err != nil {
		return p, fmt.Errorf("--envoy-version: %w", err)
	}
	p.Upstream, p.UpstreamProtocol = envoy.Arrangement(f.upstream), envoy.Protocol(f.protocol)
	p.Replicas = nil
	for _, text := range f.replicas {
		r, err := envoy.ParseReplica(text)
		if err != nil {
			return p, fmt.Errorf("--samepod: %w", err)
		}
		p.Replicas = append(p.Replicas, r)
	}
	if p.Listen, err = netip.ParseAddrPort(f.listen); err != nil {
		return p, fmt.Errorf("--listen: %q; allowed: <ip>:<port>", f.listen)
	}
	p.Admin = netip.AddrPort{}
	if f.admin != "" {
		if p.Admin, err = netip.ParseAddrPort(f.admin); err != nil {
			return p, fmt.Errorf("--admin: %q; allowed: <ip>:<port>", f.admin)
		}
	}
	for _, text := range f.endpoints {
		e, err := netip.ParseAddrPort(text)
		if err != nil {
			return p, fmt.Errorf("--endpoint: %q; allowed: <ip>:<port>", text)
		}
		p.Endpoints = append(p.Endpoints, e)
	}
	p.ContextExtensions = map[string]string{}
	for _, text := range f.extensions {
		key, value, ok := strings.Cut(text, "=")
		if _, twice := p.ContextExtensions[key]; !ok || key == "" || twice {
			return p, fmt.Errorf("--context-extension: %q; allowed: key=value, each key once", text)
		}
		p.ContextExtensions[key] = value
	}
	return f.readPolicy(p)
}

// readPolicy takes what samepod and Envoy must agree on from samepod's own
// configuration, or from flags.
func (f *envoyFlags) readPolicy(p envoy.Params) (envoy.Params, error) {
	var conf *settings
	var ports authz.Ports
	var addresses authz.Addresses
	var err error
	switch {
	case f.config != "" && len(f.cidrs)+len(f.ports) > 0:
		return p, fmt.Errorf("--pod-cidr, --port: both are in --config %s already", f.config)
	case len(f.cidrs)+len(f.ports) > 0 && !p.Asserts():
		return p, fmt.Errorf("--pod-cidr, --port: without effect; with --upstream %s Envoy %v does not compare addresses, and samepod's own lists bound them", p.Upstream, p.Version)
	case f.config != "":
		loaded, err := loadConfig(f.config)
		if err != nil {
			return p, err
		}
		conf, ports, addresses = &loaded, loaded.policy.Ports, loaded.policy.Addresses
	default:
		if addresses, err = authz.ParseAddresses(f.cidrs); err != nil {
			return p, fmt.Errorf("--pod-cidr: %w", err)
		}
		if len(f.ports) > 0 {
			if ports, err = authz.ParsePorts(f.ports); err != nil {
				return p, fmt.Errorf("--port: %w", err)
			}
		}
	}
	side, claims, err := f.dialect.read(conf)
	if err != nil {
		return p, err
	}
	p.ClaimHeaders, p.PrivateHeaders, p.SetsHost = side.reads, side.private, side.setsHost
	p.SetsPath, p.PathHardening = side.pathForm, p.PathHardening || side.pathForm
	if len(p.CORSOrigins) > 0 {
		p.CORSHeaders = slices.Concat(p.CORSHeaders, side.pages)
	}
	for _, s := range claims.Sources() {
		if s.Metadata.Namespace != "" && !slices.Contains(p.ClaimMetadata, s.Metadata.Namespace) {
			p.ClaimMetadata = append(p.ClaimMetadata, s.Metadata.Namespace)
		}
	}
	p.CIDRs = addresses.Prefixes()
	for _, r := range ports.Ranges() {
		p.Ports = append(p.Ports, envoy.PortRange(r))
	}
	return p, nil
}
