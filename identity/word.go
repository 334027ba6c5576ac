package identity

import "time"

// Word is how good what a source said still is. Its owner guards it: whoever keeps
// the content that the word is about locks both at once.
type Word struct {
	name, proof string
	bound       time.Duration
	synced      bool
	seen        time.Time
	lists       int
	fault       string
}

// NewWord is the word of a source that has not spoken yet. The name and proof (how
// freshness is known, such as "passive") are for people; a word older than bound is
// [Stale].
func NewWord(name, proof string, bound time.Duration) Word {
	return Word{name: name, proof: proof, bound: bound}
}

// Listed says that the whole content was delivered. It was asked for at asOf, not later.
func (w *Word) Listed(asOf time.Time) {
	w.Renew(asOf)
	w.lists++
	w.synced = true
}

// Renew says that the word was good at this time. It never moves back, and clears the
// fault.
func (w *Word) Renew(at time.Time) {
	if at.After(w.seen) {
		w.seen = at
	}
	w.fault = ""
}

// Fail says what is wrong with the source, for readiness, and reports whether that is
// news. It does not make anything stale by itself; the age does.
func (w *Word) Fail(err error) (news bool) {
	news = w.fault != err.Error()
	w.fault = err.Error()
	return news
}

// Status is what the word is worth at this time.
func (w *Word) Status(now time.Time) FeedStatus {
	s := FeedStatus{Name: w.name, Proof: w.proof, Bound: w.bound, Lists: w.lists, Fault: w.fault}
	if !w.synced {
		return s
	}
	s.Age = Age(w.seen, now)
	s.Freshness = Fresh
	if s.Age > w.bound {
		s.Freshness = Stale
	}
	return s
}

// Worse reports whether a verdict that reads both sources is bound by s rather than
// by other: it may be believed less, or as much and is older.
func (s FeedStatus) Worse(other FeedStatus) bool {
	return s.Freshness < other.Freshness || s.Freshness == other.Freshness && s.Age > other.Age
}
