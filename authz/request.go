package authz

import (
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Source is where in a request one field of a claim stands. At most one member
// is set; the zero Source is nowhere, and the field is then never present.
type Source struct {
	// Header is the name of a request header, in lower case. The caller writes it,
	// unless Envoy removes the caller's and sets its own.
	Header string
	// ContextExtension is a key of the route's context_extensions, which only
	// Envoy's configuration can set.
	ContextExtension string
	// Metadata is a place in the dynamic metadata that an earlier filter wrote.
	Metadata MetadataPath
}

// MetadataPath is a path into one namespace of dynamic metadata, such as
// {"envoy.filters.http.jwt_authn", "payload/sandbox"}. The keys are joined by '/'
// so that a Source stays comparable.
type MetadataPath struct {
	Namespace string
	Path      string
}

// IsZero reports whether s is nowhere.
func (s Source) IsZero() bool { return s == Source{} }

// String names the place, for errors that a caller reads.
func (s Source) String() string {
	switch {
	case s.Header != "":
		return "header " + s.Header
	case s.ContextExtension != "":
		return "context extension " + s.ContextExtension
	case s.Metadata != MetadataPath{}:
		return "metadata " + s.Metadata.Namespace + ":" + s.Metadata.Path
	}
	return "nowhere"
}

// errRepeated is what more than one value of a field gives.
var errRepeated = errors.New("occurs more than once")

// value reads the field that stands at s. It is absent, or present exactly once;
// anything else is an error, since Envoy and whoever reads the request later may
// each take another of two values (CVE-2021-32777).
func (s Source) value(attrs *authv3.AttributeContext) (value string, present bool, err error) {
	switch {
	case s.Header != "":
		return header(attrs.GetRequest().GetHttp(), s.Header)
	case s.ContextExtension != "":
		value, present = attrs.GetContextExtensions()[s.ContextExtension]
		return value, present, nil
	case s.Metadata != MetadataPath{}:
		return metadata(attrs.GetMetadataContext(), s.Metadata)
	}
	return "", false, nil
}

// header reads a request header from both encodings that Envoy has: the map, in
// which repeated headers are joined by commas, and the list (encode_raw_headers).
// Names are compared without case; Envoy sends them in lower case.
func header(http *authv3.AttributeContext_HttpRequest, name string) (string, bool, error) {
	var value string
	n := 0
	for key, v := range http.GetHeaders() {
		if strings.EqualFold(key, name) {
			value = v
			n++
		}
	}
	for _, h := range http.GetHeaderMap().GetHeaders() {
		if strings.EqualFold(h.GetKey(), name) {
			value = rawValue(h)
			n++
			if len(h.GetRawValue()) > 0 && h.GetValue() != "" {
				n++ // two values in one entry
			}
		}
	}
	if n > 1 || strings.Contains(value, ",") {
		return "", true, errRepeated
	}
	return value, n == 1, nil
}

// rawValue is the value of an entry of the list: raw_value is what Envoy fills.
func rawValue(h *corev3.HeaderValue) string {
	if len(h.GetRawValue()) > 0 {
		return string(h.GetRawValue())
	}
	return h.GetValue()
}

// metadata reads a string from dynamic metadata.
func metadata(context *corev3.Metadata, path MetadataPath) (string, bool, error) {
	node := structpb.NewStructValue(context.GetFilterMetadata()[path.Namespace])
	for key := range strings.SplitSeq(path.Path, "/") {
		next, ok := node.GetStructValue().GetFields()[key]
		if !ok {
			return "", false, nil
		}
		node = next
	}
	text, ok := node.GetKind().(*structpb.Value_StringValue)
	if !ok {
		return "", true, fmt.Errorf("must be a string, is %s", kind(node))
	}
	return text.StringValue, true, nil
}

func kind(v *structpb.Value) string {
	switch v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return "a number"
	case *structpb.Value_BoolValue:
		return "a boolean"
	case *structpb.Value_ListValue:
		return "a list"
	case *structpb.Value_StructValue:
		return "an object"
	}
	return "null"
}
