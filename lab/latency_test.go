package lab_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/samepod/samepod/lab"
)

// reportFile is where the suite leaves its figures for make test to show.
const reportFile = "../.cache/report.txt"

// TestDeleteToDenial measures how long a Pod that is deleted is still let through:
// from the API server's acknowledgement of the delete to the first 409 through
// Envoy. It fails only on what would be broken, never on a slow machine.
func TestDeleteToDenial(t *testing.T) {
	c := newCluster(t, must(binaries.plain())(t)) // without the race detector, as it runs
	c.startEnvoys(lab.NewestEnvoy())
	const rounds = 100
	var denied, allowed []time.Duration
	for i := range rounds {
		x := c.addrs.Take()
		s := c.create(fmt.Sprintf("p%d", i))
		s = c.start(s, x)
		acknowledged := time.Now()
		c.until("same-pod", s, x)
		allowed = append(allowed, time.Since(acknowledged))
		c.delete(s, false)
		acknowledged = time.Now()
		c.until("pod-gone", s, x)
		denied = append(denied, time.Since(acknowledged))
		s.Stop()
		c.addrs.Release(x)
	}
	report(t, fmt.Sprintf("delete acknowledged -> first 409 through Envoy %s: %s", lab.NewestEnvoy(), percentiles(denied)))
	report(t, fmt.Sprintf("status acknowledged -> first 200 through Envoy %s: %s", lab.NewestEnvoy(), percentiles(allowed)))
	log := must(c.product.WaitForAccessLog(t.Context(), c.requests))(t)
	if err := lab.CheckInvariant(log); err != nil {
		t.Error(err)
	}
}

func percentiles(all []time.Duration) string {
	slices.Sort(all)
	at := func(p int) time.Duration { return all[min(len(all)*p/100, len(all)-1)].Round(10 * time.Microsecond) }
	return fmt.Sprintf("p50 %v, p99 %v, max %v (n=%d)", at(50), at(99), at(100), len(all))
}

// report logs a figure and appends it to the report.
func report(t *testing.T, line string) {
	t.Helper()
	t.Log(line)
	f, err := os.OpenFile(reportFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}
