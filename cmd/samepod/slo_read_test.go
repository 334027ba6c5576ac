package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/samepod/samepod/creation/gate"
)

// TestGateHostile: what answers for Prometheus or for samepod may say anything; none of
// it is a PASS.
func TestGateHostile(t *testing.T) {
	const good, bad = `{"metric":{"result":"good"},"values":[[%d,"0"],[%d,"5000"]]}`, `{"metric":{"result":"bad"},"values":[[%d,"0"],[%d,"%s"]]}`
	begin, now := time.Now().Add(-time.Hour).Unix(), time.Now().Unix()
	matrix := func(result string) string {
		return `{"status":"success","data":{"resultType":"matrix","result":[` + result + `]}}`
	}
	both := func(end int64, value string) string {
		return matrix(fmt.Sprintf(good+","+bad, begin, end, begin, end, value))
	}
	for name, tc := range map[string]struct {
		answer string
		want   string
	}{
		"no number":           {both(now, "NaN"), "a counter of NaN"},
		"below zero":          {both(now, "-7"), "a counter of -7"},
		"without end":         {both(now, "+Inf"), "a counter of +Inf"},
		"huge":                {both(now, "1e18"), "a counter of 1e18"},
		"hours old":           {both(now-1800, "0"), "the last sample is 27m"},
		"no bad ones":         {matrix(fmt.Sprintf(good, begin, now)), "1 series of good ones, and 0 of bad ones"},
		"no good ones":        {matrix(fmt.Sprintf(bad, begin, now, "0")), "0 series of good ones, and 1 of bad ones"},
		"not whole":           {strings.Replace(both(now, "0"), `"data"`, `"warnings":["store \u001b[2J is down"],"data"`, 1), "the answer is not whole: store [2J is down"},
		"an error":            {`{"status":"error","error":"x"}`, `status "error"`},
		"something else":      {`{}`, `status ""`},
		"no time":             {matrix(`{"metric":{"result":"good"},"values":[["x","1"]]},{"metric":{"result":"bad"}}`), "cannot unmarshal"},
		"a number of no text": {matrix(fmt.Sprintf(`{"metric":{"result":"good"},"values":[[%d,1]]},{"metric":{"result":"bad"}}`, now)), "cannot unmarshal"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tc.answer) }))
		if code, out, stderr := gateOf(t, "--prometheus", server.URL); code != 3 || out != "" || !strings.Contains(stderr, tc.want) || strings.Contains(stderr, "\x1b") {
			t.Errorf("%s: %d, %q, %s", name, code, out, stderr)
		}
		server.Close()
	}
	for name, counts := range map[string]string{"below zero": `"good":5000,"bad":-3`, "huge": `"good":1,"bad":9000000000000000000`, "another window": `"from":"2026-01-01T00:00:00Z","good":5000`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"from":%q,"to":%q,%s}`, r.URL.Query().Get("from"), r.URL.Query().Get("to"), counts)
		}))
		if code, out, stderr := gateOf(t, "--samepod", strings.Replace(server.URL, "http://", "http://me:hunter2@", 1)); code != 3 || out != "" || strings.Contains(stderr, "hunter2") {
			t.Errorf("%s: %d, %q, %s", name, code, out, stderr)
		}
		server.Close()
	}
	// The most that is taken is still computed with.
	most := gate.Rule{Target: 0.9999999, FalseFail: 1e-6, Confidence: 0.999999}
	for _, failures := range []int{0, 1, mostCounted} {
		if v := most.Judge(failures, 2*mostCounted); (v.Answer == gate.Fail) != (failures == mostCounted) || math.IsNaN(v.LowerBound+v.UpperBound) {
			t.Errorf("%+v", v)
		}
	}
}

// prometheusOf answers range selectors with these samples: seconds before now, and the value.
func prometheusOf(t *testing.T, all map[string][][2]float64) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query().Get("query")
		end, _ := strconv.ParseFloat(r.URL.Query().Get("time"), 64)
		length, _ := strconv.Atoi(strings.TrimSuffix(query[strings.Index(query, "[")+1:], "s]"))
		now := float64(time.Now().Unix())
		var result []map[string]any
		for name, samples := range all {
			metric, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
			if !strings.HasPrefix(query, "samepod_pod_sandbox_"+metric+"{") {
				continue
			}
			set := map[string]string{}
			for l := range strings.SplitSeq(labels, ",") {
				k, v, _ := strings.Cut(l, "=")
				set[k] = v
			}
			var values [][2]any
			for _, s := range samples {
				if at := now - s[0]; at <= end && at > end-float64(length) {
					values = append(values, [2]any{at, fmt.Sprint(s[1])})
				}
			}
			if values != nil {
				result = append(result, map[string]any{"metric": set, "values": values})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": result}})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestGatePrometheus: rises are counted exactly, across restarts, and from the first
// sample where there is none before the window.
func TestGatePrometheus(t *testing.T) {
	url := prometheusOf(t, map[string][][2]float64{
		"creation_total{result=good,instance=a}":                     {{7000, 50}, {3700, 100}, {3500, 110}, {60, 200}},
		"creation_total{result=bad,instance=a}":                      {{7000, 0}, {3700, 1}, {3500, 1}, {60, 1}},
		"creation_total{result=good,instance=b}":                     {{3000, 7}, {2000, 17}, {1000, 2}, {60, 12}}, // first seen late, and restarted
		"creation_total{result=bad,instance=b}":                      {{3000, 0}, {1000, 0}, {60, 3}},
		"creation_by_node_version_total{result=bad,node_version=v2}": {{3700, 0}, {60, 3}},
		"creation_failures_total{cause=timeout}":                     {{3700, 0}, {60, 3}},
		"creation_failures_total{cause=unknown}":                     {{3700, 0}, {60, 0}},
		"excluded_total{reason=volume}":                              {{3700, 4}, {60, 6}},
	})
	code, out, stderr := gateOf(t, "--prometheus", url, "--selector", `namespace="gateway"`, "--settle", "30s")
	if code != 1 {
		t.Errorf("%d %s", code, stderr)
	}
	for _, want := range []string{"125, of which 3 failed: 97.6 %", "on v2      3 Pods, of which 3 failed", "timeout: 3", "volume: 2", "51 Pods, of which 1 failed"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "unknown: 0") {
		t.Error("what did not rise is told")
	}
}

// TestCoverage: what Prometheus has not seen counted was not.
func TestCoverage(t *testing.T) {
	from := time.Unix(1000, 0)
	every := func(step, begin, end, n int) (s []sample) {
		for at := begin; at <= end; at += step {
			s = append(s, sample{from.Add(time.Duration(at) * time.Second), n})
		}
		return s
	}
	for _, tc := range []struct {
		name     string
		replicas [][]sample
		want     time.Duration
	}{
		{"nobody", nil, 0},
		{"one sample", [][]sample{every(60, 300, 300, 1)}, 0},
		{"one replica", [][]sample{every(60, -300, 600, 1)}, 600 * time.Second},
		{"it was scraped late", [][]sample{every(60, 120, 600, 1)}, 480 * time.Second},
		{"and not at the end", [][]sample{every(60, -300, 480, 1)}, 480 * time.Second},
		{"samples from after the window", [][]sample{every(60, -300, 900, 1)}, 600 * time.Second},
		{"and from before", [][]sample{every(60, -300, -60, 1)}, 0},
		{"the one that counts is not scraped", [][]sample{every(60, -300, 600, 0)}, 0},
		{"it is not scraped from the middle on", [][]sample{every(60, -300, 300, 1), every(60, -300, 600, 0)}, 300 * time.Second},
		{"a handover takes a scrape", [][]sample{append(every(60, -300, 240, 1), every(60, 300, 600, 0)...), append(every(60, -300, 240, 0), every(60, 300, 600, 1)...)}, 540 * time.Second},
		{"two say so at a time", [][]sample{every(60, -300, 360, 1), every(60, 240, 600, 1)}, 600 * time.Second},
		{"one within the other", [][]sample{every(60, -300, 600, 1), every(60, 240, 300, 1)}, 600 * time.Second},
		{"two minutes between scrapes", [][]sample{every(120, -240, 600, 1)}, 600 * time.Second},
		{"a gap", [][]sample{append(every(60, -300, 120, 1), every(60, 300, 600, 1)...)}, 420 * time.Second},
		{"no order", [][]sample{append(every(60, 300, 600, 1), every(60, 0, 240, 1)...)}, 540 * time.Second},
	} {
		var all []series
		for _, values := range tc.replicas {
			all = append(all, series{Values: values})
		}
		if got := coverage(all, from, from.Add(10*time.Minute)); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestGatePrometheusCoverage: as many good ones as there may be, of a replica that may
// not be the one that counts.
func TestGatePrometheusCoverage(t *testing.T) {
	for _, tc := range []struct {
		name     string
		counting float64
		want     string
	}{{"it counts", 1, "PASS"}, {"another one counts, which is not scraped", 0, "INCONCLUSIVE  0 % of the window was counted"}} {
		var counting [][2]float64
		for ago := 3900.0; ago >= 0; ago -= 60 {
			counting = append(counting, [2]float64{ago, tc.counting})
		}
		url := prometheusOf(t, map[string][][2]float64{
			"creation_total{result=good,instance=a}": {{3700, 0}, {200, 5000}, {60, 5000}},
			"creation_total{result=bad,instance=a}":  {{3700, 0}, {200, 0}, {60, 0}},
			"counting{instance=a}":                   counting,
		})
		if _, out, stderr := gateOf(t, "--prometheus", url); !strings.HasPrefix(out, tc.want) {
			t.Errorf("%s: %s%s, want %s", tc.name, out, stderr, tc.want)
		}
	}
}
