package sandbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// confirm asks what "a" means, and then the API server.
func confirm(w *world) (identity.Target, error) {
	return w.index.Confirm(context.Background(), claim("a"), w.index.Target(claim("a")))
}

// TestConfirm: what the API server says in place of what was watched.
func TestConfirm(t *testing.T) {
	own, given := pod("a-0", "10.0.0.1", ownedBy("a")), pod("p-1", "10.0.0.1", ofPool("noop"))
	for _, tc := range []struct {
		rule    string
		watched []any
		serves  []any
		want    identity.TargetState
	}{
		{"a sandbox that nobody knows", nil, nil, identity.SandboxUnknown},
		{"a sandbox that the watch has not seen yet", []any{own}, []any{box("a")}, identity.Bound},
		{"the same name out of scope", []any{own}, []any{box("a", outOfScope)}, identity.SandboxUnknown},
		{"two that the watch has not seen yet", []any{own}, []any{box("a"), box("a", elsewhere, uid("S-x"))}, identity.SandboxAmbiguous},
		{"handed on without a trace", []any{box("a", pooled("noop", "p-1")), given}, []any{box("a", pooled("noop"), released, version("11"))}, identity.Releasing},
		{"still its own", []any{box("a", pooled("noop", "p-1")), given}, []any{box("a", pooled("noop", "p-1"))}, identity.Bound},
		{"not called so any more", []any{box("b", called("a"), pooled("noop", "p-1")), given}, []any{box("b", pooled("noop", "p-1"), version("11"))}, identity.SandboxGone},
		{"deleted", []any{box("a", pooled("noop", "p-1")), given}, nil, identity.SandboxGone},
		{"built again under its name", []any{box("a", pooled("noop", "p-1")), given}, []any{box("a", uid("S-new"), pooled("noop"), version("30"))}, identity.NotAssigned},
		{"claimed by somebody else by now", []any{box("a", pooled("noop", "p-1")), given, box("b", pooled("noop", "p-1"))}, []any{box("a", pooled("noop", "p-1"))}, identity.PodShared},
		{"an answer older than what was watched is dropped", []any{box("a", pooled("noop"), released, version("11")), given}, []any{box("a", pooled("noop", "p-1"), version("9"))}, identity.Releasing},
		{"versions are numbers", []any{box("a", pooled("noop"), released, version("100")), given}, []any{box("a", pooled("noop", "p-1"), version("99"))}, identity.Releasing},
	} {
		e := engine()
		e.Live = serve(tc.serves...)
		got, err := confirm(newWorld(e, tc.watched...))
		if got.State != tc.want || !got.Live || err != nil {
			t.Errorf("%s: %+v, %v, want state %d", tc.rule, got, err, tc.want)
		}
	}
}

var annotate = sandbox.PinPolicy{Enabled: true, Annotate: true}

// TestPinning: the pin is written before the first allow, of exactly what was read.
func TestPinning(t *testing.T) {
	own := pod("a-0", "10.0.0.1", ownedBy("a"))
	signed := annotate
	signed.Key = []byte("k")
	containers := annotate
	containers.Containers = true
	text := sandbox.Pin{Sandbox: "S-a", Pod: "P-a-0"}.Text(nil)
	notStarted := func(p *identity.Pod) { p.Container = "" }
	for _, tc := range []struct {
		rule   string
		policy sandbox.PinPolicy
		serves []any
		state  identity.TargetState
		pin    identity.PinState
		writes string // the pin that is written; "" for none
	}{
		{"first use", annotate, []any{box("a"), own}, identity.Bound, identity.PinHolds, text},
		{"with a key", signed, []any{box("a"), own}, identity.Bound, identity.PinHolds, sandbox.Pin{Sandbox: "S-a", Pod: "P-a-0"}.Text([]byte("k"))},
		{"with the container", containers, []any{box("a"), own}, identity.Bound, identity.PinHolds, sandbox.Pin{Sandbox: "S-a", Pod: "P-a-0", Container: "x://1"}.Text(nil)},
		{"its container has not started", containers, []any{box("a"), pod("a-0", "10.0.0.1", ownedBy("a"), notStarted)}, identity.NotAssigned, identity.PinWanted, ""},
		{"another replica has pinned the same", annotate, []any{box("a", pinned("P-a-0", 0), version("11")), own}, identity.Bound, identity.PinHolds, ""},
		{"another replica has pinned another", annotate, []any{box("a", pinned("P-new", 0), version("11")), own}, identity.Bound, identity.PinBroken, ""},
		{"suspended meanwhile", annotate, []any{box("a", suspended, version("11")), own}, identity.SandboxSuspended, identity.NoPins, ""},
		{"resumed meanwhile", annotate, []any{box("a", generation(3), version("11")), own}, identity.Bound, identity.PinHolds, sandbox.Pin{Sandbox: "S-a", Pod: "P-a-0", Generation: 3}.Text(nil)},
		{"the Pod is gone", annotate, []any{box("a")}, identity.NotAssigned, identity.PinWanted, ""},
		{"the Pod was built again", annotate, []any{box("a"), pod("a-0", "10.0.0.1", ownedBy("a"), podUID("P-new"))}, identity.NotAssigned, identity.PinWanted, ""},
		{"the Pod has ended", annotate, []any{box("a"), pod("a-0", "10.0.0.1", ownedBy("a"), failed)}, identity.NotAssigned, identity.PinWanted, ""},
		{"the Pod does not run yet", annotate, []any{box("a"), pod("a-0", "10.0.0.1", ownedBy("a"), pending)}, identity.NotAssigned, identity.PinWanted, ""},
		{"the Pod is being deleted", annotate, []any{box("a"), pod("a-0", "10.0.0.1", ownedBy("a"), terminating)}, identity.NotAssigned, identity.PinWanted, ""},
	} {
		e := engine()
		e.Pins = tc.policy
		api := serve(tc.serves...)
		api.key = tc.policy.Key
		e.Live = api
		got, err := confirm(newWorld(e, box("a"), own))
		if got.State != tc.state || got.Pin != tc.pin || err != nil {
			t.Errorf("%s: %+v, %v, want state %d, pin %d", tc.rule, got, err, tc.state, tc.pin)
		}
		wrote := ""
		if len(api.writes) > 0 {
			wrote = api.writes[0]
		}
		check(t, tc.rule+": writes", wrote, tc.writes)
	}
}

// TestPinRace: another replica is faster by a moment.
func TestPinRace(t *testing.T) {
	own := pod("a-0", "10.0.0.1", ownedBy("a"))
	for _, tc := range []struct {
		rule  string
		other sandbox.Sandbox
		want  identity.PinState
	}{
		{"and pins the same", box("a", pinned("P-a-0", 0), version("11")), identity.PinHolds},
		{"and pins another", box("a", pinned("P-new", 0), version("11")), identity.PinBroken},
	} {
		e := engine()
		e.Pins = annotate
		api := serve(box("a"), own)
		api.between = func() { api.boxes[name("a")] = tc.other }
		e.Live = api
		got, err := confirm(newWorld(e, box("a"), own))
		if got.Pin != tc.want || err != nil || len(api.writes) != 0 {
			t.Errorf("%s: %+v, %v, wrote %v", tc.rule, got, err, api.writes)
		}
	}
}

// TestConfirmFails: an answer that does not come is an error, and never an allow.
func TestConfirmFails(t *testing.T) {
	own := pod("a-0", "10.0.0.1", ownedBy("a"))
	down := errors.New("connection refused")
	required := annotate
	required.Required = true
	for _, tc := range []struct {
		rule   string
		policy sandbox.PinPolicy
		change func(*apiServer)
		want   error
	}{
		{"no answer", annotate, func(a *apiServer) { a.fail = down }, down},
		{"the pin is not written", annotate, func(a *apiServer) { a.refuse = down }, down},
		{"the pin must not be written, and is required", required, func(a *apiServer) { a.refuse = sandbox.ErrForbidden }, sandbox.ErrForbidden},
		{"somebody else writes all the time", annotate, func(a *apiServer) { a.refuse = sandbox.ErrConflict }, sandbox.ErrConflict},
	} {
		e := engine()
		e.Pins = tc.policy
		api := serve(box("a"), own)
		tc.change(api)
		e.Live = api
		got, err := confirm(newWorld(e, box("a"), own))
		if !errors.Is(err, tc.want) || got.Pin == identity.PinHolds {
			t.Errorf("%s: %+v, %v, want %v", tc.rule, got, err, tc.want)
		}
		if api.reads > 20 {
			t.Errorf("%s: %d reads", tc.rule, api.reads)
		}
	}
}

// TestPinsInMemory: without the permission pins are kept here, and said to be.
func TestPinsInMemory(t *testing.T) {
	own, rebuilt := pod("a-0", "10.0.0.1", ownedBy("a")), pod("a-0", "10.0.0.2", ownedBy("a"), podUID("P-new"))
	for _, tc := range []struct {
		rule   string
		policy sandbox.PinPolicy
	}{
		{"forbidden", annotate},
		{"not asked for", sandbox.PinPolicy{Enabled: true}},
	} {
		e := engine()
		e.Pins = tc.policy
		api := serve(box("a"), own)
		api.refuse = sandbox.ErrForbidden
		e.Live = api
		w := newWorld(e, box("a"), own)
		check(t, tc.rule+": in memory before", w.index.PinsInMemory(), false)
		got, err := confirm(w)
		if got.Pin != identity.PinHolds || err != nil {
			t.Errorf("%s: %+v, %v", tc.rule, got, err)
		}
		check(t, tc.rule+": in memory", w.index.PinsInMemory(), true)
		check(t, tc.rule+": the next check", w.index.Target(claim("a")).Pin, identity.PinHolds)
		w.apply(rebuilt)
		check(t, tc.rule+": rebuilt", w.index.Target(claim("a")).Pin, identity.PinBroken)
		w.apply(box("a", pinned("P-new", 0)))
		check(t, tc.rule+": the object's own pin goes before", w.index.Target(claim("a")).Pin, identity.PinHolds)
		w.apply(box("a", uid("S-new")), pod("a-0", "10.0.0.2", ownedBy("a"), podUID("P-new"), func(p *identity.Pod) { p.Owner.UID = "S-new" }))
		check(t, tc.rule+": another sandbox of the name", w.index.Target(claim("a")).Pin, identity.PinWanted)
	}
}

// TestPinsInMemoryInstead: a pin that is over stays on the object where it must not be
// written. The one in its place counts.
func TestPinsInMemoryInstead(t *testing.T) {
	over := box("a", pinned("P-old", 0), generation(3))
	e := engine()
	e.Pins = annotate
	api := serve(over, pod("a-0", "10.0.0.1", ownedBy("a")))
	api.refuse = sandbox.ErrForbidden
	e.Live = api
	w := newWorld(e, over, pod("a-0", "10.0.0.1", ownedBy("a")))
	if got, err := confirm(w); got.Pin != identity.PinHolds || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	check(t, "the next check", w.index.Target(claim("a")).Pin, identity.PinHolds)
	w.apply(pod("a-0", "10.0.0.2", ownedBy("a"), podUID("P-new")))
	check(t, "rebuilt", w.index.Target(claim("a")).Pin, identity.PinBroken)
	w.apply(box("a", pinned("P-new", 3), generation(3)))
	check(t, "pinned on the object after all", w.index.Target(claim("a")).Pin, identity.PinHolds)
}

// TestPinInMemoryRace: the Pod is rebuilt while it is pinned, and another check pins the
// new one first. That pin stays.
func TestPinInMemoryRace(t *testing.T) {
	own, rebuilt := pod("a-0", "10.0.0.1", ownedBy("a")), pod("a-0", "10.0.0.2", ownedBy("a"), podUID("P-new"))
	e := engine()
	e.Pins = annotate
	api := serve(box("a"), own)
	api.refuse = sandbox.ErrForbidden
	e.Live = api
	w := newWorld(e, box("a"), own)
	api.between = func() {
		api.between = nil
		api.pods[own.NamespacedName] = rebuilt
		w.apply(rebuilt)
		if got, err := confirm(w); got.Pin != identity.PinHolds || got.View.Pod.UID != "P-new" || err != nil {
			t.Errorf("the faster one: %+v, %v", got, err)
		}
	}
	if got, err := confirm(w); got.Pin != identity.PinHolds || got.View.Pod.UID != "P-new" || err != nil {
		t.Errorf("the slower one: %+v, %v", got, err)
	}
	check(t, "afterwards", w.index.Target(claim("a")).Pin, identity.PinHolds)
}

// TestBusy: names that anybody can make up cannot make the API server busy.
func TestBusy(t *testing.T) {
	e := engine()
	api := serve()
	e.Live = api
	w := newWorld(e)
	busy := 0
	for range 1_000 {
		if _, err := confirm(w); errors.Is(err, sandbox.ErrBusy) {
			busy++
		}
	}
	if busy == 0 || api.reads == 0 || api.reads > 500 {
		t.Errorf("%d of 1000 are refused, %d reads", busy, api.reads)
	}
}
