package main

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decodeStrict reads one YAML document into a struct whose fields have yaml tags.
// Unlike the library's own decoder it takes nothing for anything else: no number
// for a string, no null for a value, no anchors; and an error names the line, the
// path, what stands there and what is allowed.
func decodeStrict(name string, r io.Reader, into any) error {
	stream := yaml.NewDecoder(r)
	var doc yaml.Node
	switch err := stream.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: empty", name)
	case err != nil:
		return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := stream.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: more than one document; allowed: one", name)
	}
	d := strictDecoder{file: name}
	return d.value(doc.Content[0], reflect.ValueOf(into).Elem(), "")
}

type strictDecoder struct{ file string }

// errorf places an error at a node.
func (d strictDecoder) errorf(n *yaml.Node, path, format string, args ...any) error {
	if path == "" {
		path = "the file"
	}
	return fmt.Errorf("%s:%d:%d: %s: %s", d.file, n.Line, n.Column, path, fmt.Sprintf(format, args...))
}

var durationType = reflect.TypeFor[time.Duration]()

func (d strictDecoder) value(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return d.errorf(n, path, "anchors and aliases are not allowed")
	}
	switch {
	case v.Type() == durationType:
		length, err := time.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || length < 0 {
			return d.errorf(n, path, "%s; allowed: a duration such as 90s or 24h", describe(n))
		}
		v.SetInt(int64(length))
		return nil
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(n, v.Elem(), path)
	case v.Type() == portsType:
		return d.ports(n, v.Addr().Interface().(*portsConfig), path)
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
	names := fieldNames(v.Type())
	if n.Kind != yaml.MappingNode {
		return d.errorf(n, path, "%s; allowed: a mapping with the keys %s", describe(n), strings.Join(names, ", "))
	}
	seen := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field := slices.Index(names, key.Value)
		if field < 0 {
			return d.errorf(key, join(path, key.Value), "unknown key; allowed: %s", strings.Join(names, ", "))
		}
		if first, again := seen[key.Value]; again {
			return d.errorf(key, join(path, key.Value), "the key stands already at line %d", first)
		}
		seen[key.Value] = key.Line
		if err := d.value(value, v.Field(field), join(path, key.Value)); err != nil {
			return err
		}
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
		number, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || number < 0 {
			return d.errorf(n, path, "%s; allowed: a whole number from 0", describe(n))
		}
		v.SetInt(int64(number))
	default:
		panic(fmt.Sprintf("%s: no decoder for %v", path, v.Type()))
	}
	return nil
}

// ports takes numbers and strings: 44772 and "8000-8010", or the word any alone.
func (d strictDecoder) ports(n *yaml.Node, v *portsConfig, path string) error {
	if n.Kind == yaml.ScalarNode && n.Value == "any" {
		v.texts = []string{"any"}
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return d.errorf(n, path, "%s; allowed: a list of ports and ranges, or any", describe(n))
	}
	for i, item := range n.Content {
		if item.Kind != yaml.ScalarNode || item.Tag != "!!int" && item.Tag != "!!str" || item.Value == "any" {
			return d.errorf(item, fmt.Sprintf("%s[%d]", path, i), "%s; allowed: a port 1 to 65535, or a range such as 8000-8010", describe(item))
		}
		v.texts = append(v.texts, item.Value)
	}
	return nil
}

// describe is what stands at a node.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "is a mapping"
	case n.Kind == yaml.SequenceNode:
		return "is a list"
	case n.Tag == "!!null":
		return "is empty"
	}
	return fmt.Sprintf("%q", n.Value)
}

// fieldNames are the keys of a struct, in the order of its fields.
func fieldNames(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("yaml")
	}
	return names
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
