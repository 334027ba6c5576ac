package monitoring

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/samepod/samepod/creation"
)

type dashboard struct {
	UID    string
	Panels []struct {
		Title   string
		Targets []struct{ Expr, LegendFormat string }
	}
}

// TestDashboard has a real Prometheus scrape the product's own metrics, apply the
// rules, and answer every query of the dashboard: each says something, and its legend
// names only labels that there are.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	prom := startPrometheus(t, startMetrics(t, everyKind))
	label := regexp.MustCompile(`\{\{(\w+)\}\}`)
	queries := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries++
			expr := strings.NewReplacer("$__rate_interval", "10s", "$__range", "1m").Replace(target.Expr)
			var result []sample
			// The recording rules of 30 days are evaluated in turn.
			for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
				if result, err = query(prom, expr); err != nil {
					t.Fatalf("%s: %s: %v", p.Title, expr, err)
				}
				if len(result) > 0 && result[0].value() != "NaN" {
					break
				}
			}
			if len(result) == 0 || result[0].value() == "NaN" {
				t.Errorf("%s: nothing: %s", p.Title, expr)
				continue
			}
			for _, l := range label.FindAllStringSubmatch(target.LegendFormat, -1) {
				if _, ok := result[0].Metric[l[1]]; !ok {
					t.Errorf("%s: the legend names %s, which is not in %v", p.Title, l[1], result[0].Metric)
				}
			}
		}
	}
	if queries < 15 {
		t.Errorf("%d queries", queries)
	}
}

// startMetrics exposes what samepod serve does, of a fleet that tells its outcomes.
func startMetrics(t *testing.T, outcome func(i int) creation.Outcome) (address string) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m := creation.NewMetrics(reg, []string{"gvisor"}, func() int { return 4 }, func() int { return 2 })
	m.Counting(true)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			m.Add(outcome(i))
		}
	}()
	server := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// everyKind is a fleet in which every kind of outcome is there from the start.
func everyKind(i int) creation.Outcome {
	o := creation.Outcome{Generation: 1, Result: creation.Good, RuntimeClass: "gvisor", NodeVersion: "containerd://2.2.2", Took: time.Duration(1+i%4) * time.Second}
	switch i % 25 {
	case 0:
		o.Result, o.Cause = creation.Bad, creation.BootEOF
	case 1:
		o.Result, o.Exclusion = creation.Excluded, creation.DeletedEarly
	case 2:
		o.Generation, o.Skewed = 2, true
	case 3:
		o.Result = creation.Recovered
	}
	return o
}

// startPrometheus scrapes the address each second, with the rules of this directory.
func startPrometheus(t *testing.T, address string) (baseURL string) {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q, %q]\nscrape_configs:\n- job_name: samepod\n  static_configs: [{targets: [%q]}]\n",
		filepath.Join(here, "rules.yaml"), filepath.Join(here, "alerts.yaml"), address)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := l.Addr().String()
	l.Close()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program(t, "prometheus"), "--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", listen)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s", text)
		}
	})
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if r, err := http.Get("http://" + listen + "/-/ready"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return "http://" + listen
			}
		}
	}
	t.Fatal("Prometheus is not ready")
	return ""
}

// sample is one of an instant vector.
type sample struct {
	Metric map[string]string
	Value  [2]any // seconds, and the value as a string
}

func (s sample) value() string { return fmt.Sprint(s.Value[1]) }

func query(baseURL, expr string) ([]sample, error) {
	r, err := http.Get(baseURL + "/api/v1/query?" + url.Values{"query": {expr}}.Encode())
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []sample }
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("%s", answer.Error)
	}
	return answer.Data.Result, nil
}
