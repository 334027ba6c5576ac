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

// Config is what a [Server] is made of. Everything but Confirm, Wait, History and Renews
// is required.
type Config struct {
	// Claim reads the claim of a request: [Mapping.Claim], or [Route] of a dialect.
	Claim func(*authv3.AttributeContext) (identity.Claim, error)
	// Target says what a claim means by what is known. It must not allocate or block:
	// it is asked on every request. [Pods] is one.
	Target func(identity.Claim) identity.Target
	// Confirm asks the API server itself, where Target is not enough; nil for nobody.
	// The context ends when Envoy does not wait any more.
	Confirm func(context.Context, identity.Claim, identity.Target) (identity.Target, error)
	Policy  Policy
	Wait    Wait
	History func(netip.Addr) []identity.Tenure // for the log of a denial
	// Renews hears of each allow whose sandbox asks for its life to be prolonged by use;
	// nil for nobody. It must not block.
	Renews  func(namespace, sandboxID string)
	Log     *slog.Logger
	Metrics *Metrics
}

// Pods is the Target of the dialect claim, which names Pods; look is
// [identity.Index.Look].
func Pods(look func(name identity.NamespacedName, recorded netip.Addr) identity.View) func(identity.Claim) identity.Target {
	return func(c identity.Claim) identity.Target {
		return identity.Target{State: identity.Bound, View: look(c.Pod, c.Recorded.Addr())}
	}
}

// Server implements envoy.service.auth.v3.Authorization.
type Server struct {
	config  Config
	waiting chan struct{} // one for each check that waits
}

// NewServer makes a Server.
func NewServer(c Config) *Server { return &Server{c, make(chan struct{}, c.Wait.Most)} }

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
	if d.verdict.Reason == SamePod {
		s.allowed(&d)
	}
	return response(d.verdict, d.id), nil
}

// allowed tells who wants to hear of an allow.
func (s *Server) allowed(d *decision) {
	if d.target.HintDiffers {
		s.config.Metrics.hints.Inc()
	}
	if d.verdict.Renew && s.config.Renews != nil {
		s.config.Renews(d.verdict.Sandbox.Namespace, d.verdict.SandboxID)
	}
}

// decision is one check with everything that led to its verdict.
type decision struct {
	id      string
	started time.Time
	claim   identity.Claim
	target  identity.Target
	verdict Verdict
	fault   error // why there is no better verdict
}

func (s *Server) decide(ctx context.Context, req *authv3.CheckRequest, d *decision) {
	if d.fault = unanswerable(ctx, req); d.fault != nil {
		return // the zero verdict
	}
	var err error
	if d.claim, err = s.config.Claim(req.GetAttributes()); err != nil {
		d.verdict = refuse(err)
		return
	}
	s.judge(ctx, d)
	s.wait(ctx, d)
}

// judge reaches a verdict on the claim of d by what is known now, and by the word of the
// API server where that is asked for.
func (s *Server) judge(ctx context.Context, d *decision) {
	d.fault = nil
	d.target = s.config.Target(d.claim)
	d.verdict = s.config.Policy.decide(d.claim, d.target)
	if !d.verdict.confirm || s.config.Confirm == nil {
		return
	}
	confirmed, err := s.config.Confirm(ctx, d.claim, d.target)
	if err != nil {
		d.verdict, d.fault = deny(Overloaded), err
		return
	}
	d.target = confirmed
	d.verdict = s.config.Policy.decide(d.claim, d.target)
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
