package authz

import (
	"errors"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that is wrapped
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// codec is grpc's proto codec, but a CheckRequest always unmarshals. The standard
// codec fails before any handler, with a gRPC error, which a failure_mode_allow
// turns into an allow: one invalid UTF-8 byte in a header would then open the
// gate (CVE-2023-27488). Here such bytes become an empty request that carries its
// error, and the handler denies it.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// undecodedField is a field number that CheckRequest does not have. Who forges it
// is denied.
const undecodedField protowire.Number = 19_191

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	req, ok := v.(*authv3.CheckRequest)
	if err == nil || !ok {
		return err
	}
	proto.Reset(req)
	mark := protowire.AppendTag(nil, undecodedField, protowire.BytesType)
	req.ProtoReflect().SetUnknown(protowire.AppendString(mark, err.Error()))
	return nil
}

// undecoded returns the error of a request that did not unmarshal.
func undecoded(req *authv3.CheckRequest) error {
	for unknown := req.ProtoReflect().GetUnknown(); len(unknown) > 0; {
		number, kind, tag := protowire.ConsumeTag(unknown)
		if tag < 0 {
			return errors.New("unreadable unknown fields")
		}
		if number == undecodedField {
			text, _ := protowire.ConsumeString(unknown[tag:])
			return errors.New(text)
		}
		value := protowire.ConsumeFieldValue(number, kind, unknown[tag:])
		if value < 0 {
			return errors.New("unreadable unknown fields")
		}
		unknown = unknown[tag+value:]
	}
	return nil
}
