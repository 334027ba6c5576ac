package node

import (
	"os"
	"strings"
	"testing"
)

// message is a line of a corpus: what it is, and where it was public.
type message struct{ class, text, source string }

func corpus(t testing.TB, file string) []message {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all []message
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if len(cells) != 3 {
			t.Fatalf("%s: %d cells: %s", file, len(cells), line)
		}
		all = append(all, message{cells[0], cells[1], cells[2]})
	}
	return all
}

// TestCorpus: every message that the signatures were written with is of its class.
func TestCorpus(t *testing.T) {
	for file, want := range map[string]int{"corpus.tsv": 46, "public.tsv": 51} {
		all := corpus(t, file)
		if len(all) < want {
			t.Errorf("%s: %d messages", file, len(all))
		}
		for _, m := range all {
			if got := Classify([]byte(m.text)); got.Class != m.class {
				t.Errorf("%s: %s, want %s: %s", file, got.Class, m.class, m.text)
			}
		}
	}
}

// TestHeldOut says how well messages are classified that no signature was written
// with. The floor keeps it from getting worse; what is wrong is not to be tuned away.
func TestHeldOut(t *testing.T) {
	right, invented, all := 0, 0, corpus(t, "heldout.tsv")
	for _, m := range all {
		switch got := Classify([]byte(m.text)); {
		case got.Class == m.class:
			right++
		case got.Known():
			invented++
		}
	}
	t.Logf("of %d messages %d are right, %d unknown where a person knows, %d of another class", len(all), right, len(all)-right-invented, invented)
	if right*100 < 80*len(all) || invented*100 > 5*len(all) {
		t.Errorf("%d of %d are right, %d of another class", right, len(all), invented)
	}
}
