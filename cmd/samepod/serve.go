package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
	"github.com/samepod/samepod/mtls"
	"github.com/samepod/samepod/renewal"
)

// serveFlags are the flags of samepod serve. What an operator decides once for a
// platform is in the configuration file; what differs between two deployments of
// it is here.
type serveFlags struct {
	config       string
	source       sourceFlags
	pins         pinFlags
	waitReady    time.Duration
	creation     creationFlags
	listen       []string
	socketMode   string
	tls          tlsFlags
	maxAge       time.Duration // of a connection
	maxConns     int           // of each listener
	renew        renewFlags
	reflection   bool
	health       string
	admin        string
	pprof        bool
	requireReady bool
	unhealthy    bool // when stale
	drainDelay   time.Duration
	drainTimeout time.Duration
	logFormat    string
	logLevel     string
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve --config samepod.yaml",
		Short: "Answer Envoy's external authorization checks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			out := newSpool(cmd.ErrOrStderr())
			defer out.Close()
			log, err := newLogger(out, f.logFormat, f.logLevel)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), f, log, out.dropped.Load)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "configuration `file` (required)")
	f.source.register(flags)
	f.pins.register(flags)
	flags.DurationVar(&f.waitReady, "wait-ready", 0, "how long a check waits for a Pod that is not ready yet, or not assigned, before it is answered 503; less than Envoy waits for the check (samepod envoy --check-timeout). At most 30s")
	f.creation.register(flags)
	flags.StringArrayVar(&f.listen, "listen", []string{"127.0.0.1:9191"}, "`address` for Envoy: <ip>:<port> or unix:///path; may be repeated")
	flags.StringVar(&f.socketMode, "socket-mode", "0660", "permissions of unix sockets, in octal")
	f.tls.register(flags)
	flags.DurationVar(&f.maxAge, "max-connection-age", 5*time.Minute, "after how long a connection of Envoy's is told to end, within 10s and without an error: it then sees new replicas, and a client whose certificate is not good any more is refused; 0 for never")
	flags.IntVar(&f.maxConns, "max-connections", 4096, "connections at a time of each --listen; Envoy has one for each of its workers, and one for health checks. More are closed at once")
	f.renew.register(flags)
	flags.BoolVar(&f.reflection, "reflection", false, "offer gRPC reflection")
	flags.StringVar(&f.health, "health-listen", "127.0.0.1:9192", "`address` of /healthz, /readyz and /metrics; give the Pod's address for the kubelet and Prometheus")
	flags.StringVar(&f.admin, "admin-listen", "127.0.0.1:9193", "loopback `address` of /history?address=<ip>, /shared, with --creation-sli /creation, and with --pprof /debug/pprof; empty for none")
	flags.BoolVar(&f.pprof, "pprof", false, "offer /debug/pprof on the admin listener")
	flags.BoolVar(&f.requireReady, "require-ready", false, "also ask for the Pod's Ready condition")
	flags.BoolVar(&f.unhealthy, "unhealthy-when-stale", false, "tell Envoy NOT_SERVING while the view is stale, so that it asks another replica; with none left that is 503 no-verdict in place of view-stale")
	flags.DurationVar(&f.drainDelay, "drain-delay", 3*time.Second, "on SIGTERM, how long to go on answering as NOT_SERVING; at least Envoy's health check interval times its unhealthy threshold (2 s as rendered)")
	flags.DurationVar(&f.drainTimeout, "drain-timeout", 10*time.Second, "after that, how long running checks may take")
	flags.StringVar(&f.logFormat, "log-format", "json", "json or text")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug (allows too), info (denials), warn or error")
	return cmd
}

// Bounds of the checks that wait.
const (
	maxWaitReady = 30 * time.Second
	mostWaiting  = 256 // at a time
)

// check says which flags are missing, wrong, or without effect beside the others: a
// flag that is silently ignored is believed to be set.
func (f *serveFlags) check(set *pflag.FlagSet) error {
	if f.config == "" {
		return errors.New("--config: missing; allowed: a file (docs/configuration.md)")
	}
	if f.pprof && f.admin == "" {
		return errors.New("--pprof: without effect; --admin-listen is empty")
	}
	if set.Changed("socket-mode") && !slices.ContainsFunc(f.listen, isUnix) {
		return errors.New("--socket-mode: without effect; no --listen is a unix socket")
	}
	if f.maxAge != 0 && f.maxAge < time.Second {
		return fmt.Errorf("--max-connection-age: %v; allowed: 0 for never, or at least 1s", f.maxAge)
	}
	if f.maxConns < 1 {
		return fmt.Errorf("--max-connections: %d; allowed: a positive number", f.maxConns)
	}
	if f.waitReady < 0 || f.waitReady > maxWaitReady {
		return fmt.Errorf("--wait-ready: %v; allowed: 0 to %v", f.waitReady, maxWaitReady)
	}
	if f.drainDelay < 0 {
		return fmt.Errorf("--drain-delay: %v; allowed: 0 or a positive duration", f.drainDelay)
	}
	if f.drainTimeout <= 0 {
		return fmt.Errorf("--drain-timeout: %v; allowed: a positive duration", f.drainTimeout)
	}
	if err := f.tls.check(f.listen); err != nil {
		return err
	}
	if err := errors.Join(f.pins.check(set), f.renew.check(set), f.creation.check(set, f.source.kind)); err != nil {
		return err
	}
	return f.source.check(set)
}

// pinPolicy is what the flags say of pins; without an engine there are none.
func (f *serveFlags) pinPolicy(conf settings) (sandbox.PinPolicy, error) {
	if conf.engine == nil {
		return sandbox.PinPolicy{}, f.pins.unused()
	}
	return f.pins.policy(conf.engine)
}

// service is every part of samepod serve, made and not yet running.
type service struct {
	flags     serveFlags
	log       *slog.Logger
	index     *identity.Index
	follow    func(context.Context) error // keeps the index up to date
	endpoint  *authz.Endpoint
	listeners *listeners
	tls       *mtls.Keeper // nil for none
	renew     *renewer
	ready     *readiness
	metrics   *prometheus.Registry
	creation  *creationSLI // nil for none
}

// serve runs the service until ctx ends, drains it, and returns nil; or it returns
// the first error. logDropped counts records that could not be written.
func serve(ctx context.Context, f serveFlags, log *slog.Logger, logDropped func() uint64) error {
	conf, err := loadConfig(f.config)
	if err != nil {
		return err
	}
	conf.policy.RequireReady = f.requireReady
	pins, err := f.pinPolicy(conf)
	if err != nil {
		return err
	}
	index := identity.NewIndex(conf.history)
	source, err := f.source.open(conf, pins, index, log)
	if err != nil {
		return err
	}
	keeper, err := f.tls.open(log)
	if err != nil {
		return err
	}
	reg := prometheus.NewRegistry()
	renew, err := f.renew.open(log, reg)
	if err != nil {
		return err
	}
	listeners, err := listen(f)
	if err != nil {
		return err
	}
	defer listeners.close()

	sli, err := f.creation.open(f.source, conf, reg, log)
	if err != nil {
		return err
	}
	ready := &readiness{index: index, sandboxes: source.sandboxes, tls: keeper, notes: append(notes(conf, f), source.notes...), unhealthyWhenStale: f.unhealthy}
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newCollector(ready, logDropped))
	check := f.newCheck(conf, index, source.sandboxes, renew, log, authz.NewMetrics(reg))
	endpoint := authz.EndpointConfig{Reflection: f.reflection, ConnectionAge: f.maxAge, Wait: f.waitReady, Register: renew.register}
	if keeper != nil {
		endpoint.Credentials = keeper.Credentials()
	}
	s := &service{
		flags: f, log: log, index: index, follow: source.follow, listeners: listeners, tls: keeper, renew: renew, metrics: reg, creation: sli,
		endpoint: authz.NewEndpoint(check, endpoint), ready: ready,
	}
	selector := conf.selector.String()
	if selector == "" {
		selector = "every Pod"
	}
	log.Info("starting", "version", thisBuild().Version, "revision", thisBuild().Revision, "listen", listeners.addresses(), "health", listeners.health.Addr().String(), "admin", listeners.adminAddress(),
		"source", source.about, "feeds", feedNames(ready.feeds()), "dialect", string(conf.dialect), "scope", conf.policy.Scope.String(), "selector", selector, "ports", conf.policy.Ports.String(),
		"addresses", conf.policy.Addresses.String(), "claim", sourceNames(conf.claims), "renew", renew.about, "notes", ready.notes)
	return s.run(ctx)
}

// newCheck joins what a check is made of. sandboxes is nil for the dialect claim.
func (f *serveFlags) newCheck(conf settings, index *identity.Index, sandboxes *sandbox.Index, renew *renewer, log *slog.Logger, metrics *authz.Metrics) *authz.Server {
	check := authz.Config{
		Claim: conf.claims.Claim, Policy: conf.policy, Target: authz.Pods(index.Look), History: index.History,
		Wait: authz.Wait{Longest: f.waitReady, Most: mostWaiting, Changed: index.Changed},
		Log:  log, Metrics: metrics,
	}
	if renew.vain != nil {
		check.Renews = func(namespace, id string) { renew.vain(renewal.Sandbox{Namespace: namespace, ID: id}) }
	}
	if sandboxes != nil {
		check.Claim, check.Target, check.Confirm = authz.Route(conf.engine.claim, conf.claims.Allowed), sandboxes.Target, sandboxes.Confirm
	}
	return authz.NewServer(check)
}

// run joins the goroutines: the source, the listeners, and the drain that ends
// them in order when ctx ends or one of them fails.
func (s *service) run(ctx context.Context) error {
	// The source outlives ctx: checks are answered while draining.
	group, running := errgroup.WithContext(context.WithoutCancel(ctx))
	following, stopFollowing := context.WithCancel(running)
	defer stopFollowing()

	group.Go(func() error { return s.follow(following) })
	group.Go(func() error { s.ready.report(following, s.log, s.endpoint.SetServing); return nil })
	if s.tls != nil {
		group.Go(func() error { return s.tls.Run(following, tlsPoll) })
	}
	group.Go(func() error { return s.renew.run(following) })
	for _, l := range s.listeners.authz {
		group.Go(func() error { return s.endpoint.Serve(l) })
	}
	health := newHTTP(healthHandler(s.ready, s.metrics), httpTimeout)
	admin := newHTTP(s.creation.handler(adminHandler(s.index, s.flags.pprof)), profileTimeout)
	group.Go(func() error { return s.creation.run(following) })
	group.Go(func() error { return serveHTTP(health, s.listeners.health) })
	if s.listeners.admin != nil {
		group.Go(func() error { return serveHTTP(admin, s.listeners.admin) })
	}
	group.Go(func() error {
		select {
		case <-ctx.Done():
		case <-running.Done():
		}
		s.ready.draining.Store(true)
		s.log.Info("draining", "delay", s.flags.drainDelay.String(), "timeout", s.flags.drainTimeout.String())
		s.endpoint.Drain(running, s.flags.drainDelay, s.flags.drainTimeout)
		stopFollowing()
		return errors.Join(health.Close(), admin.Close())
	})
	err := group.Wait()
	s.log.Info("stopped")
	return err
}

const (
	httpTimeout    = 10 * time.Second // to send a request, for its answer, and for silence after it
	profileTimeout = 2 * time.Minute  // for the answer of /debug/pprof/profile?seconds=30, which first measures
)

// newHTTP makes a server whose clients are waited for only so long. A request's
// context ends with the time to read it, so that is as long as the answer may take.
func newHTTP(handler http.Handler, answer time.Duration) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: httpTimeout, ReadTimeout: answer, WriteTimeout: answer, IdleTimeout: httpTimeout, MaxHeaderBytes: 16 << 10}
}

// serveHTTP serves until the server is closed, which is no error.
func serveHTTP(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// notes are the settings that weaken the check or leave it to others, for the log
// and for readiness.
func notes(conf settings, f serveFlags) []string {
	n := []string{}
	if conf.claims.UIDOptional {
		n = append(n, "claim.uid is optional: a request without a uid also reaches a Pod that was rebuilt under the name")
	}
	if h := conf.claims.Allowed.Header; h != "" {
		n = append(n, "claim.allowed is the header "+h+": whoever can write it may name any Pod in scope")
	}
	return append(n, f.tls.notes()...)
}

func sourceNames(m authz.Mapping) []string {
	var names []string
	for _, s := range m.Sources() {
		names = append(names, s.String())
	}
	return names
}

// feedNames are the feeds with how their freshness is known.
func feedNames(feeds []identity.FeedStatus) []string {
	var names []string
	for _, f := range feeds {
		names = append(names, f.Name+" ("+f.Proof+")")
	}
	return names
}
