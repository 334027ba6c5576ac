package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/samepod/samepod/identity"
)

// indexCollector reads the index when it is scraped, so that nothing has to be
// kept in step.
type indexCollector struct {
	index *identity.Index

	pods, addresses, shared          *prometheus.Desc
	synced, stale, age, bound, fault *prometheus.Desc
}

func newIndexCollector(index *identity.Index) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("samepod_"+name, help, labels, nil)
	}
	return &indexCollector{
		index:     index,
		pods:      desc("index_pods", "Pods known, terminal ones included."),
		addresses: desc("index_addresses", "Addresses held by at least one live Pod."),
		shared:    desc("index_shared_addresses", "Addresses held by more than one live Pod; checks of them are denied as ip-ambiguous."),
		synced:    desc("feed_synced", "Whether the feed has delivered its first list.", "feed"),
		stale:     desc("feed_stale", "Whether the feed's last word is older than its bound, so that every check is denied as view-stale.", "feed"),
		age:       desc("feed_age_seconds", "Age of the feed's last word.", "feed"),
		bound:     desc("feed_bound_seconds", "Age at which the feed becomes stale.", "feed"),
		fault:     desc("feed_fault", "Whether the feed has an error at present; /readyz tells which.", "feed"),
	}
}

func (c *indexCollector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

func (c *indexCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	size := c.index.Size()
	gauge(c.pods, float64(size.Pods))
	gauge(c.addresses, float64(size.Addresses))
	gauge(c.shared, float64(size.Shared))
	for _, f := range c.index.Feeds() {
		gauge(c.synced, number(f.Freshness != identity.NotSynced), f.Name)
		gauge(c.stale, number(f.Freshness == identity.Stale), f.Name)
		gauge(c.age, f.Age.Seconds(), f.Name)
		gauge(c.bound, f.Bound.Seconds(), f.Name)
		gauge(c.fault, number(f.Fault != ""), f.Name)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
