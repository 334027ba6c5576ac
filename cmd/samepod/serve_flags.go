package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/samepod/samepod/identity/sandbox"
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
