package sandbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// TestObject: what is there is read, what is missing is zero, and what is something else
// is a fault with its place; the first one stays.
func TestObject(t *testing.T) {
	type m = map[string]any
	long := strings.Repeat("ä", 100)
	for _, tc := range []struct {
		rule   string
		fields m
		read   func(sandbox.Object) any
		want   any
		fault  string // what it begins with; "" for none
	}{
		{"a string", m{"a": m{"b": "c"}}, func(o sandbox.Object) any { return sandbox.Field[string](o, "a", "b") }, "c", ""},
		{"missing", m{}, func(o sandbox.Object) any { return sandbox.Field[string](o, "a", "b") }, "", ""},
		{"null", m{"a": nil}, func(o sandbox.Object) any { return sandbox.Field[string](o, "a", "b") }, "", ""},
		{"no object at all", nil, func(o sandbox.Object) any { return sandbox.Field[string](o, "a") }, "", ""},
		{"another type", m{"a": m{"b": true}}, func(o sandbox.Object) any { return sandbox.Field[string](o, "a", "b") }, "", `a.b: "true": must be string, is bool`},
		{"no object on the way", m{"a": "x"}, func(o sandbox.Object) any { return sandbox.Field[string](o, "a", "b") }, "", `a: "x": must be an object`},
		{"a long value is cut", m{"a": long}, func(o sandbox.Object) any { return sandbox.Field[bool](o, "a") }, false, `a: "` + long[:100] + `…"`},
		{"the first fault stays", m{"a": 1, "b": 2}, func(o sandbox.Object) any {
			return sandbox.Field[string](o, "a") + sandbox.Field[string](o, "b")
		}, "", `a: "1"`},
		{"an integer", m{"a": int64(7)}, func(o sandbox.Object) any { return o.Integer("a") }, int64(7), ""},
		{"an integer as a float", m{"a": 7.0}, func(o sandbox.Object) any { return o.Integer("a") }, int64(7), ""},
		{"no integer", m{"a": 7.5}, func(o sandbox.Object) any { return o.Integer("a") }, int64(0), `a: "7.5": must be int64, is float64`},
		{"an integer that a float cannot hold", m{"a": 1e300}, func(o sandbox.Object) any { return o.Integer("a") }, int64(0), `a: "1e+300": must be int64`},
		{"a time", m{"a": "2026-11-01T17:24:44Z"}, func(o sandbox.Object) any { return o.Time("a") }, time.Date(2026, 11, 1, 17, 24, 44, 0, time.UTC), ""},
		{"no time", m{"a": "now"}, func(o sandbox.Object) any { return o.Time("a") }, time.Time{}, `a: "now": must be a time (RFC 3339)`},
		{"items", m{"l": []any{m{"a": "x"}, m{"a": "y"}}}, joined, "xy", ""},
		{"items that are none", m{"l": []any{m{"a": "x"}, 1}}, joined, "x", `l[1]: "1": must be an object`},
		{"a fault in an item", m{"l": []any{m{"a": "x"}, m{"a": 1}}}, joined, "x", `l[1].a: "1": must be string`},
		{"a name and a uid that are none are returned", m{"metadata": m{"name": "A", "uid": "?"}}, func(o sandbox.Object) any {
			name, uid := o.Identity()
			return name.String() + string(uid)
		}, "/A?", `metadata.name: "/A": the namespace must be`},
	} {
		o := sandbox.Read(tc.fields)
		check(t, tc.rule, tc.read(o), tc.want)
		if got := o.Fault(); (got == "") != (tc.fault == "") || !strings.HasPrefix(got, tc.fault) {
			t.Errorf("%s: fault %q, want %q", tc.rule, got, tc.fault)
		}
	}
}

func joined(o sandbox.Object) any {
	text := ""
	for item := range o.Items("l") {
		text += sandbox.Field[string](item, "a")
	}
	return text
}

// TestObjectSandbox: a pin that cannot be read is no fault of the object, and no pin.
func TestObjectSandbox(t *testing.T) {
	object := func(pin any) map[string]any {
		return map[string]any{"metadata": map[string]any{"namespace": "ns", "name": "a", "uid": "S-a", "resourceVersion": "7", "annotations": map[string]any{sandbox.PinAnnotation: pin}}}
	}
	p := sandbox.Pin{Sandbox: "S-a", Pod: "P"}
	for _, tc := range []struct {
		rule  string
		pin   any
		want  sandbox.Pin
		fault bool
	}{
		{"a pin", p.Text(nil), p, false},
		{"an empty one", "", sandbox.Pin{}, true},
		{"one that is none", "x", sandbox.Pin{}, true},
		{"null", nil, sandbox.Pin{}, false},
	} {
		o := sandbox.Read(object(tc.pin))
		s := o.Sandbox(kind, nil)
		if s.Pin != tc.want || (s.PinFault != "") != tc.fault || o.Fault() != "" || s.UID != identity.UID("S-a") || s.Version != "7" || s.Kind != kind {
			t.Errorf("%s: %+v, fault %q", tc.rule, s, o.Fault())
		}
	}
}
