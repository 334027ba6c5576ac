package node

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
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
	doc, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	says := fmt.Sprintf("%d are right, %d are `unknown` though a person knows them, and %d of another class", right, len(all)-right-invented, invented)
	if !strings.Contains(string(doc), says) {
		t.Errorf("docs/doctor.md does not say: %s", says)
	}
	t.Logf("of %d messages %d are right, %d unknown where a person knows, %d of another class", len(all), right, len(all)-right-invented, invented)
	if right*100 < 80*len(all) || invented*100 > 5*len(all) {
		t.Errorf("%d of %d are right, %d of another class", right, len(all), invented)
	}
}

// TestSignatures: each is whole, there is one of a class, and one that has an
// example in a corpus has it matched by its own pattern alone.
func TestSignatures(t *testing.T) {
	seen := map[string]bool{}
	examples := slices.Concat(corpus(t, "corpus.tsv"), corpus(t, "public.tsv"))
	for _, s := range Signatures() {
		if seen[s.Class] || s.Class == UnknownClass || s.Meaning == "" || s.Remedy == "" || s.Source == "" || len(s.literals) == 0 {
			t.Errorf("%+v", s)
		}
		seen[s.Class] = true
		n := 0
		for _, m := range examples {
			if m.class == s.Class && s.pattern.MatchString(m.text) {
				n++
			}
		}
		if n == 0 {
			t.Errorf("%s has no example", s.Class)
		}
	}
	for _, m := range examples {
		if !seen[m.class] && m.class != UnknownClass {
			t.Errorf("%s is no class", m.class)
		}
	}
}

// TestLogRules: node-problem-detector takes the patterns, and they reach to the end
// of what it has read.
func TestLogRules(t *testing.T) {
	rules := LogRules().Rules
	for _, m := range corpus(t, "corpus.tsv") {
		s := Classify([]byte(m.text)).Signature
		if s.Kind != Cause {
			continue
		}
		i := slices.IndexFunc(rules, func(r LogRule) bool { return r.Reason == reasonOf(s.Class) })
		if i < 0 || !regexp.MustCompile(rules[i].Pattern+`\z`).MatchString("a line before\ntime=x msg=\""+m.text+"\"") {
			t.Errorf("%s: no rule, or it does not match: %s", s.Class, m.text)
		}
	}
	if reasonOf("runsc-boot-eof") != "RunscBootEof" {
		t.Error(reasonOf("runsc-boot-eof"))
	}
}

// FuzzClassify: no message breaks it, and looking for literals first hides nothing.
func FuzzClassify(f *testing.F) {
	for _, m := range slices.Concat(corpus(f, "corpus.tsv"), corpus(f, "public.tsv")) {
		f.Add([]byte(m.text))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		got := Classify(message)
		want := UnknownClass
		if i := slices.IndexFunc(signatures, func(s Signature) bool { return s.pattern.Match(message) }); i >= 0 {
			want = signatures[i].Class
		}
		if got.Class != want || got.Known() != (want != UnknownClass) {
			t.Fatalf("%s; without literals %s", got.Class, want)
		}
		for _, part := range got.Parts {
			if !utf8.ValidString(part) {
				t.Fatalf("%q", part)
			}
		}
	})
}
