package hazard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// read makes the model of a bootstrap or of a dump.
func read(text []byte) (*config, error) {
	tree, err := parse(text)
	if err != nil {
		return nil, err
	}
	if _, ok := tree["configs"]; ok {
		var dump adminv3.ConfigDump
		if err := decode(tree, &dump); err != nil {
			return nil, fmt.Errorf("config dump: %w", err)
		}
		return fromDump(&dump)
	}
	var b bootstrapv3.Bootstrap
	if err := decode(tree, &b); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	return fromBootstrap(&b), nil
}

// parse makes a tree of JSON or YAML.
func parse(text []byte) (map[string]any, error) {
	var tree any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err := d.Decode(&tree)
	if _, end := d.Token(); err != nil || !errors.Is(end, io.EOF) {
		if tree, err = parseYAML(text); err != nil {
			return nil, err
		}
	}
	root, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("neither a bootstrap nor a config dump of Envoy: not a mapping")
	}
	return root, nil
}

func parseYAML(text []byte) (tree any, err error) {
	var document, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	switch err := d.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("empty; allowed: a bootstrap or a config dump of Envoy")
	case err != nil:
		return nil, err
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document; Envoy reads the first one only")
	}
	dropIgnored(&document)
	readBools(&document)
	return tree, document.Decode(&tree)
}

// dropIgnored drops the keys with the tag !ignore, as Envoy does.
func dropIgnored(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		var kept []*yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Tag != "!ignore" {
				kept = append(kept, n.Content[i], n.Content[i+1])
			}
		}
		n.Content = kept
	}
	for _, child := range n.Content {
		dropIgnored(child)
	}
}

// readBools reads plain words as Envoy's YAML does: there, yes is true.
func readBools(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Style == 0 && n.Tag == "!!str" {
		switch strings.ToLower(n.Value) {
		case "y", "yes", "on":
			n.Tag, n.Value = "!!bool", "true"
		case "n", "no", "off":
			n.Tag, n.Value = "!!bool", "false"
		}
	}
	for i, child := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			readBools(child)
		}
	}
}

// decode makes a message of a tree. Types of extensions that are not linked in
// become TypedStructs: they are judged by their name.
func decode(tree map[string]any, into proto.Message) error {
	tree, _ = known(tree).(map[string]any)
	text, err := json.Marshal(tree)
	if err != nil {
		return fmt.Errorf("no JSON can be made of it: %w", err)
	}
	err = protojson.Unmarshal(text, into)
	if err == nil {
		return nil
	}
	if at := unknownField(into.ProtoReflect().Descriptor(), tree, ""); at != "" {
		return fmt.Errorf("%s: unknown field", at)
	}
	return errors.New(position.ReplaceAllString(err.Error(), ""))
}

// position is where protojson says that an error is, in text that nobody saw.
var position = regexp.MustCompile(`^proto:[\s\x{a0}]+((syntax error )?\(line \d+:\d+\): )?`)

const (
	typedStruct    = "type.googleapis.com/xds.type.v3.TypedStruct"
	oldTypedStruct = "type.googleapis.com/udpa.type.v1.TypedStruct"
)

// known replaces every Any whose type is not linked in by a TypedStruct of it, and
// every TypedStruct of a type that is by that type, which is how Envoy reads it.
func known(tree any) any {
	switch t := tree.(type) {
	case []any:
		for i := range t {
			t[i] = known(t[i])
		}
	case map[string]any:
		url, isAny := t["@type"].(string)
		if isAny && (url == typedStruct || url == oldTypedStruct) {
			inner, _ := t["type_url"].(string)
			if inner == "" {
				inner, _ = t["typeUrl"].(string)
			}
			value, _ := t["value"].(map[string]any)
			url, t = inner, maps.Clone(value)
			if t == nil {
				t = map[string]any{}
			}
			t["@type"] = url
		}
		if isAny && !linked(url) {
			delete(t, "@type")
			return map[string]any{"@type": typedStruct, "type_url": url, "value": t}
		}
		for k := range t {
			t[k] = known(t[k])
		}
		return t
	}
	return tree
}

func linked(url string) bool {
	_, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	return err == nil
}

// unknownField finds the first field that its message does not have.
func unknownField(m protoreflect.MessageDescriptor, tree any, at place) place {
	object, ok := tree.(map[string]any)
	if !ok || strings.HasPrefix(string(m.FullName()), "google.protobuf.") && m.Name() != "Any" {
		return "" // well-known types have forms of their own
	}
	if m.Name() == "Any" {
		url, _ := object["@type"].(string)
		t, err := protoregistry.GlobalTypes.FindMessageByURL(url)
		if err != nil || url == typedStruct {
			return ""
		}
		m = t.Descriptor()
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if key == "@type" {
			continue
		}
		f := m.Fields().ByJSONName(key)
		if f == nil {
			f = m.Fields().ByTextName(key)
		}
		if f == nil {
			return at.field(printable(key))
		}
		if deeper := unknownBelow(f, object[key], at, key); deeper != "" {
			return deeper
		}
	}
	return ""
}

func unknownBelow(f protoreflect.FieldDescriptor, value any, at place, key string) place {
	switch {
	case f.IsMap() && f.MapValue().Message() != nil:
		entries, _ := value.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(entries)) {
			if deeper := unknownField(f.MapValue().Message(), entries[k], at.item(key, k, 0)); deeper != "" {
				return deeper
			}
		}
	case f.Message() == nil || f.IsMap():
	case f.IsList():
		items, _ := value.([]any)
		for i, item := range items {
			object, _ := item.(map[string]any)
			name, _ := object["name"].(string)
			if deeper := unknownField(f.Message(), item, at.item(key, name, i)); deeper != "" {
				return deeper
			}
		}
	default:
		return unknownField(f.Message(), value, at.field(key))
	}
	return ""
}
