package gate

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestFailAt has the numbers of the binomial distribution for 99.9 %.
func TestFailAt(t *testing.T) {
	for _, tc := range []struct {
		falseFail float64
		n, want   int
	}{
		{0.01, 0, 1}, {0.01, 1, 1}, {0.01, 10, 1}, {0.01, 11, 2}, {0.01, 20, 2}, {0.01, 100, 2}, {0.01, 200, 3}, {0.01, 500, 4}, {0.01, 1000, 5}, {0.01, 3000, 9},
		{0.05, 50, 1}, {0.05, 100, 2}, {0.05, 200, 2}, {0.05, 500, 3}, {0.05, 1000, 4}, {0.05, 3000, 7},
	} {
		r := DefaultRule()
		r.FalseFail = tc.falseFail
		if got := r.FailAt(tc.n); got != tc.want {
			t.Errorf("%v of %d: %d failures are a FAIL, want %d", tc.falseFail, tc.n, got, tc.want)
		}
	}
}

// TestPodsToPass: how many Pods decide at 99.9 %.
func TestPodsToPass(t *testing.T) {
	for _, tc := range []struct {
		confidence float64
		k, want    int
	}{{0.95, 0, 2995}, {0.99, 0, 4603}, {0.95, 1, 4742}, {0.95, 2, 6294}, {0.95, 3, 7752}} {
		r := DefaultRule()
		r.Confidence = tc.confidence
		if got := r.PodsToPass(tc.k); got != tc.want {
			t.Errorf("%v with %d failures: %d Pods, want %d", tc.confidence, tc.k, got, tc.want)
		}
		if r.PassAt(tc.want) != tc.k || r.PassAt(tc.want-1) != tc.k-1 {
			t.Errorf("%v: %d failures pass at %d and %d one before", tc.confidence, r.PassAt(tc.want), tc.want, r.PassAt(tc.want-1))
		}
	}
}

// TestRule holds the rule to its meaning, whatever its numbers are.
func TestRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rule{Target: rapid.Float64Range(0.9, 0.9999).Draw(t, "target"), FalseFail: rapid.Float64Range(0.001, 0.1).Draw(t, "false fail"), Confidence: rapid.Float64Range(0.9, 0.99).Draw(t, "confidence")}
		n := rapid.IntRange(1, 5000).Draw(t, "n")
		fail, pass := r.FailAt(n), r.PassAt(n)
		switch {
		case 1-r.atMost(fail-1, n) >= r.FalseFail && fail <= n:
			t.Errorf("FAIL at %d is not rare", fail)
		case fail > 1 && 1-r.atMost(fail-2, n) < r.FalseFail:
			t.Errorf("FAIL at %d would do", fail-1)
		case pass >= fail:
			t.Errorf("%d failures of %d are PASS and FAIL", pass, n)
		case fail > r.FailAt(n+1):
			t.Errorf("FAIL takes fewer failures of more Pods: %d of %d", fail, n)
		}
		k := rapid.IntRange(0, n).Draw(t, "k")
		v := r.Judge(k, n)
		// The bound and the binomial say the same, but for the precision of the one.
		if math.Abs(v.LowerBound-r.Target) > 1e-9 && (v.LowerBound > r.Target) != (k <= pass) {
			t.Errorf("%d of %d: the bound is %v, and %d pass", k, n, v.LowerBound, pass)
		}
		if !(v.LowerBound <= v.Rate+1e-12 && v.Rate <= v.UpperBound+1e-12) {
			t.Errorf("%v is not between %v and %v", v.Rate, v.LowerBound, v.UpperBound)
		}
	})
}

func TestJudge(t *testing.T) {
	sample := DefaultRule()
	sample.Sample = 500
	for _, tc := range []struct {
		rule        Rule
		k, n        int
		want, why   string
		lowerBounds float64
	}{
		{DefaultRule(), 0, 0, "INCONCLUSIVE", "no Pod was judged in the window", 0},
		{DefaultRule(), 1, 200, "INCONCLUSIVE", "4542 Pods more without a failure would be a PASS, 2 failures more now a FAIL", 0.97650},
		{DefaultRule(), 0, 200, "INCONCLUSIVE", "2795 Pods more without a failure would be a PASS, 3 failures more now a FAIL", 0.98513},
		{DefaultRule(), 3, 200, "FAIL", "3 or more failures of 200 Pods are seen in less than 1 % of windows where 99.9 % is met", 0.96169},
		{DefaultRule(), 5, 5, "FAIL", "1 or more failures of 5 Pods are seen in less than 1 % of windows where 99.9 % is met", 0},
		{DefaultRule(), 0, 2995, "PASS", "the rate is at least 99.9 % with 95 % confidence", 0.99900},
		{sample, 1, 500, "PASS", "consistent with 99.9 %, n=500; not proven", 0.99055},
		{sample, 4, 500, "FAIL", "4 or more failures of 500 Pods are seen in less than 1 % of windows where 99.9 % is met", 0.98179},
	} {
		v := tc.rule.Judge(tc.k, tc.n)
		if v.Answer.String() != tc.want || v.Why != tc.why || math.Abs(v.LowerBound-tc.lowerBounds) > 5e-6 {
			t.Errorf("%d of %d: %v, %s, %.5f", tc.k, tc.n, v.Answer, v.Why, v.LowerBound)
		}
	}
}

// TestCovered: too little of a window takes a PASS away, and nothing else.
func TestCovered(t *testing.T) {
	for _, tc := range []struct {
		is           Answer
		share, least float64
		want         Answer
		why          string
	}{
		{Pass, 1, 0.9, Pass, ""}, {Pass, 0.9, 0.9, Pass, ""}, {Pass, 0, 0, Pass, ""}, {Fail, 0, 0.9, Fail, ""}, {Inconclusive, 0, 0.9, Inconclusive, ""},
		{Pass, 0.5, 0.9, Inconclusive, "50 % of the window was counted, and a PASS takes 90 %"},
	} {
		v := Verdict{Answer: tc.is, Proven: tc.is == Pass}.Covered(tc.share, tc.least)
		if v.Answer != tc.want || v.Proven != (tc.want == Pass) || v.Why != tc.why {
			t.Errorf("%v of %v and %v: %+v", tc.is, tc.share, tc.least, v)
		}
	}
}

func TestWorse(t *testing.T) {
	for _, tc := range []struct {
		k1, n1, k2, n2 int
		want           float64
	}{
		{0, 0, 3, 100, 1}, {0, 100, 0, 100, 1}, {3, 100, 3, 100, 0.65864}, {0, 100, 5, 100, 0.02969}, {5, 100, 0, 100, 1}, {1, 10, 9, 10, 0.00055}, {1, 1, 1, 1, 1},
	} {
		if got := Worse(tc.k1, tc.n1, tc.k2, tc.n2); math.Abs(got-tc.want) > 5e-6 {
			t.Errorf("%d/%d and then %d/%d: %.5f, want %.5f", tc.k1, tc.n1, tc.k2, tc.n2, got, tc.want)
		}
	}
}

func TestBadRules(t *testing.T) {
	for _, r := range []Rule{{}, {Target: 1, FalseFail: 0.01, Confidence: 0.95}, {Target: 0.999, FalseFail: 0, Confidence: 0.95}, {Target: 0.999, FalseFail: 0.01, Confidence: 1}, {Target: math.NaN(), FalseFail: 0.01, Confidence: 0.95}, {Target: 0.999, FalseFail: 0.01, Confidence: 0.95, Sample: -1}} {
		if r.Validate() == nil {
			t.Errorf("%+v is taken", r)
		}
	}
	if err := DefaultRule().Validate(); err != nil {
		t.Error(err)
	}
}

// TestPlan: waiting ends when it is useless, and not before.
func TestPlan(t *testing.T) {
	p := NewPlan(DefaultRule(), 0)
	for _, tc := range []struct {
		failures, pods int
		want           bool
	}{{0, 0, false}, {0, 2994, false}, {0, 2995, true}, {1, 10, false}, {8, 100, false}, {9, 9, true}, {8, 2995, true}} {
		if got := p.Done(tc.failures, tc.pods); got != tc.want {
			t.Errorf("%d of %d: %v", tc.failures, tc.pods, got)
		}
	}
}
