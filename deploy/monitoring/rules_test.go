package monitoring

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// program builds one of Prometheus' programs, without the discovery of a dozen clouds.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../.cache/bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-tags", "remove_all_sd", "-ldflags", "-s -w", "-o", path, "github.com/prometheus/prometheus/cmd/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestRules has promtool check the rules, and play rules_test.yaml to them.
func TestRules(t *testing.T) {
	promtool := program(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml", "alerts.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
