package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// RuntimeClass is what is read of a node.k8s.io/v1 RuntimeClass.
type RuntimeClass struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Handler    string `yaml:"handler"`
	Scheduling struct {
		// NodeSelector is which nodes its Pods may come to; empty is all.
		NodeSelector map[string]string `yaml:"nodeSelector"`
	} `yaml:"scheduling"`
}

// ParseRuntimeClasses reads RuntimeClasses as kubectl get runtimeclasses -o yaml or
// json prints them. A text without one is an error: it may be what is left of a
// command that failed.
func ParseRuntimeClasses(text []byte) ([]RuntimeClass, error) {
	all, err := parseList(text, "RuntimeClass", func(c RuntimeClass) string { return c.Kind })
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no RuntimeClass; allowed: at least one")
	}
	for _, c := range all {
		if c.Metadata.Name == "" || c.Handler == "" {
			return nil, fmt.Errorf("RuntimeClass %q: handler %q; allowed: a name and a handler", c.Metadata.Name, c.Handler)
		}
	}
	return all, nil
}

// judgeClasses compares the handlers of RuntimeClasses with the runtimes that the
// containerds here have in effect.
func (x *examination) judgeClasses() []Finding {
	classes, err := x.options.RuntimeClasses()
	if err != nil {
		return []Finding{{Severity: Unknown, Found: "which handlers RuntimeClasses name is not known", Evidence: []string{err.Error()}, Remedy: "Give what kubectl get runtimeclasses -o yaml prints."}}
	}
	configured := map[string]bool{}
	for _, c := range x.here() {
		for _, h := range c.Handlers {
			configured[h.Name] = configured[h.Name] || !h.Ignored
		}
	}
	maps.DeleteFunc(configured, func(_ string, effective bool) bool { return !effective })
	names := slices.Sorted(maps.Keys(configured))
	var all []Finding
	named := map[string]bool{}
	for _, c := range classes {
		named[c.Handler] = true
		if !configured[c.Handler] {
			all = append(all, x.judgeMissing(c, names))
		}
	}
	if len(all) == 0 {
		all = []Finding{{Severity: OK, Found: fmt.Sprintf("containerd has the handlers of all RuntimeClasses (%d)", len(classes))}}
	}
	if unnamed := slices.DeleteFunc(names, func(name string) bool { return named[name] }); len(unnamed) > 0 {
		all = append(all, Finding{Severity: Info, Found: "no RuntimeClass names the runtimes " + strings.Join(unnamed, ", "), Consequence: "No Pod can ask for them; one without a RuntimeClass has containerd's default.", Remedy: "None, or a RuntimeClass with this handler."})
	}
	return all
}

// judgeMissing is of a RuntimeClass whose handler was not seen. It is a failure only if
// all of containerd was seen, and Pods of the class may come to this node.
func (x *examination) judgeMissing(c RuntimeClass, names []string) Finding {
	// What containerd says, and the kubelet's event of each Pod with it.
	message := fmt.Sprintf("no runtime for %q is configured", c.Handler)
	f := Finding{
		Severity: Failure, Found: fmt.Sprintf("RuntimeClass %s: %s", c.Metadata.Name, message), Evidence: []string{"runtimes: " + strings.Join(names, ", ")},
		Remedy: "Configure this runtime and restart containerd, or mend the handler of the RuntimeClass.",
	}
	var because []string
	for _, seen := range x.containerds {
		because = append(because, seen.Unread...)
		if seen.process != nil && seen.process.Elsewhere != "" {
			because = append(because, seen.process.Elsewhere)
		}
	}
	if len(because) > 0 {
		f.Remedy = "See containerd."
	}
	if c.Handler == "runc" { // containerd 2 has it beside what files name, 1 only if they name none
		because = append(because, "runc is a default of containerd, which depends on its version")
	}
	if len(c.Scheduling.NodeSelector) > 0 {
		because = append(because, fmt.Sprintf("its Pods come to nodes with the labels %v, and those of this node are not known", c.Scheduling.NodeSelector))
	}
	if len(because) > 0 {
		f.Severity, f.Found = Unknown, fmt.Sprintf("RuntimeClass %s: whether Pods fail here with %s is not known", c.Metadata.Name, message)
		f.Evidence = append(f.Evidence, because...)
	}
	return f
}
