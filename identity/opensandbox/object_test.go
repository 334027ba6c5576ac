package opensandbox_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/opensandbox"
	"github.com/samepod/samepod/identity/sandbox"
)

// TestDecode changes a running BatchSandbox a line.
func TestDecode(t *testing.T) {
	type sb = sandbox.Sandbox
	pin := sandbox.Pin{Sandbox: "S-a", Pod: "U", Generation: 3}
	addrs := func(texts ...string) []netip.Addr {
		all := make([]netip.Addr, len(texts))
		for i, text := range texts {
			all[i], _ = netip.ParseAddr(text)
		}
		return all
	}
	suspended := func(s *sb) { s.Suspended = true }
	same := func(*sb) {}
	for _, tc := range []struct {
		rule string
		edit edit
		want func(*sb)
	}{
		{"running", both(), same},
		{"unknown fields are skipped", both(spec("new", []any{1}), status("new", "x"), meta("new", 1.5)), same},
		{"no status", set(nil, "status"), same},
		{"no spec", set(nil, "spec"), same},
		{"no labels", meta("labels", nil), same},

		{"an id that is not the name", label("opensandbox.io/id", "b"), func(s *sb) { s.Names = []string{"b"} }},
		{"a legacy name", both(meta("name", "sandbox-b"), uid("S-a"), label("opensandbox.io/id", "b")), func(s *sb) { s.Name, s.Names = "sandbox-b", []string{"b"} }},
		{"a legacy name without a label", both(meta("name", "sandbox-b"), meta("labels", nil)), func(s *sb) { s.Name, s.Names = "sandbox-b", []string{"b"} }},
		{"no legacy name", both(meta("name", "sandbox-b"), label("opensandbox.io/id", "c")), func(s *sb) { s.Name, s.Names = "sandbox-b", []string{"b", "c"} }},

		{"pooled", both(pooled("p"), given("p-1")), func(s *sb) { s.Pool, s.Pods = "p", []string{"p-1"} }},
		{"pooled, the new shape", both(pooled("p"), annotate(allocStatus, `{"pods":["p-1"],"poolRef":"p","generation":9}`)), func(s *sb) { s.Pool, s.Pods = "p", []string{"p-1"} }},
		{"pooled, of the Pool before", both(pooled("p"), annotate(allocStatus, `{"pods":["q-1"],"poolRef":"q","generation":9}`)), func(s *sb) { s.Pool, s.Released = "p", true }},
		{"pooled, given nothing", both(pooled("p"), given()), func(s *sb) { s.Pool = "p" }},
		{"pooled, an empty annotation", both(pooled("p"), annotate(allocStatus, "")), func(s *sb) { s.Pool = "p" }},
		{"pooled, null", both(pooled("p"), annotate(allocStatus, "null")), func(s *sb) { s.Pool = "p" }},
		{"pooled, twice the same", both(pooled("p"), given("p-1", "p-1")), func(s *sb) { s.Pool, s.Pods = "p", []string{"p-1"} }},
		{"pooled, to be released", both(pooled("p"), given("p-1"), alloc(allocRelease, []string{"p-1"})), func(s *sb) { s.Pool, s.Released = "p", true }},
		{"pooled, released", both(pooled("p"), given("p-1"), released("p-1")), func(s *sb) { s.Pool, s.Released = "p", true }},
		{"pooled, one of two released", both(pooled("p"), given("p-1", "p-2"), released("p-1")), func(s *sb) { s.Pool, s.Pods, s.Released = "p", []string{"p-2"}, true }},
		{"pooled, another released", both(pooled("p"), given("p-1"), released("p-0")), func(s *sb) { s.Pool, s.Pods = "p", []string{"p-1"} }},
		{"any Pool", both(pooled("*"), given("p-1")), func(s *sb) { s.Pool, s.Unassigned = "*", true }},
		{"leftovers of a Pool", given("p-1"), same},
		{"broken leftovers of a Pool", annotate(allocStatus, "{"), same},

		{"pausing", phase("Pausing"), suspended},
		{"paused", phase("Paused"), suspended},
		{"resuming", phase("Resuming"), func(s *sb) { s.Resuming = true }},
		{"resuming, to be paused", both(phase("Resuming"), spec("pause", true), generation(2, 1)), func(s *sb) { s.Resuming, s.Suspended = true, true }},
		{"to be paused", both(spec("pause", true), generation(2, 1)), suspended},
		{"to be paused, before any status", both(spec("pause", true), set(nil, "status")), suspended},
		{"the pause failed", both(spec("pause", true), generation(2, 2)), same},
		{"to be resumed", both(spec("pause", false), phase("Paused"), generation(3, 2)), suspended},
		{"resumed", both(spec("pause", false), generation(3, 3)), same},
		{"failed", phase("Failed"), func(s *sb) { s.Ended = true }},
		{"failed, to be paused", both(phase("Failed"), spec("pause", true), generation(2, 1)), func(s *sb) { s.Ended = true }},
		{"pending", phase("Pending"), same},
		{"a phase that is not known yet", phase("Migrating"), same},
		{"being deleted", deleting(), func(s *sb) { s.Deleting = true }},
		{"expires", expires("2026-01-02T03:04:05Z"), func(s *sb) { s.Expires = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }},

		{"resumed out of generation 3", image("main", "registry/x/a-main:snap-gen3"), func(s *sb) { s.Generation = 3 }},
		{"a registry with a port", image("main", "registry:5000/a-main:snap-gen3"), func(s *sb) { s.Generation = 3 }},
		{"renewed: no other Pod", generation(9, 9), same},
		{"a snapshot of another sandbox", image("main", "registry/b-main:snap-gen3"), same},
		{"a snapshot of another container", image("main", "registry/a-side:snap-gen3"), same},
		{"a public snapshot", image("main", "registry/a-main:snap-3"), same},
		{"a snapshot without a number", image("main", "registry/a-main:snap-genX"), same},

		{"addresses", publishes(`["10.0.0.1","fd00::1"]`), func(s *sb) { s.Published = addrs(x, v6) }},
		{"no addresses", publishes(`[]`), func(s *sb) { s.Published = []netip.Addr{} }},
		{"an empty annotation of addresses", publishes(``), same},
		{"null addresses", publishes(`null`), func(s *sb) { s.Published = []netip.Addr{} }},
		{"an empty address", publishes(`["","10.0.0.1"]`), func(s *sb) { s.Published = addrs("", x) }},
		{"an address with a space", publishes(`[" 10.0.0.1"]`), func(s *sb) { s.Published = addrs("") }},
		{"an address that is a number", publishes(`[1]`), func(s *sb) { s.Published = addrs("") }},
		{"an address with a zone", publishes(`["fe80::1%eth0"]`), func(s *sb) { s.Published = addrs("") }},
		{"a mapped address", publishes(`["::ffff:10.0.0.1"]`), func(s *sb) { s.Published = addrs(x) }},
		{"a name for an address", publishes(`["localhost"]`), func(s *sb) { s.Published = addrs("") }},
		{"addresses that are no JSON", publishes(`10.0.0.1`), func(s *sb) { s.Published = addrs("") }},

		{"a token", annotate(token, " t "), func(s *sb) { s.Token = "t" }},
		{"renews", annotate("opensandbox.io/access-renew-extend-seconds", "600"), func(s *sb) { s.Renew = true }},
		{"renews by nothing", annotate("opensandbox.io/access-renew-extend-seconds", " "), same},
		{"pinned", pinned(pin), func(s *sb) { s.Pin = pin }},
		{"pinned by nonsense", annotate(sandbox.PinAnnotation, "v2"), func(s *sb) { s.PinFault = "?" }},
		{"pinned by nothing", annotate(sandbox.PinAnnotation, ""), func(s *sb) { s.PinFault = "?" }},

		{"alloc-status is no JSON", both(pooled("p"), annotate(allocStatus, "p-1")), func(s *sb) { s.Pool, s.Malformed = "p", "metadata.annotations."+allocStatus }},
		{"alloc-status has numbers", both(pooled("p"), annotate(allocStatus, `{"pods":[1]}`)), func(s *sb) { s.Pool, s.Malformed = "p", "metadata.annotations."+allocStatus }},
		{"alloc-release is broken", both(pooled("p"), given("p-1"), annotate(allocRelease, `{"pods":["p-1"]`)), func(s *sb) {
			s.Pool, s.Pods, s.Malformed = "p", []string{"p-1"}, "metadata.annotations."+allocRelease
		}},
		{"alloc-released is broken", both(pooled("p"), given("p-1"), annotate(allocReleased, `[]`)), func(s *sb) {
			s.Pool, s.Pods, s.Malformed = "p", []string{"p-1"}, "metadata.annotations."+allocReleased
		}},
		{"a Pod of another namespace", both(pooled("p"), given("other/p-1")), func(s *sb) {
			s.Pool, s.Pods, s.Malformed = "p", []string{"other/p-1"}, "metadata.annotations."+allocStatus
		}},
		{"a poolRef that is no text", spec("poolRef", 1.5), func(s *sb) { s.Malformed = "spec.poolRef" }},
		{"a phase that is no text", status("phase", []any{}), func(s *sb) { s.Malformed = "status.phase" }},
		{"a pause that is no boolean", spec("pause", "true"), func(s *sb) { s.Malformed = "spec.pause" }},
		{"a time that is none", expires("tomorrow"), func(s *sb) { s.Malformed = "spec.expireTime" }},
		{"a generation that is none", meta("generation", 1.5), func(s *sb) { s.Malformed = "metadata.generation" }},
		{"no uid", uid(""), func(s *sb) { s.UID, s.Malformed = "", "metadata.uid" }},
		{"no namespace", inNamespace(""), func(s *sb) { s.Namespace, s.Malformed = "", "metadata.name" }},
		{"annotations that are a list", meta("annotations", []any{}), func(s *sb) { s.Malformed = "metadata.annotations" }},
		{"a token that is no text", annotate(token, true), func(s *sb) { s.Malformed = "metadata.annotations." + token }},
		{"a template that is a list", spec("template", []any{}), func(s *sb) { s.Malformed = "spec.template" }},
	} {
		want := sb{NamespacedName: identity.NamespacedName{Namespace: "ns", Name: "a"}, UID: "S-a", Version: "7", Kind: opensandbox.Kind}
		tc.want(&want)
		got := opensandbox.Decode(object("a", tc.edit), nil)
		// The texts of faults are for people: where they begin is enough.
		for _, fault := range []struct{ got, want *string }{{&got.Malformed, &want.Malformed}, {&got.PinFault, &want.PinFault}} {
			if *fault.want != "" && len(*fault.got) > len(*fault.want) && (*fault.want == "?" || (*fault.got)[:len(*fault.want)+1] == *fault.want+":") {
				*fault.got = *fault.want
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, identity.Secret(""))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.rule, diff)
		}
	}
}

// TestFaultsAreShort: whoever writes an object does not fill the log of each request for it.
func TestFaultsAreShort(t *testing.T) {
	long := strings.Repeat("X", 100_000)
	for _, edit := range []func(map[string]any){both(pooled("p"), given(long)), expires(long)} {
		if got := opensandbox.Decode(object("a", edit), nil).Malformed; got == "" || len(got) > 500 {
			t.Errorf("%d bytes: %.300s", len(got), got)
		}
	}
}

// TestDecodePinKey asks for the MAC where there is a key.
func TestDecodePinKey(t *testing.T) {
	pin, key := sandbox.Pin{Sandbox: "S-a", Pod: "U"}, []byte("key")
	if s := opensandbox.Decode(object("a", annotate(sandbox.PinAnnotation, pin.Text(key))), key); s.Pin != pin || s.PinFault != "" {
		t.Errorf("with its MAC: %v, %q", s.Pin, s.PinFault)
	}
	if s := opensandbox.Decode(object("a", pinned(pin)), key); s.Pin != (sandbox.Pin{}) || s.PinFault == "" {
		t.Errorf("without a MAC: %v, %q", s.Pin, s.PinFault)
	}
}

func TestDecodePool(t *testing.T) {
	for _, tc := range []struct {
		recycle any
		want    sandbox.Recycle
	}{
		{nil, sandbox.RecycleDelete}, // its default
		{"", sandbox.RecycleDelete},
		{"Delete", sandbox.RecycleDelete},
		{"Restart", sandbox.RecycleRestart},
		{"Noop", sandbox.RecycleNoop},
		{"noop", sandbox.RecycleUnknown},
		{"Freeze", sandbox.RecycleUnknown},
		{1.5, sandbox.RecycleUnknown},
	} {
		want := sandbox.Pool{NamespacedName: identity.NamespacedName{Namespace: "ns", Name: "p"}, UID: "P-p", Recycle: tc.want}
		if got := pool("p", tc.recycle); got != want {
			t.Errorf("%v: %v, want %v", tc.recycle, got, want)
		}
	}
	if p := opensandbox.DecodePool(map[string]any{"metadata": map[string]any{"namespace": "ns", "name": "p", "uid": "P-p"}}); p.Recycle != sandbox.RecycleDelete {
		t.Errorf("a Pool without a spec: %v", p.Recycle)
	}
	if p := opensandbox.DecodePool(map[string]any{}); p.Recycle != sandbox.RecycleUnknown {
		t.Errorf("no Pool at all: %v", p.Recycle)
	}
}

// TestAdopt adds to an agent-sandbox what OpenSandbox's server writes.
func TestAdopt(t *testing.T) {
	s := sandbox.Sandbox{NamespacedName: identity.NamespacedName{Namespace: "ns", Name: "sandbox-1"}, Names: []string{"1"}}
	opensandbox.Adopt(&s, object("sandbox-1", label("opensandbox.io/id", "1"), annotate(token, "t"), annotate("opensandbox.io/access-renew-extend-seconds", "600")))
	if len(s.Names) != 1 || s.Token != "t" || !s.Renew {
		t.Errorf("%v, renew %v", s.Names, s.Renew)
	}
	opensandbox.Adopt(&s, object("sandbox-1", annotate(token, 1.5)))
	if s.Malformed == "" {
		t.Error("a token that is no text is none")
	}
}

// FuzzDecode: whatever stands in the fields that are JSON or times, a sandbox comes out,
// and one that claims Pods claims only Pods that there can be.
func FuzzDecode(f *testing.F) {
	f.Add("p", `{"pods":["p-1"],"poolRef":"p","generation":1}`, `{"pods":["p-1"]}`, `["10.0.0.1",""]`, "2026-01-01T00:00:00Z", "v1 sandbox=S pod=P generation=0 container=-", "r/a-main:snap-gen3")
	f.Add("", `{`, `null`, `[1]`, "x", "", "a-main:snap-gen")
	f.Add("*", `{"pods":null}`, ``, ``, "", "v1", "")
	f.Fuzz(func(t *testing.T, pool, given, released, published, expires, pin, img string) {
		s := opensandbox.Decode(object("a", pooled(pool), annotate(allocStatus, given), annotate(allocReleased, released),
			publishes(published), spec("expireTime", expires), annotate(sandbox.PinAnnotation, pin), image("main", img)), nil)
		for _, name := range s.Pods {
			if _, err := identity.NewNamespacedName("ns", name); err != nil && s.Malformed == "" {
				t.Errorf("%q: %v", name, err)
			}
		}
		if s.Pool == "" && len(s.Pods) > 0 {
			t.Errorf("without a Pool it has %q of one", s.Pods)
		}
		if (s.Pin != sandbox.Pin{}) == (s.PinFault != "") {
			t.Errorf("the pin is %v and its fault %q", s.Pin, s.PinFault)
		}
	})
}

// TestUnread: what a source may leave out changes nothing.
func TestUnread(t *testing.T) {
	sandboxes, pools := opensandbox.Unread(), opensandbox.UnreadOfPools()
	whole := func() map[string]any {
		return object("a", of("pool", "p-1"), image("main", "r/a-main:snap-gen2"), expires("2100-01-01T00:00:00Z"), publishes(`["10.0.0.1"]`), generation(3, 2), spec("pause", true),
			set("x", "spec", "template", "metadata"), set([]any{1}, "status", "conditions"))
	}
	stripped := whole()
	for _, path := range sandboxes {
		set(nil, path...)(stripped)
	}
	if diff := cmp.Diff(opensandbox.Decode(whole(), nil), opensandbox.Decode(stripped, nil), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Error(diff)
	}
	noop := map[string]any{"metadata": map[string]any{"namespace": "ns", "name": "p", "uid": "P"}, "spec": map[string]any{"recycleStrategy": map[string]any{"type": "Noop"}, "template": map[string]any{}}}
	want := opensandbox.DecodePool(noop)
	for _, path := range pools {
		set(nil, path...)(noop)
	}
	if got := opensandbox.DecodePool(noop); got != want || got.Recycle != sandbox.RecycleNoop {
		t.Errorf("%v, want %v", got, want)
	}
}
