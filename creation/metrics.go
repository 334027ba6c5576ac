package creation

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Names that label values have for what is in no list.
const (
	defaultClass = "default" // no runtimeClassName
	otherName    = "other"
)

// mostVersions bounds the label node_version, whose values come from Nodes.
const mostVersions = 16

// Metrics counts outcomes.
type Metrics struct {
	classes []string

	mu       sync.Mutex // Nodes and Pods come from two watches
	versions map[string]bool

	total, failures, excluded, recreated, recovered *prometheus.CounterVec
	byVersion                                       *prometheus.CounterVec
	seconds                                         prometheus.Histogram
	skew                                            prometheus.Counter
	counting                                        prometheus.Gauge
}

// NewMetrics registers samepod_pod_sandbox_*. Every set of labels is there from the
// start, so that the first failure is a rise and not a new series. runtimeClasses are
// told apart; all others are "other", and a Pod without one is "default".
func NewMetrics(reg prometheus.Registerer, runtimeClasses []string, pending, owners func() int) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "samepod_pod_sandbox_" + name, Help: help}, labels)
		reg.MustRegister(v)
		return v
	}
	gauge := func(name, help string, read func() int) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "samepod_pod_sandbox_" + name, Help: help}, func() float64 { return float64(read()) }))
	}
	m := &Metrics{
		classes: slices.Clone(runtimeClasses), versions: map[string]bool{},
		total:     counter("creation_total", "First sandboxes of Pods: good (there before the deadline) or bad. good / (good + bad) is the SLI.", "runtime_class", "result"),
		failures:  counter("creation_failures_total", "The bad ones, by the cause that the last Event told.", "runtime_class", "cause"),
		byVersion: counter("creation_by_node_version_total", "The same as creation_total, by the version of the node's runtime.", "node_version", "result"),
		excluded:  counter("excluded_total", "Pods that say nothing about sandboxes, by reason.", "reason"),
		recreated: counter("recreated_total", "Sandboxes that were made again under the same Pod uid, with a new network namespace: good (in time) or bad.", "runtime_class", "result"),
		recovered: counter("recovered_total", "Bad ones whose sandbox came after the deadline. They stay bad.", "runtime_class"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "samepod_pod_sandbox_creation_seconds", Help: "Time from binding a Pod to its first sandbox, late ones included. The API tells whole seconds.",
			Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300},
		}),
		skew:     prometheus.NewCounter(prometheus.CounterOpts{Name: "samepod_pod_sandbox_clock_skew_total", Help: "Outcomes whose clocks contradict each other."}),
		counting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "samepod_pod_sandbox_counting", Help: "Whether this replica is the one that counts."}),
	}
	reg.MustRegister(m.seconds, m.skew, m.counting)
	gauge("pending", "First and later sandboxes that are waited for.", pending)
	gauge("failing_owners", "Controllers with a bad Pod within the last hour: many failures may be one fault.", owners)
	for _, class := range append([]string{defaultClass, otherName}, m.classes...) {
		for _, r := range []Result{Good, Bad} {
			m.total.WithLabelValues(class, r.String())
			m.recreated.WithLabelValues(class, r.String())
		}
		for _, c := range Causes() {
			m.failures.WithLabelValues(class, c.String())
		}
		m.recovered.WithLabelValues(class)
	}
	for _, x := range Exclusions() {
		m.excluded.WithLabelValues(x.String())
	}
	m.Version("")
	return m
}

// ReservedClasses are names that a RuntimeClass cannot have in the list.
func ReservedClasses() []string { return []string{defaultClass, otherName} }

func (m *Metrics) class(name string) string {
	switch {
	case name == "":
		return defaultClass
	case slices.Contains(m.classes, name):
		return name
	}
	return otherName
}

// Version makes the series of a Node's version, before anything fails there.
func (m *Metrics) Version(version string) (label string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case version == "":
		version = "unknown"
	case !m.versions[version] && len(m.versions) >= mostVersions:
		version = otherName
	}
	if !m.versions[version] {
		m.versions[version] = true
		for _, r := range []Result{Good, Bad} {
			m.byVersion.WithLabelValues(version, r.String())
		}
	}
	return version
}

// Counting says whether this replica is the one that counts.
func (m *Metrics) Counting(is bool) {
	m.counting.Set(0)
	if is {
		m.counting.Set(1)
	}
}

// Add counts an outcome. It is called by one goroutine at a time.
func (m *Metrics) Add(o Outcome) {
	class := m.class(o.RuntimeClass)
	if o.Skewed {
		m.skew.Inc()
	}
	if o.Generation > 1 {
		if o.Result == Good || o.Result == Bad {
			m.recreated.WithLabelValues(class, o.Result.String()).Inc()
		}
		return
	}
	switch o.Result {
	case Good:
		m.seconds.Observe(o.Took.Seconds())
	case Bad:
		m.failures.WithLabelValues(class, o.Cause.String()).Inc()
	case Recovered:
		m.seconds.Observe(o.Took.Seconds())
		m.recovered.WithLabelValues(class).Inc()
		return
	case Excluded:
		m.excluded.WithLabelValues(o.Exclusion.String()).Inc()
		return
	}
	m.total.WithLabelValues(class, o.Result.String()).Inc()
	m.byVersion.WithLabelValues(m.Version(o.NodeVersion), o.Result.String()).Inc()
}
