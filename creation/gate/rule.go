// Package gate says whether a number of Pods and a number of failures among them
// agree with a target, such as 99.9 %, or contradict it, or tell neither.
//
// The third answer is the usual one: at 99.9 % one failure of 200 Pods is no sign of
// anything (it happens in one window of six where all is well), and no failure in 200 is no proof
// of anything either. So an answer is FAIL if this many failures would be rare
// although the target is met, PASS if this few would be rare although it is missed,
// and INCONCLUSIVE otherwise. "Rare" is exact, by the binomial distribution.
package gate

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Rule is what is asked of a number of Pods.
type Rule struct {
	// Target is the rate that is promised, such as 0.999.
	Target float64
	// FalseFail is how often FAIL may be said where the target is just met.
	FalseFail float64
	// Confidence is that of PASS: how often INCONCLUSIVE or FAIL is said where the
	// target is just missed.
	Confidence float64
	// Sample is from how many Pods on PASS is also said where nothing contradicts the
	// target, without proof. Zero for never.
	Sample int
}

// DefaultRule is 99.9 %, with at most one false FAIL of a hundred, and PASS with 95 %.
func DefaultRule() Rule { return Rule{Target: 0.999, FalseFail: 0.01, Confidence: 0.95} }

// Validate names the field that is wrong, and what is allowed.
func (r Rule) Validate() error {
	var errs []error
	// One minus the target divides: nearer to one than this, a proof takes 30 million Pods.
	if !(r.Target >= 0.5 && r.Target <= 0.9999999) {
		errs = append(errs, fmt.Errorf("target: %v; allowed: 0.5 to 0.9999999", r.Target))
	}
	if !(r.FalseFail >= 1e-6 && r.FalseFail <= 0.2) {
		errs = append(errs, fmt.Errorf("false-fail: %v; allowed: 0.000001 to 0.2", r.FalseFail))
	}
	if !(r.Confidence >= 0.8 && r.Confidence <= 0.999999) {
		errs = append(errs, fmt.Errorf("confidence: %v; allowed: 0.8 to 0.999999", r.Confidence))
	}
	if r.Sample < 0 {
		errs = append(errs, fmt.Errorf("min-sample: %d; allowed: 0 for none, or a number of Pods", r.Sample))
	}
	return errors.Join(errs...)
}

// atMost is the probability of at most k failures of n Pods where the target is just
// met.
func (r Rule) atMost(k, n int) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	}
	return distuv.Binomial{N: float64(n), P: 1 - r.Target}.CDF(float64(k))
}

// FailAt is the smallest number of failures of n Pods that is a FAIL: that, or more,
// is rarer than FalseFail although the target is met. It is n+1 where no number is.
func (r Rule) FailAt(n int) int {
	return first(0, n+1, func(k int) bool { return k > n || 1-r.atMost(k-1, n) < r.FalseFail })
}

// PassAt is the largest number of failures of n Pods that is proof, or -1 if none is:
// so few are rarer than 1-Confidence although the target is missed.
func (r Rule) PassAt(n int) int {
	return first(0, n+1, func(k int) bool { return k > n || r.atMost(k, n) > 1-r.Confidence }) - 1
}

// PodsToPass is the smallest number of Pods of which k failures are proof.
func (r Rule) PodsToPass(k int) int {
	most := k + 1
	for r.atMost(k, most) > 1-r.Confidence {
		most *= 2
	}
	return first(k+1, most, func(n int) bool { return r.atMost(k, n) <= 1-r.Confidence })
}

// LowerBound is the rate that is exceeded with the rule's confidence (Clopper and
// Pearson, one-sided). PASS is where it is at least the target.
func (r Rule) LowerBound(k, n int) float64 {
	if k >= n {
		return 0
	}
	return distuv.Beta{Alpha: float64(n - k), Beta: float64(k + 1)}.Quantile(1 - r.Confidence)
}

// UpperBound is the same from above.
func (r Rule) UpperBound(k, n int) float64 {
	if k == 0 || n == 0 {
		return 1
	}
	return distuv.Beta{Alpha: float64(n - k + 1), Beta: float64(k)}.Quantile(r.Confidence)
}

// first is the smallest number from low to high for which yes holds; it must hold
// for all above it, and for high.
func first(low, high int, yes func(int) bool) int {
	for low < high {
		if middle := low + (high-low)/2; yes(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// Worse is how often chance alone would put so many, or more, of all failures into
// the second of two groups of Pods (Fisher's exact test, one-sided). It is 1 where
// there is nothing to compare.
func Worse(failuresBefore, podsBefore, failures, pods int) float64 {
	all, n := failuresBefore+failures, podsBefore+pods
	if podsBefore == 0 || pods == 0 || all == 0 {
		return 1
	}
	whole := logChoose(n, all)
	p := 0.0
	for k := failures; k <= min(all, pods); k++ {
		if all-k <= podsBefore {
			p += math.Exp(logChoose(pods, k) + logChoose(podsBefore, all-k) - whole)
		}
	}
	return min(p, 1)
}

func logChoose(n, k int) float64 {
	factorial := func(n int) float64 { v, _ := math.Lgamma(float64(n) + 1); return v }
	return factorial(n) - factorial(k) - factorial(n-k)
}
