package sandbox_test

import (
	"fmt"
	"testing"

	"github.com/samepod/samepod/identity/sandbox"
)

// TestAudit: who holds what the engine publishes, one sandbox a line.
func TestAudit(t *testing.T) {
	const x = "10.0.0.1"
	own, stranger := pod("a-0", x, ownedBy("a")), pod("b-0", x, ownedBy("b"))
	for _, tc := range []struct {
		rule  string
		want  string // "" for nothing published
		world []any
	}{
		{"its own", "own ns/a-0", []any{box("a", publishes(x)), own}},
		{"nothing is published", "", []any{box("a"), own}},
		{"nobody's", "dead /", []any{box("a", publishes(x))}},
		{"its own, which has ended", "dead /", []any{box("a", publishes(x)), pod("a-0", x, ownedBy("a"), failed)}},
		{"its own, which leaves", "dead /", []any{box("a", publishes(x)), pod("a-0", x, ownedBy("a"), terminating)}},
		{"a stranger's", "reassigned ns/b-0", []any{box("a", publishes(x)), stranger}},
		{"a stranger's, after its own has ended", "reassigned ns/b-0", []any{box("a", publishes(x)), pod("a-0", x, ownedBy("a"), failed), stranger}},
		{"both", "shared ns/b-0", []any{box("a", publishes(x)), own, stranger}},
		{"the Pod of a sandbox that had the name before", "reassigned ns/a-0", []any{box("a", uid("S-new"), publishes(x)), own}},
		{"a Pod's elsewhere that calls it its owner", "reassigned other/e", []any{box("a", publishes(x)), pod("e", x, ownedBy("a"), podElsewhere)}},
		{"no address", "unreadable /", []any{box("a", publishes("")), own}},
		{"of a Pool", "own ns/p-1", []any{box("a", publishes(x), pooled("del", "p-1")), pod("p-1", x, ofPool("del"))}},
		{"of a Pool, taken away", "reassigned ns/p-1", []any{box("a", publishes(x), pooled("del"), released), pod("p-1", x, ofPool("del"))}},
		{"of a Pool, and of another sandbox too", "shared ns/p-1", []any{box("a", publishes(x), pooled("del", "p-1")), box("b", pooled("del", "p-1")), pod("p-1", x, ofPool("del"))}},
		{"of another Pool", "reassigned ns/p-1", []any{box("a", publishes(x), pooled("noop", "p-1")), pod("p-1", x, ofPool("del"))}},
		{"one of two", "dead / own ns/a-0", []any{box("a", publishes(x, "10.0.0.9")), own}},
		{"the worst first", "reassigned ns/b-0 dead /", []any{box("a", publishes("10.0.0.9", x)), stranger}},
	} {
		got := ""
		for _, r := range newWorld(engine(), tc.world...).index.Audit() {
			if got != "" {
				got += " "
			}
			got += fmt.Sprint(r.Hold, " ", r.Holder.NamespacedName)
		}
		check(t, tc.rule, got, tc.want)
	}
	check(t, "a state that is none", sandbox.Hold(9).String(), "Hold(9)")
}
