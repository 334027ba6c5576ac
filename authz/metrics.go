package authz

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts decisions.
type Metrics struct {
	decisions [reasonEnd]prometheus.Counter
	duration  prometheus.Histogram
	hints     prometheus.Counter
}

// NewMetrics registers samepod_decisions_total, with every reason from the start
// so that rates are right from the first one, samepod_check_duration_seconds and
// samepod_stale_hints_total.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "samepod_decisions_total",
		Help: "Checks answered, by reason. same-pod is the only reason that allows.",
	}, []string{"reason"})
	m := &Metrics{hints: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "samepod_stale_hints_total",
		Help: "Allowed checks whose client remembers another address than the Pod's (X-Sandbox-Pod-IP); the Pod's was returned.",
	}), duration: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "samepod_check_duration_seconds",
		Help:    "Time from receiving a check to answering it, in the handler.",
		Buckets: []float64{5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5},
	})}
	for _, r := range Reasons() {
		m.decisions[r] = decisions.WithLabelValues(r.String())
	}
	reg.MustRegister(decisions, m.duration, m.hints)
	return m
}

func (m *Metrics) observe(r Reason, took time.Duration) {
	m.decisions[r].Inc()
	m.duration.Observe(took.Seconds())
}
