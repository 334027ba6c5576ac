package renewal

import (
	"log/slog"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Off is in a Publisher's place where nothing is published: a sandbox that asks for
// renewal would expire in use, and somebody must hear of it.
type Off struct {
	log     *slog.Logger
	metrics *Metrics
	seen    *lru.Cache[Sandbox, struct{}]
}

// NewOff makes an Off.
func NewOff(log *slog.Logger, m *Metrics) *Off {
	seen, err := lru.New[Sandbox, struct{}](mostSandboxes)
	if err != nil {
		panic(err) // the size is a constant
	}
	return &Off{log: log, metrics: m, seen: seen}
}

// Report counts a use of a sandbox that asks for renewal, and logs the first one.
func (o *Off) Report(s Sandbox) {
	o.metrics.count(off)
	if known, _ := o.seen.ContainsOrAdd(s, struct{}{}); !known {
		o.log.Warn("sandbox asks to be renewed by use, and --renew-intents is not given: it will expire in use", "namespace", s.Namespace, "sandbox", s.ID)
	}
}
