package node

import (
	"strings"
	"testing"
)

const classes = "kind: List\nitems:\n- {kind: RuntimeClass, metadata: {name: runc}, handler: runc}\n- {kind: RuntimeClass, metadata: {name: gvisor}, handler: runsc}\n"

// TestRuntimeClasses: a handler that containerd has not is what the kubelet will say,
// and nothing is said of what was not seen.
func TestRuntimeClasses(t *testing.T) {
	class := func(handler string) string {
		return "kind: RuntimeClass\nmetadata: {name: gvisor}\nhandler: " + handler + "\n"
	}
	const selector = "scheduling: {nodeSelector: {gvisor: 'true'}}\n"
	without := tree{"/etc/containerd/config.toml": "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runsc]\nruntime_type = 'io.containerd.runsc.v1'\n"}
	for name, tc := range map[string]struct {
		disk     tree
		text     string
		severity Severity
		says     string
	}{
		"all are there":           {nil, classes, OK, "all RuntimeClasses (2)"},
		"one that nobody names":   {nil, class("runsc"), Info, "no RuntimeClass names the runtimes runc"},
		"one that is missing":     {nil, class("gvisor"), Failure, `RuntimeClass gvisor: no runtime for "gvisor" is configured`},
		"one that is ignored":     {tree{"/etc/containerd/config.toml": strings.Replace(handlers2, "version = 2", "version = 3", 1)}, class("runsc"), Failure, `no runtime for "runsc" is configured`},
		"for some nodes":          {nil, class("gvisor") + selector, Unknown, "map[gvisor:true]"},
		"for some, and there":     {nil, class("runsc") + selector, Info, ""},
		"a default of containerd": {without, class("runc"), Unknown, "depends on its version"},
		"an unread import":        {tree{"/etc/containerd/config.toml": "imports = ['/none.toml']\n" + config3}, class("gvisor"), Unknown, "/none.toml"},
		"a file of nothing":       {nil, "", Unknown, "no RuntimeClass; allowed"},
		"of another kind":         {nil, "kind: Pod\n", Unknown, `kind "Pod"`},
		"without a handler":       {nil, class("''"), Unknown, `RuntimeClass "gvisor": handler ""`},
		"what an error prints":    {nil, "Error from server (Forbidden)\n", Unknown, ""},
	} {
		r := examine(t, healthy.with(tc.disk), func(o *Options) {
			o.RuntimeClasses = func() ([]RuntimeClass, error) { return ParseRuntimeClasses([]byte(tc.text)) }
		})
		said := false
		for _, f := range r.Findings {
			all := strings.Join(append(f.Evidence, f.Found), "\n")
			said = said || f.Check == "handlers" && f.Severity == tc.severity && strings.Contains(all, tc.says)
		}
		if f := r.worst("handlers"); !said || f.Severity != tc.severity {
			t.Errorf("%s: %+v, want %s and %q", name, f, tc.severity, tc.says)
		}
		if f := r.worst("handlers"); f.Severity == Failure && strings.Contains(f.Found, "RuntimeClass") && Classify([]byte(f.Found)).Class != "handler-missing" {
			t.Errorf("%s: %q is not what the event has", name, f.Found)
		}
	}
}

// FuzzRuntimeClasses: what is read has names and handlers, and is never nothing.
func FuzzRuntimeClasses(f *testing.F) {
	f.Add(classes)
	f.Add(`{"kind":"RuntimeClassList","items":[{"metadata":{"name":"a"},"handler":"b"}]}`)
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseRuntimeClasses([]byte(text))
		if (err == nil) != (len(all) > 0) {
			t.Fatalf("%d, %v", len(all), err)
		}
		for _, c := range all {
			if c.Handler == "" || c.Metadata.Name == "" {
				t.Fatalf("%+v", c)
			}
		}
	})
}
