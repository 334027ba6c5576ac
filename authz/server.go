package authz

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/samepod/samepod/identity"
)

// Look reads what is known about a name and a recorded address (invalid if none);
// [identity.Index.Look] is one. It must not allocate or block: it is asked on
// every request.
type Look func(name identity.NamespacedName, recorded netip.Addr) identity.View

// Config is what a [Server] is made of. Everything but History is required.
type Config struct {
	Claims  Mapping
	Policy  Policy
	Look    Look
	History func(netip.Addr) []identity.Tenure // for the log of a denial
	Log     *slog.Logger
	Metrics *Metrics
}

// Server implements envoy.service.auth.v3.Authorization.
type Server struct{ config Config }

// NewServer makes a Server.
func NewServer(c Config) *Server { return &Server{c} }

// Check answers one request. It never returns an error and never an empty
// response: a request that cannot be understood, a check that was cancelled and a
// panic are denied.
func (s *Server) Check(ctx context.Context, req *authv3.CheckRequest) (resp *authv3.CheckResponse, err error) {
	d := decision{id: rand.Text(), started: time.Now()}
	defer func() {
		if p := recover(); p != nil {
			s.config.Log.LogAttrs(ctx, slog.LevelError, "check panicked", slog.String(keyDecision, d.id), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			s.config.Metrics.observe(Internal, time.Since(d.started))
			resp, err = response(Verdict{}, d.id), nil
		}
	}()
	s.decide(ctx, req, &d)
	s.record(ctx, &d)
	s.config.Metrics.observe(d.verdict.Reason, time.Since(d.started))
	return response(d.verdict, d.id), nil
}

// decision is one check with everything that led to its verdict.
type decision struct {
	id      string
	started time.Time
	claim   Claim
	view    identity.View
	verdict Verdict
	fault   error // why the verdict is Internal
}

func (s *Server) decide(ctx context.Context, req *authv3.CheckRequest, d *decision) {
	if d.fault = unanswerable(ctx, req); d.fault != nil {
		return // the zero verdict
	}
	var err error
	if d.claim, err = s.config.Claims.claim(req.GetAttributes()); err != nil {
		d.verdict = refuse(err)
		return
	}
	d.view = s.config.Look(d.claim.Pod, d.claim.Recorded.Addr())
	d.verdict = s.config.Policy.decide(d.claim, d.view)
}

// unanswerable says why there is nothing to decide: nobody waits any more, or
// this is no request that an Envoy sends.
func unanswerable(ctx context.Context, req *authv3.CheckRequest) error {
	if err := undecoded(req); err != nil {
		return fmt.Errorf("the request does not unmarshal: %w", err)
	}
	if req.GetAttributes().GetRequest().GetHttp() == nil {
		return errors.New("the request has no HTTP attributes; samepod answers Envoy's HTTP filter only")
	}
	return ctx.Err()
}
