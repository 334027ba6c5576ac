// Package monitoring has the SLO of the creation of sandboxes for Prometheus and
// Grafana, and its tests: slo.yaml is what is promised, rules.yaml is made of it (sloth),
// alerts.yaml is about the measurement, dashboard.json shows all of it.
//
// It is a module of its own: Prometheus is big, and needs other versions of much than
// the chart's tests do.
package monitoring
