package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
	"github.com/samepod/samepod/mtls"
	"github.com/samepod/samepod/renewal"
)

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
	if err := conf.readKeys(); err != nil {
		return fmt.Errorf("%s: %w", f.config, err)
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
