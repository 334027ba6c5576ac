package sandbox_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// model is the index without any index: all sandboxes, and every question answered by
// looking at each of them.
type model map[identity.NamespacedName]sandbox.Sandbox

// target says what a claim on n means, as far as sandboxes alone tell.
func (m model) target(n, pool string) string {
	var found []sandbox.Sandbox
	for _, s := range m {
		if s.Namespace != "kube-system" && (s.Name == n || slices.Contains(s.Names, n)) {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 0:
		return fmt.Sprint(identity.SandboxUnknown, "")
	case len(found) > 1:
		return fmt.Sprint(identity.SandboxAmbiguous, "")
	}
	s := found[0]
	state := identity.Bound
	switch {
	case s.Deleting:
		state = identity.SandboxGone
	case s.Suspended:
		state = identity.SandboxSuspended
	case s.Pool == "", len(s.Pods) == 0 && !s.Released:
		state = identity.NotAssigned // there are no Pods that a sandbox owns in this world
	case len(s.Pods) == 0:
		state = identity.Releasing
	case len(s.Pods) > 1:
		state = identity.SandboxAmbiguous
	case m.shared(s):
		state = identity.PodShared
	case s.Pool != pool && s.Namespace == "ns": // where the Pods are
		state = identity.PodForeign
	}
	return fmt.Sprint(state, s.UID)
}

func (m model) shared(s sandbox.Sandbox) bool {
	for _, other := range m {
		if other.UID != s.UID && other.Namespace == s.Namespace && other.Pool != "" && !other.Deleting && slices.Contains(other.Pods, s.Pods[0]) {
			return true
		}
	}
	return false
}

// TestModel drives the index and the model through the same writes.
func TestModel(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(engine(), pod("p-1", "10.0.0.1", ofPool("del")), pod("p-2", "10.0.0.2", ofPool("del")))
		m := model{}
		uids := 0
		draw := func(t *rapid.T, n identity.NamespacedName) sandbox.Sandbox {
			u := m[n].UID
			if u == "" || rapid.IntRange(0, 4).Draw(t, "rebuilt") == 0 {
				uids++
				u = identity.UID(fmt.Sprint("S-", uids))
			}
			return sandbox.Sandbox{
				NamespacedName: n, UID: u, Kind: kind, Version: "1",
				Names:     rapid.SliceOfN(rapid.SampledFrom(names), 0, 1).Draw(t, "names"),
				Pool:      rapid.SampledFrom([]string{"", "del", "del", "noop"}).Draw(t, "pool"),
				Pods:      rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"p-1", "p-2"}), 0, 2, rapid.ID).Draw(t, "pods"),
				Released:  rapid.Bool().Draw(t, "released"),
				Deleting:  rapid.IntRange(0, 3).Draw(t, "deleting") == 0,
				Suspended: rapid.IntRange(0, 3).Draw(t, "suspended") == 0,
			}
		}
		drawName := func(t *rapid.T) identity.NamespacedName {
			return identity.NamespacedName{Namespace: rapid.SampledFrom([]string{"ns", "ns", "other", "kube-system"}).Draw(t, "namespace"), Name: rapid.SampledFrom(names).Draw(t, "name")}
		}
		t.Repeat(map[string]func(*rapid.T){
			"apply": func(t *rapid.T) {
				s := draw(t, drawName(t))
				w.boxes.Apply(s, time.Now())
				m[s.NamespacedName] = s
			},
			"delete": func(t *rapid.T) {
				n := drawName(t)
				late := rapid.Bool().Draw(t, "late")
				u := m[n].UID
				if late {
					u = "S-before"
				}
				w.boxes.Delete(n, u, time.Now())
				if !late {
					delete(m, n)
				}
			},
			"replace": func(t *rapid.T) {
				next := model{}
				var all []sandbox.Sandbox
				for range rapid.IntRange(0, 4).Draw(t, "n") {
					s := draw(t, drawName(t))
					if _, taken := next[s.NamespacedName]; !taken {
						next[s.NamespacedName] = s
						all = append(all, s)
					}
				}
				w.boxes.Replace(all, time.Now())
				m = next
			},
			"": func(t *rapid.T) {
				for _, n := range append(slices.Clone(names), "never") {
					got := w.index.Target(claim(n))
					if got, want := fmt.Sprint(got.State, got.SandboxUID), m.target(n, "del"); got != want {
						t.Fatalf("target of %s: %s, want %s\n%+v", n, got, want, m)
					}
				}
				if got := len(w.index.All()); got != len(m) {
					t.Fatalf("%d sandboxes, want %d", got, len(m))
				}
			},
		})
	})
}
