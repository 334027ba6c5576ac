package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/samepod/samepod/creation"
	"github.com/samepod/samepod/creation/gate"
)

// replica answers /creation as a samepod does; its ledger has these outcomes, at a
// time before now.
func replica(t *testing.T, said ...outcomes) (*creationSLI, string) {
	t.Helper()
	s := &creationSLI{}
	for _, o := range said {
		for i := range o.n {
			s.ledger.Add(creation.Outcome{
				UID: "uid", Generation: 1, Result: o.result, Exclusion: o.exclusion, Cause: o.cause, At: time.Now().Add(-o.ago),
				Node: fmt.Sprint("node-", i%2), NodeVersion: o.version, Owner: "rs",
			})
		}
	}
	server := httptest.NewServer(s.handler(http.NotFoundHandler()))
	t.Cleanup(server.Close)
	return s, server.URL
}

type outcomes struct {
	n         int
	ago       time.Duration
	result    creation.Result
	exclusion creation.Exclusion
	cause     creation.Cause
	version   string
}

// gateOf runs the command.
func gateOf(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), append([]string{"slo", "gate"}, args...), &out, &err)
	return code, out.String(), err.String()
}

func TestGate(t *testing.T) {
	const before, now = 90 * time.Minute, 10 * time.Minute
	for _, tc := range []struct {
		name string
		said []outcomes
		args []string
		code int
		want []string
	}{
		{"all is well and few", []outcomes{{n: 200, ago: now, result: creation.Good}}, nil, 2, []string{"INCONCLUSIVE  2795 Pods more without a failure would be a PASS, 3 failures more now a FAIL", "200, of which 0 failed: 100 %", "before"}},
		{"proof", []outcomes{{n: 3000, ago: now, result: creation.Good}}, nil, 0, []string{"PASS  the rate is at least 99.9"}},
		{"consistent", []outcomes{{n: 300, ago: now, result: creation.Good}}, []string{"--min-sample", "300"}, 0, []string{"PASS  consistent with 99.9 %, n=300; not proven"}},
		{
			"an upgrade that broke one version",
			[]outcomes{
				{n: 195, ago: now, result: creation.Good, version: "containerd://2.2.1"}, {n: 5, ago: now, result: creation.Bad, cause: creation.BootEOF, version: "containerd://2.2.2"},
				{n: 7, ago: now, result: creation.Excluded, exclusion: creation.DeletedEarly}, {n: 400, ago: before, result: creation.Good},
			},
			nil, 1,
			[]string{"FAIL  3 or more failures of 200 Pods", "on containerd://2.2.2  5 Pods, of which 5 failed: 0 %", "on containerd://2.2.1  195 Pods", "cause                  runsc-boot-eof: 5", "deleted_early: 7", "400 Pods, of which 0 failed: 100 %; chance makes it so much worse in 0.004", "node-0: 3 failed", "owners                 1 controllers"},
		},
		{"nothing", nil, nil, 2, []string{"INCONCLUSIVE  no Pod was judged in the window", "nothing is known, of which 0s were counted"}},
		{"only before", []outcomes{{n: 5, ago: before, result: creation.Bad}}, nil, 2, []string{"INCONCLUSIVE  no Pod was judged", "5 Pods, of which 5 failed: 0 %"}},
		{"another target", []outcomes{{n: 300, ago: now, result: creation.Good}}, []string{"--target", "99"}, 0, []string{"PASS  the rate is at least 99.0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, url := replica(t, tc.said...)
			_, other := replica(t)
			code, out, stderr := gateOf(t, append([]string{"--samepod", url, "--samepod", other}, tc.args...)...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, stderr)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			code, out, _ = gateOf(t, append([]string{"--samepod", url, "--output", "json"}, tc.args...)...)
			var r struct {
				Answer string
				Before struct{ Good, Bad int }
			}
			if err := json.Unmarshal([]byte(out), &r); code != tc.code || err != nil || !strings.HasPrefix(tc.want[0], r.Answer) {
				t.Errorf("JSON: %d, %v\n%s", code, err, out)
			}
		})
	}
}

// TestGateUnanswered: what is no answer is none of the three exit codes.
func TestGateUnanswered(t *testing.T) {
	none := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(none.Close)
	html := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	t.Cleanup(html.Close)
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	}))
	t.Cleanup(empty.Close)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--samepod", none.URL}, "404"},
		{[]string{"--samepod", html.URL}, "invalid character"},
		{[]string{"--samepod", "http://127.0.0.1:1"}, "connection refused"},
		{[]string{"--prometheus", empty.URL}, "no series samepod_pod_sandbox_creation_total"},
		{[]string{"--prometheus", none.URL, "--samepod", none.URL}, "--samepod: without effect"},
		{[]string{"yes"}, `["yes"]; allowed: no arguments`},
		{[]string{"--samepod", "http://a", "--samepod", "http://a/"}, "named twice"},
		{[]string{"--target", "NaN"}, "--target: NaN; allowed"},
		{[]string{"--target", "100"}, "--target: 1; allowed: 0.5 to 0.9999999"},
		{[]string{"--window", "13h"}, "--window: 13h0m0s; allowed: 1m to 12h"},
		{[]string{"--window", "1x"}, `--window: "1x"; allowed: a duration`},
		{[]string{"--since", "yesterday"}, `--since: "yesterday"; allowed: a time as in RFC 3339`},
		{[]string{"--since", time.Now().Add(time.Hour).Format(time.RFC3339)}, "within the last 12h"},
		{[]string{"--pods", "5"}, "--pods: without effect"},
		{[]string{"--selector", "x"}, "--selector: without effect"},
		{[]string{"--output", "xml"}, `--output: "xml"; allowed: text, json`},
		{[]string{"--wait", "-1s"}, "--wait: -1s"}, {[]string{"--poll", "1ms"}, "--poll: 1ms"},
	} {
		if code, out, stderr := gateOf(t, tc.args...); code != 3 || out != "" || !strings.Contains(stderr, tc.want) {
			t.Errorf("%v: %d, %q, %s, want %s", tc.args, code, out, stderr, tc.want)
		}
	}
}

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
		"hours old":           {both(now-1800, "0"), "the last sample is 30m"},
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

// TestGateWaits: it looks again until the plan is done, and shows how far it is.
func TestGateWaits(t *testing.T) {
	s, _ := replica(t, outcomes{n: 10, result: creation.Good})
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 3 { // a look is two questions
			for range 40 {
				s.ledger.Add(creation.Outcome{Generation: 1, Result: creation.Good, At: time.Now()})
			}
		}
		s.handler(http.NotFoundHandler()).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	code, out, stderr := gateOf(t, "--samepod", server.URL, "--wait", "1h", "--pods", "50", "--poll", "1s", "--window", "1m")
	if code != 2 || !strings.Contains(out, "50, of which 0 failed") {
		t.Errorf("%d\n%s", code, out)
	}
	if want := "[####                ] 10 of 50 Pods, 0 failed, at most "; !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 2 {
		t.Errorf("progress: %q", stderr)
	}
	// Enough failures for the whole plan end it at once.
	_, url := replica(t, outcomes{n: 9, result: creation.Bad})
	if code, _, stderr := gateOf(t, "--samepod", url, "--wait", "1h", "--window", "1m"); code != 1 || strings.Contains(stderr, "of 2995") {
		t.Errorf("%d %s", code, stderr)
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
	code, out, stderr := gateOf(t, "--prometheus", url, "--selector", `namespace="gateway"`)
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

// TestCreationPage: the window is asked for exactly, or not at all.
func TestCreationPage(t *testing.T) {
	_, url := replica(t)
	for query, want := range map[string]int{
		"": 400, "from=2026-01-01T00:00:00Z": 400, "from=2026-01-01T00:00:00Z&to=yesterday": 400, "from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z": 400,
		"from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00.5Z": 200,
	} {
		res, err := http.Get(url + "/creation?" + query)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d, want %d", query, res.StatusCode, want)
		}
	}
}

// TestDocsCreation: the document names every metric of the SLI, and no other.
func TestDocsCreation(t *testing.T) {
	reg := prometheus.NewRegistry()
	creation.NewMetrics(reg, nil, func() int { return 0 }, func() int { return 0 })
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	text := readDoc(t, "docs/creation.md")
	known := map[string]bool{}
	for _, f := range families {
		known[f.GetName()] = true
		if !strings.Contains(text, "| `"+f.GetName()) {
			t.Errorf("%s is not in the table", f.GetName())
		}
	}
	for _, name := range regexp.MustCompile(`samepod_pod_sandbox_[a-z_]+`).FindAllString(text, -1) {
		if !known[name] {
			t.Errorf("%s is no metric", name)
		}
	}
}
