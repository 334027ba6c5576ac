package node

import (
	"bytes"
	"regexp"
	"strings"
)

// Kind is what a message tells of the failure.
type Kind string

const (
	// Cause is why it failed.
	Cause Kind = "cause"
	// Generic is that it failed; the cause stands in another log.
	Generic Kind = "generic"
	// Symptom is what follows from a failure that came first. It is never the cause.
	Symptom Kind = "symptom"
	// Later is a failure after the sandbox was there, or before it was asked for.
	Later Kind = "later"
)

// UnknownClass is the class of what no signature matches.
const UnknownClass = "unknown"

// Signature is a class of messages of kubelet, containerd, CRI-O, CNI plugins, runc
// and runsc. Its class never changes its meaning.
type Signature struct {
	Class   string
	Kind    Kind
	Meaning string
	Remedy  string
	// Source is where such a message is public.
	Source string

	// literals are what a message has at least one of, if the pattern matches. They
	// are looked for first: most lines of a log have none.
	literals [][]byte
	pattern  *regexp.Regexp
}

// Pattern is the regular expression, in RE2's syntax.
func (s *Signature) Pattern() string { return s.pattern.String() }

// Match is what a message was found to be.
type Match struct {
	Signature
	// Parts are the groups of the pattern: paths, names.
	Parts []string
}

// Known reports whether a signature matched.
func (m Match) Known() bool { return m.Class != UnknownClass }

// Classify returns the first signature that matches a message: causes stand before
// what follows from them. What none matches is [UnknownClass].
func Classify(message []byte) Match {
	for i := range signatures {
		s := &signatures[i]
		if !s.mayMatch(message) {
			continue
		}
		if groups := s.pattern.FindSubmatch(message); groups != nil {
			m := Match{Signature: *s}
			for _, g := range groups[1:] {
				m.Parts = append(m.Parts, strings.ToValidUTF8(string(g), "\uFFFD"))
			}
			return m
		}
	}
	return Match{Signature: Signature{Class: UnknownClass, Kind: Generic, Meaning: "No signature knows this message.", Remedy: "Read the logs of the node around it."}}
}

func (s *Signature) mayMatch(message []byte) bool {
	for _, l := range s.literals {
		if bytes.Contains(message, l) {
			return true
		}
	}
	return false
}

// Signatures are all of them, in the order in which they are tried.
func Signatures() []Signature { return append([]Signature(nil), signatures...) }

func signature(class string, kind Kind, literals, pattern, meaning, remedy, source string) Signature {
	return Signature{
		Class: class, Kind: kind, Meaning: meaning, Remedy: remedy, Source: source,
		literals: bytes.Split([]byte(literals), []byte("|")), pattern: regexp.MustCompile(strings.ReplaceAll(pattern, "~", `\\*"`)),
	}
}
