package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/samepod/samepod/authz"
)

// TestOperations: every metric that the document names is one that samepod has,
// every reason one that callers can see, and every alert is whole.
func TestOperations(t *testing.T) {
	text := readDoc(t, "docs/operations.md")
	known := metricNames(t)
	for _, name := range regexp.MustCompile(`samepod_[a-z_]+`).FindAllString(text, -1) {
		if name != "samepod_authz" && !slices.Contains(known, name) { // the cluster is Envoy's
			t.Errorf("%s is no metric; there are %v", name, known)
		}
	}
	reasons := map[string]bool{}
	for _, r := range authz.Reasons() {
		reasons[r.String()] = true
	}
	for _, r := range envoyReplies() {
		reasons[r.Reason] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^\|[^|]+\|([^|]+)\|`).FindAllStringSubmatch(text, -1) {
		for _, word := range regexp.MustCompile("`([a-z]+-[a-z-]+)`").FindAllStringSubmatch(m[1], -1) {
			if !reasons[word[1]] {
				t.Errorf("%s is no reason", word[1])
			}
		}
	}
	var alerts struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For string
				Labels           map[string]string
			}
		}
	}
	for _, b := range blocks(t, "docs/operations.md") {
		if b.info != "yaml alerts" {
			continue
		}
		d := yaml.NewDecoder(strings.NewReader(b.text))
		d.KnownFields(true)
		if err := d.Decode(&alerts); err != nil {
			t.Fatal(err)
		}
	}
	if len(alerts.Groups) != 1 || len(alerts.Groups[0].Rules) < 5 {
		t.Fatalf("%+v", alerts)
	}
	for _, r := range alerts.Groups[0].Rules {
		if r.Alert == "" || !strings.Contains(r.Expr, "samepod_") || r.Labels["severity"] == "" {
			t.Errorf("%+v", r)
		}
	}
}

// metricNames are those of a running service, and those of one that has TLS.
func metricNames(t *testing.T) []string {
	t.Helper()
	i := startServe(t, "scope: {namespaces: [ns]}\nports: any\n")
	_, text := i.get(i.start.Health, "/metrics")
	names := []string{"samepod_tls_certificate_not_after_timestamp_seconds", "samepod_tls_fault", "samepod_tls_refused_total"}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (samepod_[a-z_]+) `).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}
