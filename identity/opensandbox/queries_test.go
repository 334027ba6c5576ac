package opensandbox_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/opensandbox"
	"github.com/samepod/samepod/identity/sandbox"
)

// TestQueries: what is asked is exactly what may be meant, and no claim writes a
// selector of its own.
func TestQueries(t *testing.T) {
	type q = sandbox.Query
	label := func(id string) q { return q{Label: "opensandbox.io/id", Value: id} }
	for _, tc := range []struct {
		id   string
		want []q
	}{
		{"a", []q{{Name: "a"}, {Name: "sandbox-a"}, label("a")}},
		{"sandbox-a", []q{{Name: "sandbox-a"}, {Name: "sandbox-sandbox-a"}, label("sandbox-a")}},
		{"A_b", []q{label("A_b")}}, // no name of an object
		{strings.Repeat("a", 64), []q{{Name: strings.Repeat("a", 64)}, {Name: "sandbox-" + strings.Repeat("a", 64)}}},
		{"a,b", nil},
		{"a in (b)", nil},
		{"", nil},
	} {
		if got := opensandbox.Queries(identity.Claim{Sandbox: tc.id}); !slices.Equal(got, tc.want) {
			t.Errorf("%q: %v, want %v", tc.id, got, tc.want)
		}
	}
}
