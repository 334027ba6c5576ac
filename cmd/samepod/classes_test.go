package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/samepod/samepod/creation"
	"github.com/samepod/samepod/node"
)

// TestClasses: the label of a metric and the class that the doctor and explain-start
// name are the same for the same message, as far as the SLI knows the class. Their
// tables are two, since neither package knows the other.
func TestClasses(t *testing.T) {
	var labels []string
	for _, c := range creation.Causes() {
		labels = append(labels, c.String())
	}
	for _, corpus := range []string{"corpus.tsv", "public.tsv", "heldout.tsv"} {
		text, err := os.ReadFile("../../node/testdata/" + corpus)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(line, "\t")
			if strings.HasPrefix(line, "#") || len(cells) < 3 {
				continue
			}
			class, label := node.Classify([]byte(cells[1])).Class, creation.ParseCause(cells[1]).String()
			if slices.Contains(labels, class) && class != label {
				t.Errorf("%s, and the label is %s: %s", class, label, cells[1])
			}
		}
	}
}
