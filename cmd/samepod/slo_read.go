package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/samepod/samepod/creation"
)

const (
	mostAnswer    = 64 << 20 // bytes of an answer
	answerTimeout = 30 * time.Second
)

// getJSON reads one answer.
func getJSON(ctx context.Context, from string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", redacted(from), err)
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: %s", redacted(from), res.Status, strings.TrimSpace(plain(string(text[:min(len(text), 300)]))))
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", redacted(from), err)
	}
	return nil
}

// nothing is a window in which no Pod was judged.
func nothing() creation.Window {
	return creation.Window{NodeVersions: map[string]creation.Counts{}, Causes: map[string]int{}, Excluded: map[string]int{}}
}

// readSamepods adds up what replicas say: one counted at a time.
func (f *gateFlags) readSamepods(ctx context.Context, from, to time.Time) (creation.Window, error) {
	sum := nothing()
	nodes := map[string]int{}
	for _, replica := range f.samepods {
		var w creation.Window
		query := url.Values{"from": {from.UTC().Format(time.RFC3339Nano)}, "to": {to.UTC().Format(time.RFC3339Nano)}}
		if err := getJSON(ctx, strings.TrimSuffix(replica, "/")+"/creation", query, &w); err != nil {
			return sum, err
		}
		if !w.From.Equal(from) || !w.To.Equal(to) {
			return sum, fmt.Errorf("%s: answers for %v to %v; it is no samepod", redacted(replica), w.From, w.To)
		}
		sum.Good, sum.Bad, sum.Covered, sum.Owners = sum.Good+w.Good, sum.Bad+w.Bad, sum.Covered+w.Covered, sum.Owners+w.Owners
		for version, c := range w.NodeVersions {
			s := sum.NodeVersions[version]
			sum.NodeVersions[version] = creation.Counts{Good: s.Good + c.Good, Bad: s.Bad + c.Bad}
		}
		add(sum.Causes, w.Causes)
		add(sum.Excluded, w.Excluded)
		for _, n := range w.Nodes {
			nodes[n.Name] += n.Bad
		}
	}
	for _, name := range byNumber(nodes) {
		sum.Nodes = append(sum.Nodes, creation.Named{Name: name, Bad: nodes[name]})
	}
	return sum, nil
}

func add(sum, more map[string]int) {
	for name, n := range more {
		sum[name] += n
	}
}

// series is a line of Prometheus' answer to a range selector.
type series struct {
	Metric map[string]string `json:"metric"`
	Values []sample          `json:"values"`
}

// sample is a number at a time.
type sample struct {
	at time.Time
	n  int
}

// UnmarshalJSON reads seconds, and the number as a string.
func (s *sample) UnmarshalJSON(text []byte) error {
	var seconds float64
	var number string
	if err := json.Unmarshal(text, &[]any{&seconds, &number}); err != nil {
		return err
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return err
	}
	if !(value >= 0 && value <= mostCounted) {
		return fmt.Errorf("a counter of %s; allowed: 0 to %d", number, int(mostCounted))
	}
	s.at, s.n = time.UnixMilli(int64(seconds*1000)), int(value)
	return nil
}

// lookBack is how long before a window samples are looked for, so that what a counter
// was at its begin is known.
const lookBack = 5 * time.Minute

// readPrometheus reads the counters' samples and counts their rises itself: increase()
// extrapolates, and would make 2.03 failures of two.
func (f *gateFlags) readPrometheus(ctx context.Context, from, to time.Time) (creation.Window, error) {
	w := nothing()
	each := func(metric string, take func(labels map[string]string, rise int)) error {
		all, err := f.query(ctx, metric, from, to)
		if err != nil {
			return err
		}
		if err := complete(metric, all, to); err != nil {
			return err
		}
		for _, s := range all {
			take(s.Metric, s.rise(from))
		}
		if len(all) == 0 && metric == "creation_total" && to.After(time.Now().Add(-lookBack)) {
			return fmt.Errorf("%s: no series samepod_pod_sandbox_creation_total{%s}; samepod serve has it with --creation-sli", redacted(f.prometheus), f.selector)
		}
		return nil
	}
	if err := each("creation_total", func(labels map[string]string, rise int) { countResult(&w.Counts, labels["result"], rise) }); err != nil {
		return w, err
	}
	if err := each("creation_by_node_version_total", func(labels map[string]string, rise int) {
		if rise > 0 {
			c := w.NodeVersions[labels["node_version"]]
			countResult(&c, labels["result"], rise)
			w.NodeVersions[labels["node_version"]] = c
		}
	}); err != nil {
		return w, err
	}
	if err := each("creation_failures_total", func(labels map[string]string, rise int) { w.Causes[labels["cause"]] += rise }); err != nil {
		return w, err
	}
	err := each("excluded_total", func(labels map[string]string, rise int) { w.Excluded[labels["reason"]] += rise })
	for _, m := range []map[string]int{w.Causes, w.Excluded} {
		maps.DeleteFunc(m, func(_ string, n int) bool { return n == 0 })
	}
	if err != nil {
		return w, err
	}
	counting, err := f.query(ctx, "counting", from, to)
	w.Covered = coverage(counting, from, to).Seconds()
	return w, err
}

func countResult(c *creation.Counts, result string, n int) {
	switch result {
	case creation.Good.String():
		c.Good += n
	case creation.Bad.String():
		c.Bad += n
	}
}

// query asks for the samples of a counter in a window, and a little before it.
func (f *gateFlags) query(ctx context.Context, metric string, from, to time.Time) ([]series, error) {
	length := (to.Sub(from) + lookBack).Round(time.Second)
	var answer struct {
		Status   string
		Data     struct{ Result []series }
		Warnings []string
	}
	query := url.Values{
		"query": {fmt.Sprintf("samepod_pod_sandbox_%s{%s}[%ds]", metric, f.selector, int(length.Seconds()))},
		"time":  {strconv.FormatFloat(float64(to.UnixMilli())/1000, 'f', 3, 64)},
	}
	err := getJSON(ctx, strings.TrimSuffix(f.prometheus, "/")+"/api/v1/query", query, &answer)
	switch {
	case err != nil:
		return nil, err
	case answer.Status != "success":
		return nil, fmt.Errorf("%s: status %q, which is no answer of Prometheus", redacted(f.prometheus), answer.Status)
	case len(answer.Warnings) > 0: // of several Prometheis behind one address, one does not answer
		return nil, fmt.Errorf("%s: the answer is not whole: %s", redacted(f.prometheus), plain(strings.Join(answer.Warnings, "; ")))
	}
	return answer.Data.Result, nil
}

// complete refuses series of which some are not there. A samepod has good and bad ones
// from its start, so where the bad ones are missing somebody has left them out, and
// where the last sample is old nobody knows what has failed since.
func complete(metric string, all []series, to time.Time) error {
	results := map[string]int{}
	last := time.Time{}
	for _, s := range all {
		results[s.Metric["result"]]++
		for _, v := range s.Values {
			if v.at.After(last) {
				last = v.at
			}
		}
	}
	if metric != "creation_total" || len(all) == 0 {
		return nil
	}
	if good, bad := results[creation.Good.String()], results[creation.Bad.String()]; good != bad {
		return fmt.Errorf("%s: %d series of good ones, and %d of bad ones; a samepod has as many of both", metric, good, bad)
	}
	if age := to.Sub(last); age > lookBack && to.After(time.Now().Add(-lookBack)) {
		return fmt.Errorf("%s: the last sample is %v old; what has failed since is not known", metric, age.Round(time.Second))
	}
	return nil
}

// redacted is a URL without the password in it.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that cannot be read"
	}
	return u.Redacted()
}

// rise is by how much a counter has grown since a time, exactly. A counter that is
// smaller than before has begun anew at zero. One whose first sample is later is
// counted from that sample on.
func (s series) rise(since time.Time) int {
	rise, last := 0, -1
	for _, v := range s.Values {
		if v.at.After(since) && last >= 0 {
			if v.n < last {
				last = 0
			}
			rise += v.n - last
		}
		last = v.n
	}
	return rise
}
