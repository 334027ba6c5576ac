package renewal

import "github.com/prometheus/client_golang/prometheus"

// result is what became of an intent; a closed set, and a label value.
type result string

const (
	published result = "published" // in the list
	throttled result = "throttled" // the sandbox has an intent already, in the list or on its way
	overflow  result = "overflow"  // dropped: too many were waiting for Redis
	expired   result = "expired"   // dropped: Redis did not take it while the server would still have read it
	malformed result = "malformed" // an entry that says renew, and not of what
	off       result = "off"       // a sandbox asks for renewal, and nobody publishes
)

func results() []result { return []result{published, throttled, overflow, expired, malformed, off} }

// Metrics counts intents. It is the same whether they are published or not.
type Metrics struct {
	intents  *prometheus.CounterVec
	failures prometheus.Counter
	streams  prometheus.Gauge
}

// NewMetrics registers samepod_renew_intents_total, with every result from the start,
// samepod_renew_redis_failures_total and samepod_renew_streams.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		intents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "samepod_renew_intents_total",
			Help: "Uses of sandboxes that ask for renewal, by what became of the intent.",
		}, []string{"result"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "samepod_renew_redis_failures_total",
			Help: "Attempts to give Redis intents that failed; they are repeated.",
		}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "samepod_renew_streams",
			Help: "Streams of access log entries from Envoys now; an Envoy opens one with its first entry.",
		}),
	}
	for _, r := range results() {
		m.intents.WithLabelValues(string(r))
	}
	reg.MustRegister(m.intents, m.failures, m.streams)
	return m
}

func (m *Metrics) count(r result) { m.add(r, 1) }

func (m *Metrics) add(r result, n int) { m.intents.WithLabelValues(string(r)).Add(float64(n)) }
