package gate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// regions are a rule's lines up to a number of Pods, so that a simulation only looks
// them up.
type regions struct{ failAt, passAt []int }

func regionsOf(r Rule, pods int) regions {
	var g regions
	for n := range pods + 1 {
		g.failAt, g.passAt = append(g.failAt, r.FailAt(n)), append(g.passAt, r.PassAt(n))
	}
	return g
}

func (g regions) answer(k, n int) Answer {
	switch {
	case k >= g.failAt[n]:
		return Fail
	case k <= g.passAt[n]:
		return Pass
	}
	return Inconclusive
}

const (
	simulations = 10_000
	batch       = 20 // Pods between two looks
)

// failuresOf is how often at most so many of a batch fail.
func failuresOf(rate float64) (atMost [batch + 1]float64) {
	for k := range atMost {
		atMost[k] = distuv.Binomial{N: batch, P: 1 - rate}.CDF(float64(k))
	}
	return atMost
}

// run is one rollout: Pods come in batches until the plan is done, or for as long as
// a deployment makes Pods. peek is a gate as it must not be: it answers as soon as it can.
func run(random *rand.Rand, g regions, p Plan, failed [batch + 1]float64, atMost int, peek bool) Answer {
	failures, pods := 0, 0
	for pods < atMost && !p.Done(failures, pods) {
		u, k := random.Float64(), 0
		for k < batch && u > failed[k] {
			k++
		}
		failures += k
		pods += batch
		if a := g.answer(failures, pods); peek && a != Inconclusive {
			return a
		}
	}
	return g.answer(failures, pods)
}

// TestSimulation is how often the gate is wrong, and how often it says anything, over
// 10 000 rollouts of each kind. docs/creation.md has its table.
func TestSimulation(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := DefaultRule()
	g := regionsOf(r, 3000)
	for _, pods := range []int{200, 1000, 3000} {
		for _, tc := range []struct {
			rate                  float64
			mostFail, atLeastFail float64
			mostPass              float64
		}{
			{0.9999, 0.01, 0, 1}, {0.9995, 0.01, 0, 1},
			{0.999, 0.01, 0, 0.05}, // just met: a false FAIL
			{0.998, 1, 0, 0.05}, {0.995, 1, map[int]float64{200: 0.05, 1000: 0.5, 3000: 0.95}[pods], 0.05},
			{0.98, 1, map[int]float64{200: 0.7, 1000: 0.99, 3000: 0.99}[pods], 0.01}, {0, 1, 1, 0},
		} {
			p := NewPlan(r, pods)
			var answers [3]float64
			failed := failuresOf(tc.rate)
			for range simulations {
				answers[run(random, g, p, failed, pods, false)] += 1.0 / simulations
			}
			line := fmt.Sprintf("%4d Pods, true rate %7.4g %%: PASS %5.1f %%, FAIL %5.1f %%, INCONCLUSIVE %5.1f %%", pods, 100*tc.rate, 100*answers[Pass], 100*answers[Fail], 100*answers[Inconclusive])
			t.Log(line)
			// Three deviations of 10 000 runs at 1 % are 0.3 %.
			if answers[Fail] > tc.mostFail+0.003 || answers[Fail] < tc.atLeastFail-0.003 || answers[Pass] > tc.mostPass+0.007 {
				t.Error(line)
			}
		}
	}
}

// TestPeeking is why a plan is made: who looks every 20 Pods and takes the first
// answer is wrong far more often than in one of a hundred.
func TestPeeking(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	r := DefaultRule()
	g, p := regionsOf(r, 3000), NewPlan(r, 3000)
	fails, failed := map[bool]int{}, failuresOf(r.Target)
	for _, peek := range []bool{false, true} {
		for range simulations {
			if run(random, g, p, failed, 3000, peek) == Fail {
				fails[peek]++
			}
		}
	}
	t.Logf("at the target: %d false FAILs of %d with a plan, %d without", fails[false], simulations, fails[true])
	if fails[false] > simulations/100+30 || fails[true] < 2*simulations/100 {
		t.Errorf("%v", fails)
	}
}
