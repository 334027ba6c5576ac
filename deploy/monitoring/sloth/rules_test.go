package sloth

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	sloth "github.com/slok/sloth/pkg/lib"
	"gopkg.in/yaml.v3"
)

var update = flag.Bool("update", false, "write rules.yaml")

const generated = "# Made of slo.yaml by go -C deploy/monitoring/sloth test -update.\n"

// rules are what sloth makes of slo.yaml, and a guard: where few Pods are made, one
// failure is a rate of any size, and nobody is to be woken for less than three.
func rules(t *testing.T) []byte {
	t.Helper()
	spec, err := os.ReadFile("../slo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	generator, err := sloth.NewPrometheusSLOGenerator(sloth.PrometheusSLOGeneratorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	slo, err := generator.GenerateFromRaw(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := generator.WriteResultAsPrometheusStd(t.Context(), *slo, &out); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string           `yaml:"name"`
			Rules []map[string]any `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(out.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	guarded := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			labels, _ := r["labels"].(map[string]any)
			window, ok := map[any]string{"page": "6h", "ticket": "3d"}[labels["sloth_severity"]]
			if r["alert"] == nil || !ok {
				continue
			}
			guarded++
			r["expr"] = "(\n" + strings.TrimSpace(r["expr"].(string)) + "\n)\nand on() sum(increase(samepod_pod_sandbox_creation_total{result=\"bad\"}[" + window + "])) > 2.5\n"
		}
	}
	if guarded != 2 {
		t.Fatalf("%d alerts in\n%s", guarded, &out)
	}
	var text bytes.Buffer
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	if err := e.Encode(file); err != nil {
		t.Fatal(err)
	}
	return append([]byte(generated), text.Bytes()...)
}

func TestGenerated(t *testing.T) {
	want := rules(t)
	if *update {
		if err := os.WriteFile("../rules.yaml", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("../rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("rules.yaml is not what slo.yaml says; go -C deploy/monitoring/sloth test -update")
	}
}
