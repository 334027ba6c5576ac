package gate

import "fmt"

// Answer is one of three. The zero value is Inconclusive.
type Answer uint8

// The answers, whose exit codes are ExitCode's.
const (
	Inconclusive Answer = iota
	Pass
	Fail
)

func (a Answer) String() string {
	switch a {
	case Pass:
		return "PASS"
	case Fail:
		return "FAIL"
	case Inconclusive:
	}
	return "INCONCLUSIVE"
}

// MarshalText writes the answer as [Answer.String] does.
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// ExitCode is 0 for PASS, 1 for FAIL, and 2 for INCONCLUSIVE.
func (a Answer) ExitCode() int {
	switch a {
	case Pass:
		return 0
	case Fail:
		return 1
	case Inconclusive:
	}
	return 2
}

// Verdict is an answer with its reasons.
type Verdict struct {
	Answer   Answer  `json:"answer"`
	Pods     int     `json:"pods"`
	Failures int     `json:"failures"`
	Target   float64 `json:"target"`
	// Rate is what was seen; 0 of no Pods.
	Rate float64 `json:"rate"`
	// LowerBound and UpperBound are what the rate is, each with the rule's confidence.
	LowerBound float64 `json:"lowerBound"`
	UpperBound float64 `json:"upperBound"`
	Confidence float64 `json:"confidence"`
	// FailAt is how many failures of so many Pods are a FAIL.
	FailAt int `json:"failAt"`
	// PodsToPass is how many Pods would be proof if no more fail.
	PodsToPass int `json:"podsToPass"`
	// Proven says that PASS is proof, and not only the absence of a contradiction.
	Proven bool   `json:"proven"`
	Why    string `json:"why"`
}

// Judge answers for a number of failures among a number of Pods. It is to be asked
// once: whoever asks again and again until the answer is FAIL will get it. To wait,
// see [Plan].
func (r Rule) Judge(failures, pods int) Verdict {
	v := Verdict{
		Pods: pods, Failures: failures, Target: r.Target, LowerBound: r.LowerBound(failures, pods), UpperBound: r.UpperBound(failures, pods),
		Confidence: r.Confidence, FailAt: r.FailAt(pods), PodsToPass: r.PodsToPass(failures),
	}
	if pods > 0 {
		v.Rate = 1 - float64(failures)/float64(pods)
	}
	target := percent(r.Target)
	switch {
	case pods == 0:
		v.Why = "no Pod was judged in the window"
	case failures >= v.FailAt:
		v.Answer = Fail
		v.Why = fmt.Sprintf("%d or more failures of %d Pods are seen in less than %s of windows where %s is met", v.FailAt, pods, percent(r.FalseFail), target)
	case failures <= r.PassAt(pods):
		v.Answer, v.Proven = Pass, true
		v.Why = fmt.Sprintf("the rate is at least %s with %s confidence", percent(v.LowerBound), percent(r.Confidence))
	case r.Sample > 0 && pods >= r.Sample:
		v.Answer = Pass
		v.Why = fmt.Sprintf("consistent with %s, n=%d; not proven", target, pods)
	default:
		v.Why = fmt.Sprintf("%d Pods more without a failure would be a PASS, %d failures more now a FAIL", v.PodsToPass-pods, v.FailAt-failures)
	}
	return v
}

// Covered is the verdict where only a share of the window was counted, of which least
// is wanted. In the rest anything may have failed, so a PASS is none; failures that
// were seen stay what they are.
func (v Verdict) Covered(share, least float64) Verdict {
	if v.Answer == Pass && share < least {
		v.Answer, v.Proven = Inconclusive, false
		v.Why = fmt.Sprintf("%s of the window was counted, and a PASS takes %s", percent(share), percent(least))
	}
	return v
}

// Plan is a number of Pods to wait for. Fixing it before the first look is what makes
// waiting honest.
type Plan struct {
	Rule Rule
	Pods int
	// failAt is the rule's at the end of the plan: it cannot be undone by waiting.
	failAt int
}

// NewPlan plans for so many Pods; zero for as many as prove the target if none fails.
func NewPlan(r Rule, pods int) Plan {
	if pods == 0 {
		pods = r.PodsToPass(0)
	}
	return Plan{Rule: r, Pods: pods, failAt: r.FailAt(pods)}
}

// Done reports whether looking on is useless: all Pods of the plan are judged, or so
// many have failed that it would be a FAIL if no other did.
//
// That makes a false FAIL no more frequent than in one look at the end: whoever stops
// early has a number of failures that is also a FAIL there, and earlier, where a FAIL takes
// fewer.
func (p Plan) Done(failures, pods int) bool { return pods >= p.Pods || failures >= p.failAt }

// percent writes a rate so that 0.999 and 0.99949 differ.
func percent(rate float64) string {
	return fmt.Sprintf("%.6g %%", 100*rate)
}
