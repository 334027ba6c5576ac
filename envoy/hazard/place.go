package hazard

import (
	"fmt"
	"strconv"
	"strings"

	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/type/metadata/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
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

// value says what a number is, or that it is not set and what Envoy takes then.
func value(v *wrapperspb.UInt32Value, unset string) string {
	if v == nil {
		return "unset, which is " + unset
	}
	return strconv.FormatUint(uint64(v.GetValue()), 10)
}

// duration is value of a duration.
func duration(v *durationpb.Duration, unset string) string {
	if v == nil {
		return "unset, which is " + unset
	}
	return v.AsDuration().String()
}

// keyText is a path into metadata.
func keyText(k *metadatav3.MetadataKey) string {
	if k == nil {
		return "unset"
	}
	keys := []string{k.GetKey()}
	for _, p := range k.GetPath() {
		keys = append(keys, p.GetKey())
	}
	return printable(strings.Join(keys, ":"))
}
