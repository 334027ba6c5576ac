package main

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decodeStrict reads one YAML document into a struct whose fields have yaml tags.
// Unlike the library's own decoder it takes nothing for anything else: no number
// for a string, no null for a value, no anchors; and an error names the line, the
// path, what stands there and what is allowed.
//
// A type may say more about its values, and the error is placed where they stand:
// as a [checker] after it is decoded, or as a [selfDecoder] instead.
func decodeStrict(name string, r io.Reader, into any) error {
	stream := yaml.NewDecoder(r)
	var doc yaml.Node
	switch err := stream.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: empty", name)
	case err != nil:
		return fmt.Errorf("%s: %s", name, syntaxError(err))
	}
	if err := stream.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: more than one document; allowed: one", name)
	}
	d := strictDecoder{file: name}
	return d.value(doc.Content[0], reflect.ValueOf(into).Elem(), "")
}

// syntaxError is the parser's message, and for the likeliest mistake what to do.
func syntaxError(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.Contains(text, "alphabetic or numeric character") {
		text += `; a value that begins with * or & must be quoted, as in ["*"]`
	}
	return text
}

// checker is a type whose values must be more than of the right type.
type checker interface{ check() error }

// selfDecoder is a type with a form of its own.
type selfDecoder interface{ decode(n *yaml.Node) error }

type strictDecoder struct{ file string }

// errorf places an error at a node.
func (d strictDecoder) errorf(n *yaml.Node, path, format string, args ...any) error {
	if path == "" {
		path = "the file"
	}
	return fmt.Errorf("%s:%d:%d: %s: %w", d.file, n.Line, n.Column, path, fmt.Errorf(format, args...))
}

func (d strictDecoder) value(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return d.errorf(n, path, "anchors and aliases are not allowed")
	}
	if tag := map[yaml.Kind]string{yaml.MappingNode: "!!map", yaml.SequenceNode: "!!seq"}[n.Kind]; tag != "" && n.Tag != tag {
		return d.errorf(n, path, "the tag %s; allowed: no tags", n.Tag)
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if self, ok := reflect.TypeAssert[selfDecoder](v.Addr()); ok {
		if err := self.decode(n); err != nil {
			return d.errorf(n, path, "%w", err)
		}
		return nil
	}
	if err := d.kind(n, v, path); err != nil {
		return err
	}
	if c, ok := reflect.TypeAssert[checker](v.Addr()); ok {
		if err := c.check(); err != nil {
			return d.errorf(n, path, "%w", err)
		}
	}
	return nil
}

var durationType = reflect.TypeFor[time.Duration]()

func (d strictDecoder) kind(n *yaml.Node, v reflect.Value, path string) error {
	switch {
	case v.Type() == durationType:
		length, err := time.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || err != nil || length < 0 {
			return d.errorf(n, path, "%s; allowed: a duration such as 90s or 24h", describe(n))
		}
		v.SetInt(int64(length))
		return nil
	case v.Kind() == reflect.Struct:
		return d.mapping(n, v, path)
	case v.Kind() == reflect.Map:
		return d.stringMap(n, v, path)
	case v.Kind() == reflect.Slice:
		return d.sequence(n, v, path)
	}
	return d.scalar(n, v, path)
}

func (d strictDecoder) mapping(n *yaml.Node, v reflect.Value, path string) error {
	keys := keysOf(v.Type())
	if n.Kind != yaml.MappingNode {
		return d.errorf(n, path, "%s; allowed: a mapping with the keys %s", describe(n), names(keys))
	}
	seen := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if err := d.plainKey(key, path); err != nil {
			return err
		}
		var field []int
		for _, k := range keys {
			if k.name == key.Value {
				field = k.index
			}
		}
		if field == nil {
			return d.errorf(key, join(path, key.Value), "unknown key; allowed: %s", names(keys))
		}
		if first, again := seen[key.Value]; again {
			return d.errorf(key, join(path, key.Value), "the key stands already at line %d", first)
		}
		seen[key.Value] = key.Line
		if err := d.value(value, v.FieldByIndex(field), join(path, key.Value)); err != nil {
			return err
		}
	}
	return nil
}

// plainKey refuses a key that is anything but text: the value of an alias is the
// name of its anchor, which is not what YAML means by it.
func (d strictDecoder) plainKey(n *yaml.Node, path string) error {
	if n.Kind != yaml.ScalarNode || n.Anchor != "" || n.Tag != "!!str" {
		return d.errorf(n, path, "a key that is no plain string; allowed: strings without anchors, aliases and tags")
	}
	return nil
}

func (d strictDecoder) stringMap(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.MappingNode {
		return d.errorf(n, path, "%s; allowed: a mapping of strings", describe(n))
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if err := d.plainKey(key, path); err != nil {
			return err
		}
		k, e := reflect.ValueOf(key.Value), reflect.New(v.Type().Elem()).Elem()
		if v.MapIndex(k).IsValid() {
			return d.errorf(key, join(path, key.Value), "the key stands twice")
		}
		if err := d.value(value, e, join(path, key.Value)); err != nil {
			return err
		}
		v.SetMapIndex(k, e)
	}
	return nil
}

func (d strictDecoder) sequence(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.SequenceNode {
		return d.errorf(n, path, "%s; allowed: a list", describe(n))
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if err := d.value(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

func (d strictDecoder) scalar(n *yaml.Node, v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.String:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
			return d.errorf(n, path, "%s; allowed: a string", describe(n))
		}
		v.SetString(n.Value)
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Value != "true" && n.Value != "false" {
			return d.errorf(n, path, "%s; allowed: true, false", describe(n))
		}
		v.SetBool(n.Value == "true")
	case reflect.Int:
		const most = 1_000_000_000
		number, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || number < 1 || number > most {
			return d.errorf(n, path, "%s; allowed: a whole number from 1 to %d", describe(n), most)
		}
		v.SetInt(int64(number))
	default:
		panic(fmt.Sprintf("%s: no decoder for %v", path, v.Type()))
	}
	return nil
}

// describe is what stands at a node.
func describe(n *yaml.Node) string {
	kind := map[string]string{"!!int": "the number ", "!!float": "the number ", "!!bool": "the boolean ", "!!timestamp": "the time "}[n.Tag]
	switch {
	case n.Kind == yaml.MappingNode:
		return "is a mapping"
	case n.Kind == yaml.SequenceNode:
		return "is a list"
	case n.Tag == "!!null":
		return "is empty"
	case kind != "":
		return kind + n.Value
	}
	return fmt.Sprintf("%q", n.Value)
}

// key is a key of a mapping and the field that it fills.
type key struct {
	name  string
	index []int
	field reflect.StructField
}

// keysOf are the keys of a struct, in the order of its fields; those of an embedded
// struct stand in its place.
func keysOf(t reflect.Type) []key {
	var keys []key
	for f := range t.Fields() {
		if f.Anonymous {
			for _, inner := range keysOf(f.Type) {
				inner.index = append([]int{f.Index[0]}, inner.index...)
				keys = append(keys, inner)
			}
			continue
		}
		keys = append(keys, key{f.Tag.Get("yaml"), f.Index, f})
	}
	return keys
}

func names(keys []key) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k.name
	}
	return strings.Join(all, ", ")
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
