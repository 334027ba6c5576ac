package lab_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/samepod/samepod/renewal"
)

// TestRenewServer: the consumer of OpenSandbox's server renews by what is published.
func TestRenewServer(t *testing.T) {
	t.Parallel()
	python := enginePython(t)
	l := newLab(t)
	r := must(l.StartRedis(t.Context(), "redis", redisPassword))(t)
	url := "redis://:" + redisPassword + "@" + r.Addr.String()
	consumer := must(l.Start("consumer", python, filepath.Join("testdata", "renew", "consumer.py"), url, "300"))(t)
	said := func() []string { return strings.Split(string(must(os.ReadFile(consumer.Out))(t)), "\n") }
	eventually(t, "the consumer starts", func() bool { return slices.Contains(said(), "ready") || !consumer.Alive() })

	to := must(renewal.NewRedis(renewal.RedisConfig{URL: url, Queue: renewal.DefaultQueue}))(t)
	defer to.Close()
	p := renewal.NewPublisher(to.Push, time.Minute, slog.New(slog.DiscardHandler), renewal.NewMetrics(prometheus.NewRegistry()))
	go p.Run(t.Context())
	observed := time.Now()
	for _, id := range []string{"6f9619ff-8b86", "old", "last"} {
		at := observed
		if id == "old" {
			at = observed.Add(-6 * time.Minute)
		}
		p.Publish(renewal.Intent{Sandbox: renewal.Sandbox{Namespace: "sandboxes", ID: id}, Port: 44772, ObservedAt: at})
	}
	renewed := func(id string) bool {
		return slices.Contains(said(), fmt.Sprintf(`{"id": %q, "namespace": "sandboxes", "seconds": 300}`, id))
	}
	eventually(t, "the server renews", func() bool { return renewed("6f9619ff-8b86") && renewed("last") })
	if renewed("old") {
		t.Error("the server renews by what was seen six minutes ago: it may be kept longer")
	}
}

// enginePython is a Python with OpenSandbox's server, where there is one: go run
// ./lab/install engines makes it.
func enginePython(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("SAMEPOD_ENGINE_PYTHON"); path != "" {
		return path
	}
	found, err := filepath.Glob("../.cache/engines-python-*/bin/python")
	if err != nil || len(found) == 0 {
		t.Skip("no OpenSandbox server; go run ./lab/install engines")
	}
	return found[0]
}
