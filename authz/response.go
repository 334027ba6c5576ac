package authz

import (
	"encoding/json"
	"net/http"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// What samepod and Envoy's configuration agree on. The templates of package envoy
// spell these out; a test of cmd/samepod holds the two together.
const (
	// MetadataNamespace is where Envoy puts the dynamic metadata of a check,
	// whatever the filter is named.
	MetadataNamespace = "envoy.filters.http.ext_authz"
	// UpstreamKey is the address to dial, "<ip>:<port>", canonical. Only an allow
	// has it: Envoy's shadow_mode would dial it on a denial too.
	UpstreamKey = "samepod_upstream"
	// UIDKey is the uid of the Pod at that address; pools are kept apart by it.
	UIDKey = "samepod_pod_uid"
	// DecisionKey is the id of the check, in the log and in a denial.
	DecisionKey = "samepod_decision"

	// SandboxKey is the sandbox as <namespace>/<name>, SandboxIDKey what the caller calls
	// it. RenewKey is "true" for one that asks for its life to be prolonged by use.
	SandboxKey   = "samepod_sandbox"
	SandboxIDKey = "samepod_sandbox_id"
	RenewKey     = "samepod_renew"

	// PodUIDHeader goes to the Pod, for a fence there to compare.
	PodUIDHeader = "x-samepod-pod-uid"
	// ReasonHeader and DecisionHeader go to the caller with a denial.
	ReasonHeader   = "x-samepod-reason"
	DecisionHeader = "x-samepod-decision"
)

// response is the only maker of CheckResponses; a test holds every other file to
// that. An allow needs the reason, an address and a uid: a Verdict that lacks one
// of them is a bug, and denies.
func response(v Verdict, decision string) *authv3.CheckResponse {
	switch {
	case v.Reason == SamePod && v.Upstream.IsValid() && v.UID != "":
		return allowed(v, decision)
	case v.Reason == SamePod, v.Reason >= reasonEnd:
		v = Verdict{}
	}
	return denied(v, decision)
}

func allowed(v Verdict, decision string) *authv3.CheckResponse {
	headers := []*corev3.HeaderValueOption{overwrite(PodUIDHeader, string(v.UID))}
	if v.Path != "" {
		headers = append(headers, overwrite(":path", v.Path))
	}
	if v.OwnHost {
		headers = append(headers, overwrite(":authority", v.Upstream.String()))
	}
	fields := map[string]*structpb.Value{
		UpstreamKey: structpb.NewStringValue(v.Upstream.String()),
		UIDKey:      structpb.NewStringValue(string(v.UID)),
		DecisionKey: structpb.NewStringValue(decision),
	}
	if v.SandboxID != "" {
		fields[SandboxKey] = structpb.NewStringValue(v.Sandbox.String())
		fields[SandboxIDKey] = structpb.NewStringValue(v.SandboxID)
	}
	if v.Renew {
		fields[RenewKey] = structpb.NewStringValue("true")
	}
	return &authv3.CheckResponse{
		Status:          &rpcstatus.Status{Code: int32(codes.OK)},
		HttpResponse:    &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{Headers: headers}},
		DynamicMetadata: &structpb.Struct{Fields: fields},
	}
}

// problem is the body of a denial (RFC 9457), in the order in which people read. The last
// two are extension members that say nothing new: OpenSandbox's SDKs show their users
// these, as execd has them, and nothing else of a body.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Reason    string `json:"reason"`
	Decision  string `json:"decision"`
	Forwarded bool   `json:"forwarded"` // always false: a denied request reached nobody
	Code      string `json:"code"`      // the reason
	Message   string `json:"message"`   // the reason and the detail
}

func denied(v Verdict, decision string) *authv3.CheckResponse {
	word := v.Reason.String()
	body := problem{
		Type: "urn:samepod:reason:" + word, Title: v.Reason.Title(), Status: v.Reason.Status(),
		Detail: v.Detail, Reason: word, Decision: decision, Code: word,
	}
	if body.Detail == "" {
		body.Detail = v.Reason.Detail()
	}
	body.Message = word + ": " + body.Detail
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // people read "<namespace>/<pod>" with curl
	if err := enc.Encode(body); err != nil {
		panic(err) // strings, an int and a bool
	}
	headers := []*corev3.HeaderValueOption{
		overwrite("content-type", "application/problem+json"),
		overwrite("cache-control", "no-store"),
		overwrite(ReasonHeader, word),
		overwrite(DecisionHeader, decision),
	}
	if v.Reason.Status() == http.StatusServiceUnavailable {
		headers = append(headers, overwrite("retry-after", "1"))
	}
	return &authv3.CheckResponse{
		Status: &rpcstatus.Status{Code: denialCode(v.Reason.Status()), Message: word},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode(v.Reason.Status())}, //nolint:gosec // a status of our table
			Headers: headers,
			Body:    text.String(),
		}},
		DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			DecisionKey: structpb.NewStringValue(decision),
		}},
	}
}

// denialCode is the gRPC code beside an HTTP status. Envoy looks only at whether
// it is 0, which would allow, so the default is not.
func denialCode(status int) int32 {
	switch status {
	case http.StatusBadRequest:
		return int32(codes.InvalidArgument)
	case http.StatusUnauthorized:
		return int32(codes.Unauthenticated)
	case http.StatusNotFound:
		return int32(codes.NotFound)
	case http.StatusConflict:
		return int32(codes.FailedPrecondition)
	case http.StatusServiceUnavailable:
		return int32(codes.Unavailable)
	}
	return int32(codes.PermissionDenied)
}

// overwrite sets a header whatever stands there. Both fields say so: some Envoys
// read only one of them, and 1.37.0 appended where append was unset
// (envoy#43310). Envoy reads value and ignores raw_value.
func overwrite(key, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: key, Value: value},
		Append:       wrapperspb.Bool(false), //nolint:staticcheck // deprecated, and what some Envoys read
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
