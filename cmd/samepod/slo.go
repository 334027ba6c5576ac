package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/samepod/samepod/creation"
	"github.com/samepod/samepod/creation/gate"
)

func newSLO() *cobra.Command {
	cmd := &cobra.Command{Use: "slo", Short: "Questions about the creation SLI", Args: cobra.NoArgs, RunE: help}
	cmd.AddCommand(newGate())
	return cmd
}

// gateFlags are those of samepod slo gate.
type gateFlags struct {
	samepods   []string
	prometheus string
	selector   string
	window     time.Duration
	since      string
	rule       gate.Rule
	target     float64 // in percent
	coverage   float64 // in percent
	settle     time.Duration
	wait       time.Duration
	pods       int
	poll       time.Duration
	output     string
}

func newGate() *cobra.Command {
	f := gateFlags{rule: gate.DefaultRule()}
	cmd := &cobra.Command{
		Use:   "gate",
		Short: "Say whether Pods have got their sandboxes since an upgrade: PASS, FAIL or INCONCLUSIVE",
		Long: `Reads how many Pods got their sandbox in time, and says whether that agrees with the target.

Exit codes: 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 nothing could be read.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unanswered(fmt.Errorf("%q; allowed: no arguments", args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.rule.Target = math.Round(f.target*1e9) / 1e11 // 99.9 is 0.999
			if err := f.check(); err != nil {
				return unanswered(err)
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.samepods, "samepod", nil, "`URL` of a replica's --admin-listen; may be repeated, since one of them counts. http://127.0.0.1:9193 if --prometheus is not given either")
	flags.StringVar(&f.prometheus, "prometheus", "", "`URL` of a Prometheus to ask instead")
	flags.StringVar(&f.selector, "selector", "", "with --prometheus: matchers for the series, such as namespace=\"gateway\"")
	flags.DurationVar(&f.window, "window", time.Hour, "how far back to look; the window before it, as long, is what it is compared with")
	flags.StringVar(&f.since, "since", "", "begin of the window instead: the `time` of the upgrade, as in RFC 3339")
	flags.Float64Var(&f.target, "target", 99.9, "what is promised, in percent")
	flags.Float64Var(&f.rule.FalseFail, "false-fail", f.rule.FalseFail, "how often FAIL may be said although the target is met")
	flags.Float64Var(&f.rule.Confidence, "confidence", f.rule.Confidence, "of PASS")
	flags.IntVar(&f.rule.Sample, "min-sample", 0, "from how many Pods on PASS is also said if nothing contradicts the target, without proof; 0 for never")
	flags.Float64Var(&f.coverage, "min-coverage", 90, "what share of the window a replica must have counted for a PASS, in percent")
	flags.DurationVar(&f.settle, "settle", 150*time.Second, "how long after it is bound a Pod may become a failure: deadline and grace of samepod serve, a minute in which a quiet cluster tells nothing, and a scrape")
	flags.DurationVar(&f.wait, "wait", 0, "look again for so long, until as many Pods are judged as planned or too many have failed")
	flags.IntVar(&f.pods, "pods", 0, "with --wait: how many Pods are planned; 0 for as many as prove the target if none fails")
	flags.DurationVar(&f.poll, "poll", 10*time.Second, "with --wait: time between two looks")
	flags.StringVar(&f.output, "output", "text", "text or json")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unanswered(flagError(err)) })
	return cmd
}

// unanswered is an error that is no answer, so that CI does not take it for one.
func unanswered(err error) error { return &exitError{code: 3, error: err} }

func (f *gateFlags) check() error {
	if err := oneOf("output", f.output, "text", "json"); err != nil {
		return err
	}
	if err := f.rule.Validate(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	switch {
	case f.prometheus != "" && len(f.samepods) > 0:
		return errors.New("--samepod: without effect; --prometheus is given")
	case repeated(f.samepods):
		return errors.New("--samepod: a replica is named twice, and would count twice")
	case f.prometheus == "" && f.selector != "":
		return errors.New("--selector: without effect; --prometheus is not given")
	case !(f.coverage >= 0 && f.coverage <= 100):
		return fmt.Errorf("--min-coverage: %v; allowed: 0 to 100", f.coverage)
	case f.settle < time.Second || f.settle > time.Hour:
		return fmt.Errorf("--settle: %v; allowed: 1s to 1h", f.settle)
	case f.window < time.Minute || f.window <= f.settle || f.window > 12*time.Hour:
		return fmt.Errorf("--window: %v; allowed: 1m to 12h, and longer than --settle, which is %v", f.window, f.settle)
	case f.wait < 0:
		return fmt.Errorf("--wait: %v; allowed: 0 or a positive duration", f.wait)
	case f.pods < 0:
		return fmt.Errorf("--pods: %d; allowed: 0 or a positive number", f.pods)
	case f.pods > 0 && f.wait == 0:
		return errors.New("--pods: without effect; --wait is not given")
	case f.poll < time.Second:
		return fmt.Errorf("--poll: %v; allowed: at least 1s", f.poll)
	}
	if f.since != "" {
		since, err := time.Parse(time.RFC3339, f.since)
		if err != nil {
			return fmt.Errorf("--since: %q; allowed: a time as in RFC 3339, such as 2026-05-21T06:56:00Z", f.since)
		}
		if age := time.Since(since); age < 0 || age > 12*time.Hour {
			return fmt.Errorf("--since: %s; allowed: within the last 12h", f.since)
		}
	}
	if f.prometheus == "" && len(f.samepods) == 0 {
		f.samepods = []string{"http://127.0.0.1:9193"}
	}
	return nil
}

func repeated(urls []string) bool {
	seen := map[string]bool{}
	for _, u := range urls {
		seen[strings.TrimSuffix(u, "/")] = true
	}
	return len(seen) < len(urls)
}

// run answers once, or waits. The begin of the window stays where it was at the first
// look: one that moves along would lose what has failed.
func (f *gateFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	begin := time.Now().Add(-f.window)
	if f.since != "" {
		begin, _ = time.Parse(time.RFC3339, f.since) // check has read it
	}
	plan := gate.NewPlan(f.rule, f.pods)
	progress := newProgress(stderr)
	until := time.Now().Add(f.wait)
	for {
		r, err := f.look(ctx, begin)
		left := time.Until(until)
		switch {
		case err != nil && left <= 0:
			progress.end()
			return unanswered(err)
		case err == nil && (left <= 0 || plan.Done(r.Failures, r.Pods)):
			progress.end()
			return f.say(stdout, r)
		}
		state := bar(r, plan)
		if err != nil { // one look that fails is not the end of a wait
			state = plain(err.Error())
		}
		progress.show(state, left)
		select {
		case <-ctx.Done():
			progress.end()
			return unanswered(fmt.Errorf("interrupted: %s", state))
		case <-time.After(min(f.poll, left)):
		}
	}
}

// mostCounted is more Pods than a cluster ever makes in a window, and few enough to be
// computed with.
const mostCounted = 1e9

// plausible refuses numbers that no samepod counts.
func plausible(c creation.Counts) error {
	if c.Good < 0 || c.Good > mostCounted || c.Bad < 0 || c.Bad > mostCounted {
		return fmt.Errorf("%d good and %d bad ones; allowed: 0 to %d of each", c.Good, c.Bad, int(mostCounted))
	}
	return nil
}

// look reads both windows and judges the second.
func (f *gateFlags) look(ctx context.Context, begin time.Time) (report, error) {
	now := time.Now()
	var read reader = f.readSamepods
	var sources []string
	for _, replica := range f.samepods {
		sources = append(sources, redacted(replica))
	}
	source := strings.Join(sources, ", ")
	if f.prometheus != "" {
		read, source = f.readPrometheus, redacted(f.prometheus)
	}
	w, err := f.settled(ctx, read, begin, now)
	if err != nil {
		return report{}, err
	}
	past, err := read(ctx, begin.Add(-now.Sub(begin)), begin)
	if err == nil {
		err = errors.Join(plausible(w.Counts), plausible(past.Counts))
	}
	if err != nil {
		return report{}, err
	}
	return report{
		Verdict: f.rule.Judge(w.Bad, w.Total()).Covered(w.Covered/now.Sub(begin).Seconds(), f.coverage/100),
		From:    begin, To: now, Settled: now.Add(-f.settle), Covered: w.Covered,
		Before:   before{past.Counts, past.Covered, gate.Worse(past.Bad, past.Total(), w.Bad, w.Total())},
		Excluded: w.Excluded, Causes: w.Causes, Versions: w.NodeVersions, Owners: w.Owners, Nodes: w.Nodes, Source: source,
	}, nil
}

// say prints, and makes the exit code of the answer.
func (f *gateFlags) say(w io.Writer, r report) error {
	var err error
	if f.output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		_, err = io.WriteString(w, r.text())
	}
	switch {
	case err != nil:
		return unanswered(err)
	case r.Answer == gate.Pass:
		return nil
	}
	return &exitError{code: r.Answer.ExitCode(), error: errors.New(r.Answer.String())}
}
