package sandbox

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/samepod/samepod/identity"
)

// Object reads fields of an engine's object as the API's JSON has them, and remembers the
// first that it cannot understand: what is missing or null is zero, and what is of another
// type is a fault. Unknown fields are nobody's business.
type Object struct {
	fields map[string]any
	place  string // before every path, of an item of a list
	fault  *string
}

// Read makes an Object of a decoded JSON object.
func Read(fields map[string]any) Object { return Object{fields: fields, fault: new(string)} }

// Fault is what could not be understood first, as "<path>: <value>: <rule>"; empty for
// nothing.
func (o Object) Fault() string { return *o.fault }

// Note remembers what is wrong with the value at a path, if err is not nil.
func (o Object) Note(err error, value string, path ...string) {
	if err == nil || *o.fault != "" {
		return
	}
	// Whoever writes objects writes into our log.
	*o.fault = (&identity.FieldError{Field: o.place + strings.Join(path, "."), Value: identity.Shorten(value), Err: err}).Error()
}

// Has reports whether there is something at a path.
func (o Object) Has(path ...string) bool { return o.find(path) != nil }

// find returns the value at path; nil if it, or one above it, is missing or null.
func (o Object) find(path []string) any {
	var value any = o.fields
	for i, key := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			o.Note(errors.New("must be an object"), fmt.Sprint(value), path[:i]...)
			return nil
		}
		if value = fields[key]; value == nil {
			return nil
		}
	}
	return value
}

// Field is the value at a path.
func Field[T any](o Object, path ...string) T {
	var zero T
	value := o.find(path)
	if value == nil {
		return zero
	}
	typed, ok := value.(T)
	if !ok {
		o.Note(fmt.Errorf("must be %T, is %T", zero, value), fmt.Sprint(value), path...)
	}
	return typed
}

// Integer is the whole number at a path, which some readers of JSON give as a float64.
func (o Object) Integer(path ...string) int64 {
	if f, ok := o.find(path).(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f)
	}
	return Field[int64](o, path...)
}

// Time is the metav1.Time at a path.
func (o Object) Time(path ...string) time.Time {
	text := Field[string](o, path...)
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		o.Note(errors.New("must be a time (RFC 3339)"), text, path...)
	}
	return at
}

// Items are the objects of the list at a path. Their faults are faults of o.
func (o Object) Items(path ...string) iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for i, item := range Field[[]any](o, path...) {
			place := fmt.Sprintf("%s[%d]", strings.Join(path, "."), i)
			fields, ok := item.(map[string]any)
			if !ok {
				o.Note(errors.New("must be an object"), fmt.Sprint(item), place)
			}
			if !yield(Object{fields, o.place + place + ".", o.fault}) {
				return
			}
		}
	}
}

// Identity is which object it is. What is no name and no uid is returned too: a later
// delete must find it.
func (o Object) Identity() (identity.NamespacedName, identity.UID) {
	name := identity.NamespacedName{Namespace: Field[string](o, "metadata", "namespace"), Name: Field[string](o, "metadata", "name")}
	uid := Field[string](o, "metadata", "uid")
	_, err := identity.NewNamespacedName(name.Namespace, name.Name)
	o.Note(err, name.String(), "metadata", "name")
	_, err = identity.ParseUID(uid)
	o.Note(err, uid, "metadata", "uid")
	return name, identity.UID(uid)
}

// Sandbox is what every engine's object says in the same way. kind is as in
// [identity.Owner], pinKey as in [ParsePin].
func (o Object) Sandbox(kind string, pinKey []byte) Sandbox {
	s := Sandbox{Kind: kind, Version: Field[string](o, "metadata", "resourceVersion"), Deleting: o.Has("metadata", "deletionTimestamp")}
	s.NamespacedName, s.UID = o.Identity()
	if o.Has("metadata", "annotations", PinAnnotation) {
		var err error
		if s.Pin, err = ParsePin(Field[string](o, "metadata", "annotations", PinAnnotation), pinKey); err != nil {
			s.PinFault = err.Error()
		}
	}
	return s
}
