package authz

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/samepod/samepod/identity"
)

// The keys of a decision's record. Headers and bodies are never logged.
const (
	keyDecision = "decision"
	keyReason   = "reason"
)

// record logs a denial at level info, an allow at level debug: one record each.
// It is for operators, so it may name who holds the address now, which the
// answer to the caller never does.
func (s *Server) record(ctx context.Context, d *decision) {
	level := slog.LevelInfo
	switch d.verdict.Reason {
	case SamePod:
		level = slog.LevelDebug
	case Internal:
		level = slog.LevelError
		if ctx.Err() != nil {
			level = slog.LevelInfo // nobody waits any more; Envoy has answered
		}
	default:
	}
	if !s.config.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String(keyDecision, d.id),
		slog.String(keyReason, d.verdict.Reason.String()),
	}
	if d.fault != nil {
		attrs = append(attrs, slog.String("fault", d.fault.Error()))
	}
	if d.verdict.Detail != "" {
		attrs = append(attrs, slog.String("detail", d.verdict.Detail))
	}
	if d.verdict.rule != "" {
		attrs = append(attrs, slog.String("rule", d.verdict.rule))
	}
	if d.claim != (identity.Claim{}) {
		view := d.target.View
		attrs = append(attrs, claimAttr(d.claim), targetAttr(view))
		if d.target.SandboxUID != "" {
			attrs = append(attrs, slog.Group("sandbox", slog.String("name", d.target.Sandbox.String()), slog.String("uid", string(d.target.SandboxUID)), slog.Bool("live", d.target.Live)))
		}
		attrs = append(attrs, s.holderAttrs(view)...)
		attrs = append(attrs, slog.String("feed", view.Feed), slog.String("age", view.Age.String()))
	}
	if d.verdict.Reason == SamePod {
		s.config.Log.LogAttrs(ctx, level, "allowed", attrs...)
	} else {
		s.config.Log.LogAttrs(ctx, level, "denied", attrs...)
	}
}

func claimAttr(c identity.Claim) slog.Attr {
	if c.Sandbox != "" {
		attrs := []any{slog.String("sandbox", c.Sandbox), slog.String("namespace", c.Namespace), slog.String("uid", string(c.SandboxUID)), slog.Int("port", int(c.Port))}
		if c.Hint.IsValid() {
			attrs = append(attrs, slog.String("hint", c.Hint.String()))
		}
		return slog.Group("claim", attrs...)
	}
	attrs := []any{slog.String("pod", c.Pod.String())}
	if c.AnyUID {
		attrs = append(attrs, slog.String("uid", "any (uid is optional)"))
	} else {
		attrs = append(attrs, slog.String("uid", string(c.UID)))
	}
	if c.Recorded.IsValid() {
		attrs = append(attrs, slog.String("recorded", c.Recorded.String()))
	}
	return slog.Group("claim", append(attrs, slog.Int("port", int(c.Port)))...)
}

// targetAttr is the Pod that has the name now.
func targetAttr(v identity.View) slog.Attr {
	if !v.Found {
		return slog.String("target", "none")
	}
	p := v.Pod
	attrs := []any{slog.String("uid", string(p.UID)), slog.String("phase", p.Phase.String()), slog.Any("ips", p.IPs)}
	for _, flag := range []struct {
		set  bool
		name string
	}{{p.Terminating, "terminating"}, {p.HostNetwork, "hostNetwork"}, {p.Mirror, "mirror"}, {!p.Ready, "unready"}} {
		if flag.set {
			attrs = append(attrs, slog.Bool(flag.name, true))
		}
	}
	if p.Malformed != "" {
		attrs = append(attrs, slog.String("malformed", p.Malformed))
	}
	return slog.Group("target", attrs...)
}

// holderAttrs is who else holds the address, and who held it before.
func (s *Server) holderAttrs(v identity.View) []slog.Attr {
	var attrs []slog.Attr
	if v.Addr.IsValid() {
		attrs = append(attrs, slog.String("address", v.Addr.String()))
	}
	if v.Others > 0 {
		attrs = append(attrs, slog.Group("holder", slog.String("pod", v.Other.String()), slog.String("uid", string(v.Other.UID)), slog.Int("count", v.Others)))
	}
	if s.config.History != nil && v.Addr.IsValid() {
		if past := s.config.History(v.Addr); len(past) > 0 {
			attrs = append(attrs, slog.Any("history", tenures(past)))
		}
	}
	return attrs
}

// tenures renders the last few holders of an address for a log line.
func tenures(past []identity.Tenure) []string {
	const most = 4
	lines := make([]string, 0, most)
	for _, t := range slices.Backward(past) {
		if len(lines) == most {
			break
		}
		lines = append(lines, t.String()+" "+string(t.UID)+" "+instant(t.From, "?")+" to "+instant(t.To, "now"))
	}
	return lines
}

func instant(t time.Time, zero string) string {
	if t.IsZero() {
		return zero
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
