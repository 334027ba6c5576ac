package main

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/samepod/samepod/identity"
)

// collector reads what there is when it is scraped, so that nothing has to be kept
// in step.
type collector struct {
	ready      *readiness
	logDropped func() uint64

	build, serving, dropped                       *prometheus.Desc
	pods, addresses, shared                       *prometheus.Desc
	info, synced, stale, age, bound, fault, lists *prometheus.Desc
	tlsNotAfter, tlsFault, tlsRefused             *prometheus.Desc
}

func newCollector(ready *readiness, logDropped func() uint64) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("samepod_"+name, help, labels, nil)
	}
	return &collector{
		ready: ready, logDropped: logDropped,
		build:     desc("build_info", "1, with what samepod version tells.", "version", "revision", "dirty", "goversion"),
		serving:   desc("serving", "Whether Envoy is told that this replica serves: synced once, not draining, and with --unhealthy-when-stale not stale."),
		dropped:   desc("log_dropped_total", "Log records that could not be written in time."),
		pods:      desc("index_pods", "Pods known, terminal ones included."),
		addresses: desc("index_addresses", "Addresses held by at least one live Pod."),
		shared:    desc("index_shared_addresses", "Addresses held by more than one live Pod; checks of them are denied as ip-ambiguous."),
		info:      desc("feed_info", "1, with how the feed's freshness is known.", "feed", "proof"),
		synced:    desc("feed_synced", "Whether the feed has delivered its first list.", "feed"),
		stale:     desc("feed_stale", "Whether the feed's last word is older than its bound, so that every check is denied as view-stale.", "feed"),
		age:       desc("feed_age_seconds", "Age of the feed's last word; absent while it is not synced.", "feed"),
		bound:     desc("feed_bound_seconds", "Age at which the feed becomes stale.", "feed"),
		lists:     desc("feed_lists_total", "Lists that the feed has delivered: one, and one more for each time that it had to begin anew.", "feed"),
		fault:     desc("feed_fault", "Whether the feed has an error at present; /readyz tells which.", "feed"),

		tlsNotAfter: desc("tls_certificate_not_after_timestamp_seconds", "When the certificate in force expires, in seconds since 1970."),
		tlsFault:    desc("tls_fault", "Whether the TLS files are not in force because they cannot be used; /readyz tells why."),
		tlsRefused:  desc("tls_refused_total", "Connections that were refused: handshake (no TLS 1.3, or no certificate), certificate (no client CA vouches for it, or it expired), identity (it is not listed).", "why"),
	}
}

func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	b := thisBuild()
	gauge(c.build, 1, b.Version, b.Revision, strconv.FormatBool(b.Dirty), b.Go)
	gauge(c.serving, number(c.ready.serving.Load() && !c.ready.draining.Load()))
	count(c.dropped, float64(c.logDropped()))
	size := c.ready.index.Size()
	gauge(c.pods, float64(size.Pods))
	gauge(c.addresses, float64(size.Addresses))
	gauge(c.shared, float64(size.Shared))
	for _, f := range c.ready.feeds() {
		gauge(c.info, 1, f.Name, f.Proof)
		gauge(c.synced, number(f.Freshness != identity.NotSynced), f.Name)
		gauge(c.stale, number(f.Freshness == identity.Stale), f.Name)
		if f.Freshness != identity.NotSynced {
			gauge(c.age, f.Age.Seconds(), f.Name)
		}
		gauge(c.bound, f.Bound.Seconds(), f.Name)
		count(c.lists, float64(f.Lists), f.Name)
		gauge(c.fault, number(f.Fault != ""), f.Name)
	}
	if c.ready.tls == nil {
		return
	}
	state := c.ready.tls.State()
	gauge(c.tlsNotAfter, float64(state.NotAfter.Unix()))
	gauge(c.tlsFault, number(state.Fault != ""))
	for why, n := range state.Refused {
		count(c.tlsRefused, float64(n), why.String())
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
