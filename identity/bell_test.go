package identity_test

import (
	"testing"
	"time"

	"github.com/samepod/samepod/identity"
)

// TestBell: every write wakes who asked before it, and nobody twice.
func TestBell(t *testing.T) {
	index := indexOf()
	feed := index.NewFeed("more", "told", time.Hour)
	for rule, write := range map[string]func(){
		"a list":    func() { feed.Replace(nil, time.Now()) },
		"an update": func() { feed.Apply(pod("b", "B", running, y), time.Now()) },
		"a delete":  func() { feed.Delete(name("b"), "B", time.Now()) },
		"a ring":    index.Ring,
	} {
		before, same := index.Changed(), index.Changed()
		write()
		after := index.Changed()
		if !closed(before) || !closed(same) || closed(after) {
			t.Errorf("%s: who waits wakes %v and %v, who comes later %v", rule, closed(before), closed(same), closed(after))
		}
	}
	var quiet identity.Bell
	quiet.Ring() // nobody waits
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
