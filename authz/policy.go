package authz

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/samepod/samepod/identity"
)

// Policy is what the operator allows at all, before any question of identity.
// The zero Policy allows nothing.
type Policy struct {
	Scope     Scope
	Ports     Ports
	Addresses Addresses
	// RequireReady also asks for the Pod's Ready condition.
	RequireReady bool
}

// Scope is the set of namespaces whose Pods may be named. It is no
// authorization: who may name which Pod is the gateway's business. It keeps a
// request for sandboxes from reaching kube-system. The zero Scope is empty.
type Scope struct {
	all        bool
	namespaces []string // sorted
}

// ParseScope reads a list of namespaces, or ["*"] for all of them. That is
// written out: an empty list is an error.
func ParseScope(namespaces []string) (Scope, error) {
	if len(namespaces) == 0 {
		return Scope{}, errors.New(`empty; allowed: a list of namespaces, or ["*"] for every one`)
	}
	if slices.Contains(namespaces, "*") {
		if len(namespaces) > 1 {
			return Scope{}, fmt.Errorf(`%q: "*" stands alone; allowed: a list of namespaces, or ["*"] for every one`, namespaces)
		}
		return Scope{all: true}, nil
	}
	sorted := slices.Sorted(slices.Values(namespaces))
	for i, n := range sorted {
		if _, err := identity.NewNamespacedName(n, "pod"); err != nil {
			return Scope{}, fmt.Errorf("%q: %w", n, err)
		}
		if i > 0 && n == sorted[i-1] {
			return Scope{}, fmt.Errorf("%q: listed twice", n)
		}
	}
	return Scope{namespaces: sorted}, nil
}

// Contains reports whether Pods of the namespace may be named.
func (s Scope) Contains(namespace string) bool {
	if s.all {
		return true
	}
	_, found := slices.BinarySearch(s.namespaces, namespace)
	return found
}

// Namespaces returns the namespaces, or nil and true for every one.
func (s Scope) Namespaces() (namespaces []string, all bool) { return slices.Clone(s.namespaces), s.all }

func (s Scope) String() string {
	if s.all {
		return "every namespace"
	}
	return strings.Join(s.namespaces, ", ")
}

// PortRange is First to Last, both included.
type PortRange struct{ First, Last uint16 }

func (r PortRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Ports is the set of ports that may be dialled. The zero Ports is empty.
type Ports struct{ ranges []PortRange }

// AnyPort is every port.
func AnyPort() Ports { return Ports{[]PortRange{{1, 65535}}} }

// ParsePorts reads ports ("44772") and ranges ("8000-8010").
func ParsePorts(texts []string) (Ports, error) {
	if len(texts) == 0 {
		return Ports{}, errors.New("empty")
	}
	var p Ports
	for _, text := range texts {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		f, errFirst := identity.ParsePort(first)
		l, errLast := identity.ParsePort(last)
		if errFirst != nil || errLast != nil || f > l {
			return Ports{}, fmt.Errorf("%q; allowed: a port 1 to 65535, or a range such as 8000-8010", text)
		}
		for _, r := range p.ranges {
			if f <= r.Last && r.First <= l {
				return Ports{}, fmt.Errorf("%q: is in %q already", text, r)
			}
		}
		p.ranges = append(p.ranges, PortRange{f, l})
	}
	return p, nil
}

// Contains reports whether the port may be dialled.
func (p Ports) Contains(port uint16) bool {
	for _, r := range p.ranges {
		if r.First <= port && port <= r.Last {
			return true
		}
	}
	return false
}

// Ranges returns the set as it was written.
func (p Ports) Ranges() []PortRange { return slices.Clone(p.ranges) }

func (p Ports) String() string {
	if slices.Equal(p.ranges, AnyPort().ranges) {
		return "any"
	}
	texts := make([]string, len(p.ranges))
	for i, r := range p.ranges {
		texts[i] = r.String()
	}
	return strings.Join(texts, ", ")
}
