package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/samepod/samepod/creation"
)

// replica answers /creation as a samepod does that counted this share of each window; its
// ledger has these outcomes, at a time before now.
func replica(t *testing.T, counted float64, said ...outcomes) (*creationSLI, string) {
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
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		s.handler(http.NotFoundHandler()).ServeHTTP(answer, r)
		var window creation.Window
		if answer.Code != http.StatusOK || json.Unmarshal(answer.Body.Bytes(), &window) != nil {
			http.Error(w, answer.Body.String(), answer.Code)
			return
		}
		window.Covered = counted * window.To.Sub(window.From).Seconds()
		_ = json.NewEncoder(w).Encode(window)
	}))
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
		want []string // the answer first
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
		{"nothing", nil, nil, 2, []string{"INCONCLUSIVE  no Pod was judged in the window", "nothing is known, all of it counted"}},
		{"only before", []outcomes{{n: 5, ago: before, result: creation.Bad}}, nil, 2, []string{"INCONCLUSIVE  no Pod was judged", "5 Pods, of which 5 failed: 0 %"}},
		{"another target", []outcomes{{n: 300, ago: now, result: creation.Good}}, []string{"--target", "99"}, 0, []string{"PASS  the rate is at least 99.0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, url := replica(t, 1, tc.said...)
			_, other := replica(t, 0)
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

// TestGateCoverage: where too little was counted there is no PASS, and every FAIL.
func TestGateCoverage(t *testing.T) {
	good, bad := outcomes{n: 3000, ago: 10 * time.Minute, result: creation.Good}, outcomes{n: 30, ago: 10 * time.Minute, result: creation.Bad}
	for _, tc := range []struct {
		counted float64
		said    []outcomes
		args    []string
		code    int
		want    string
	}{
		{0.91, []outcomes{good}, nil, 0, "PASS  the rate"},
		{0.875, []outcomes{good}, nil, 2, "INCONCLUSIVE  87.5 % of the window was counted, and a PASS takes 90 %\n"},
		{0.875, []outcomes{good}, []string{"--min-sample", "1", "--target", "99.9999"}, 2, "INCONCLUSIVE  87.5 %"},
		{0.875, []outcomes{good}, []string{"--min-coverage", "87"}, 0, "PASS"},
		{0, []outcomes{good}, nil, 2, "INCONCLUSIVE  0 % of the window"},
		{0, []outcomes{good}, []string{"--min-coverage", "0"}, 0, "PASS"},
		{0, []outcomes{good, bad}, nil, 1, "FAIL  "},
		{0, nil, nil, 2, "INCONCLUSIVE  no Pod was judged"},
	} {
		_, url := replica(t, tc.counted, tc.said...)
		if code, out, stderr := gateOf(t, append([]string{"--samepod", url}, tc.args...)...); code != tc.code || !strings.HasPrefix(out, tc.want) {
			t.Errorf("%v of it, %v: %d, %s%s, want %s", tc.counted, tc.args, code, out, stderr, tc.want)
		}
	}
}

// TestGateSettles: good ones whose like may still fail are no proof, and what has failed
// has.
func TestGateSettles(t *testing.T) {
	for _, tc := range []struct {
		goodAgo, badAgo time.Duration
		args            []string
		want            string
	}{
		{4 * time.Minute, time.Second, nil, "3000, of which 30 failed"},
		{time.Minute, time.Second, nil, "30, of which 30 failed"},
		{time.Minute, time.Second, []string{"--settle", "30s"}, "3000, of which 30 failed"},
		{time.Minute, time.Second, []string{"--since", time.Now().Add(-2 * time.Minute).Format(time.RFC3339)}, "0, of which 0 failed"}, // an upgrade of just now
	} {
		good, bad := outcomes{n: 2970, ago: tc.goodAgo, result: creation.Good, version: "v1"}, outcomes{n: 30, ago: tc.badAgo, result: creation.Bad, version: "v1"}
		_, url := replica(t, 1, good, bad)
		_, out, stderr := gateOf(t, append([]string{"--samepod", url}, tc.args...)...)
		if got := strings.Join(strings.Fields(out), " "); !strings.Contains(got, " Pods "+tc.want) || strings.Contains(tc.want, "30 failed") && !strings.Contains(got, "on v1 "+strings.Replace(tc.want, ",", " Pods,", 1)) {
			t.Errorf("good %v and bad %v ago, %v: no %q in\n%s%s", tc.goodAgo, tc.badAgo, tc.args, tc.want, out, stderr)
		}
	}
	// Those of one version that are not settled yet are not told.
	_, url := replica(t, 1, outcomes{n: 5, result: creation.Good, version: "v1"})
	if code, out, _ := gateOf(t, "--samepod", url); code != 2 || strings.Contains(out, "v1") {
		t.Errorf("%d\n%s", code, out)
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
		{[]string{"--window", "2m"}, "--window: 2m0s; allowed: 1m to 12h, and longer than --settle, which is 2m30s"},
		{[]string{"--settle", "0s"}, "--settle: 0s; allowed: 1s to 1h"},
		{[]string{"--min-coverage", "101"}, "--min-coverage: 101; allowed: 0 to 100"},
		{[]string{"--min-coverage", "NaN"}, "--min-coverage: NaN; allowed: 0 to 100"},
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

// TestCreationPage: the window is asked for exactly, or not at all.
func TestCreationPage(t *testing.T) {
	_, url := replica(t, 1)
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
