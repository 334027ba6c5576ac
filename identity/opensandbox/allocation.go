package opensandbox

import (
	"encoding/json"
	"slices"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// allocation is what the annotations alloc-status, alloc-release and alloc-released
// have in common. Only the first has a poolRef, from 2026-08 on.
type allocation struct {
	Pods    []string `json:"pods"`
	PoolRef string   `json:"poolRef"`
}

// allocate reads which Pods of a Pool a sandbox has.
//
// A name that was given is never taken out of alloc-status while the sandbox lives: what
// it has is what it was given, without what it asked to give back (alloc-release) and
// what was taken back (alloc-released). After a pause a sandbox has no Pool, and
// alloc-status stays behind with a Pod that another may have by now; and after an edit
// of spec.poolRef it names Pods of the former Pool.
func allocate(o sandbox.Object, s *sandbox.Sandbox) {
	s.Pool = sandbox.Field[string](o, "spec", "poolRef")
	switch s.Pool {
	case "":
		return
	case anyPool:
		s.Unassigned = true
		return
	}
	given := pods(o, s.Namespace, annotationAllocStatus)
	gone := map[string]bool{}
	for _, pod := range slices.Concat(pods(o, s.Namespace, annotationRelease).Pods, pods(o, s.Namespace, annotationReleased).Pods) {
		gone[pod] = true
	}
	seen := map[string]bool{}
	for _, pod := range given.Pods {
		switch {
		case gone[pod], given.PoolRef != "" && given.PoolRef != s.Pool:
			s.Released = true
		case !seen[pod]:
			seen[pod] = true
			s.Pods = append(s.Pods, pod)
		}
	}
}

// pods reads one of the annotations as the controller does, which takes a missing and an
// empty one for none.
func pods(o sandbox.Object, namespace, key string) allocation {
	path := []string{"metadata", "annotations", key}
	text := sandbox.Field[string](o, path...)
	if text == "" {
		return allocation{}
	}
	var a allocation
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		o.Note(err, text, path...)
		return allocation{}
	}
	for _, pod := range a.Pods {
		_, err := identity.NewNamespacedName(namespace, pod)
		o.Note(err, pod, path...)
	}
	return a
}
