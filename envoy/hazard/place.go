package hazard

import (
	"fmt"
	"strconv"
	"strings"
)

// place is the path to a field, in Envoy's names.
type place string

// field is a field of the message here.
func (p place) field(name string) place {
	if p == "" {
		return place(name)
	}
	return p + "." + place(name)
}

// item is an element of a list here, by its name where it has one.
func (p place) item(list, name string, index int) place {
	if name == "" {
		name = strconv.Itoa(index)
	}
	return p.field(list) + place("["+printable(name)+"]")
}

// printable keeps what somebody else wrote from steering a terminal.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// located is a message and where it stands.
type located[T any] struct {
	place

	is T
}

// gap is something that cannot be judged.
type gap struct {
	place

	why string
}

func gapf(at place, format string, args ...any) gap { return gap{at, fmt.Sprintf(format, args...)} }
