package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/samepod/samepod/renewal"
)

// renewFlags say where intents to renew sandboxes go; see package renewal.
type renewFlags struct {
	url          string
	passwordFile string
	caFile       string
	queue        string
	most         int
	interval     time.Duration
}

// mostRenewInterval leaves a sandbox, whose life OpenSandbox extends by 5 minutes or
// more, time for Envoy's next entry and for Redis.
const mostRenewInterval = 3 * time.Minute

func (f *renewFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "renew-intents", "", "publish that sandboxes are in use, as OpenSandbox's ingress does: `URL` of the Redis that its server reads, redis://[<user>@]<host>:<port>[/<database>], rediss:// for TLS, or unix://<path>. Needs samepod envoy bootstrap|filters --renew-every; empty is not to")
	flags.StringVar(&f.passwordFile, "renew-intents-password-file", "", "`file` with the password of Redis, read again for each connection")
	flags.StringVar(&f.caFile, "renew-intents-ca-file", "", "PEM `file` with the CAs of a rediss:// URL; empty for the system's")
	flags.StringVar(&f.queue, "renew-intents-queue", renewal.DefaultQueue, "`key` of the list")
	flags.IntVar(&f.most, "renew-intents-queue-length", 100_000, "how long the list may get, where nobody reads it; the oldest are dropped; 0 for any length")
	flags.DurationVar(&f.interval, "renew-intents-interval", time.Minute, "at most one intent of a sandbox in this time; 0 for each")
}

func (f *renewFlags) check(set *pflag.FlagSet) error {
	if f.url == "" {
		for _, name := range []string{"renew-intents-password-file", "renew-intents-ca-file", "renew-intents-queue", "renew-intents-queue-length", "renew-intents-interval"} {
			if set.Changed(name) {
				return fmt.Errorf("--%s: without effect; there is no --renew-intents", name)
			}
		}
	}
	switch {
	case f.queue == "":
		return errors.New("--renew-intents-queue: empty; allowed: a key")
	case f.most < 0:
		return fmt.Errorf("--renew-intents-queue-length: %d; allowed: 0 or a positive number", f.most)
	case f.interval < 0 || f.interval > mostRenewInterval:
		return fmt.Errorf("--renew-intents-interval: %v; allowed: 0 to %v, OpenSandbox may extend a life by no more than 5m", f.interval, mostRenewInterval)
	}
	return nil
}

// renewer is what serve does about sandboxes that ask for renewal.
type renewer struct {
	about    string
	register func(grpc.ServiceRegistrar)     // adds the access log service; nil for none
	run      func(ctx context.Context) error // publishes until ctx ends
	// vain hears of an allowed request to a sandbox that asks for renewal, where nobody
	// publishes; nil where somebody does.
	vain func(renewal.Sandbox)
}

// open makes a renewer, which connects to nothing yet.
func (f *renewFlags) open(log *slog.Logger, reg prometheus.Registerer) (*renewer, error) {
	metrics := renewal.NewMetrics(reg)
	if f.url == "" {
		return &renewer{about: "off", run: func(context.Context) error { return nil }, vain: renewal.NewOff(log, metrics).Report}, nil
	}
	c := renewal.RedisConfig{URL: f.url, Queue: f.queue, Most: f.most}
	if f.passwordFile != "" {
		c.Password = f.password
		if _, err := c.Password(); err != nil {
			return nil, err
		}
	}
	if f.caFile != "" {
		text, err := readRegular(f.caFile, mostSecret)
		if err != nil {
			return nil, fmt.Errorf("--renew-intents-ca-file: %w", err)
		}
		if c.CAs = x509.NewCertPool(); !c.CAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--renew-intents-ca-file: %s: no certificate; allowed: PEM", f.caFile)
		}
	}
	redis, err := renewal.NewRedis(c)
	if err != nil {
		return nil, fmt.Errorf("--renew-intents: %w", err)
	}
	publisher := renewal.NewPublisher(redis.Push, f.interval, log, metrics)
	return &renewer{
		about:    redis.String(),
		register: renewal.NewService(publisher.Publish, metrics).Register,
		run: func(ctx context.Context) error {
			publisher.Run(ctx)
			return redis.Close()
		},
	}, nil
}

// password reads the file that has it.
func (f *renewFlags) password() (string, error) {
	text, err := readRegular(f.passwordFile, mostSecret)
	if err != nil {
		return "", fmt.Errorf("--renew-intents-password-file: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", fmt.Errorf("--renew-intents-password-file: %s: empty; allowed: the password", f.passwordFile)
	}
	return password, nil
}

const mostSecret = 1 << 20 // bytes
