package renewal

import (
	"errors"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var observed = time.Date(2026, 11, 30, 20, 52, 4, 0, time.UTC)

// answered is what Envoy 1.40 tells of a request that the Pod has answered with 200, as
// far as it is read.
func answered() *accesslogv3.HTTPAccessLogEntry {
	written, err := structpb.NewStruct(map[string]any{
		"samepod_renew": "true", "samepod_sandbox": "sandboxes/bsbx-6f9619ff", "samepod_sandbox_id": "6f9619ff-8b86",
		"samepod_upstream": "10.244.1.5:44772", "samepod_pod_uid": "uid-a", "samepod_decision": "d",
	})
	if err != nil {
		panic(err)
	}
	return &accesslogv3.HTTPAccessLogEntry{
		CommonProperties: &accesslogv3.AccessLogCommon{
			AccessLogType:             accesslogv3.AccessLogType_DownstreamEnd,
			TimeToFirstUpstreamTxByte: durationpb.New(time.Millisecond),
			TimeToFirstUpstreamRxByte: durationpb.New(2 * time.Millisecond),
			Metadata:                  &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{metadataNamespace: written}},
		},
		Response: &accesslogv3.HTTPResponseProperties{ResponseCode: wrapperspb.UInt32(200)},
	}
}

type change = func(e *accesslogv3.HTTPAccessLogEntry)

func code(status uint32) change {
	return func(e *accesslogv3.HTTPAccessLogEntry) { e.Response.ResponseCode = wrapperspb.UInt32(status) }
}

func unanswered(e *accesslogv3.HTTPAccessLogEntry) {
	e.Response, e.CommonProperties.TimeToFirstUpstreamRxByte = nil, nil
}

func notSent(e *accesslogv3.HTTPAccessLogEntry) {
	e.CommonProperties.TimeToFirstUpstreamTxByte, e.CommonProperties.TimeToFirstUpstreamRxByte = nil, nil
}

func running(e *accesslogv3.HTTPAccessLogEntry) {
	e.CommonProperties.AccessLogType = accesslogv3.AccessLogType_DownstreamPeriodic
}

func says(key string, v any) change {
	return func(e *accesslogv3.HTTPAccessLogEntry) {
		fields := e.CommonProperties.Metadata.FilterMetadata[metadataNamespace].Fields
		if delete(fields, key); v != nil {
			value, err := structpb.NewValue(v)
			if err != nil {
				panic(err)
			}
			fields[key] = value
		}
	}
}

// TestEntry: each line changes the entry of an answered request. Of the forms of real
// entries see the lab's TestRenew.
func TestEntry(t *testing.T) {
	const (
		renews = "renews"
		idle   = "idle"
		wrong  = "wrong"
	)
	for _, tc := range []struct {
		want, rule string
		changes    []change
	}{
		{renews, "a 200 of the Pod", nil},
		{renews, "a 101 of the Pod", []change{code(101)}},
		{renews, "a 409 of the Pod, as of execd's terminal", []change{code(409)}},
		{renews, "499 is the last", []change{code(499)}},
		{renews, "a stream that began to be answered and still runs", []change{running}},
		{renews, "a request that the Pod is working on", []change{running, unanswered}},

		{idle, "500 is the first", []change{code(500)}},
		{idle, "a 503 of the Pod", []change{code(503)}},
		{idle, "a 503 of a stream that still runs", []change{code(503), running}},
		{idle, "a 6xx is no answer", []change{code(600)}},
		{idle, "a 502 of Envoy's own", []change{code(502), func(e *accesslogv3.HTTPAccessLogEntry) { e.CommonProperties.TimeToFirstUpstreamRxByte = nil }}},
		{idle, "a 409 of Envoy's own, before anything was sent", []change{code(409), notSent}},
		{idle, "a 408 of Envoy's own, while the Pod had the request", []change{code(408), func(e *accesslogv3.HTTPAccessLogEntry) { e.CommonProperties.TimeToFirstUpstreamRxByte = nil }}},
		{idle, "a denial, which says nothing of a sandbox", []change{code(409), notSent, says("samepod_renew", nil)}},
		{idle, "a request that ended without an answer", []change{unanswered}},
		{idle, "a request that waits to be sent", []change{running, unanswered, notSent}},
		{idle, "a sandbox that does not ask", []change{says("samepod_renew", nil)}},
		{idle, "false is not true", []change{says("samepod_renew", "false")}},
		{idle, "a bool is no word of samepod's", []change{says("samepod_renew", true)}},
		{idle, "another filter's word", []change{func(e *accesslogv3.HTTPAccessLogEntry) {
			all := e.CommonProperties.Metadata.FilterMetadata
			all["other"], all[metadataNamespace] = all[metadataNamespace], nil
		}}},
		{idle, "nothing in common", []change{func(e *accesslogv3.HTTPAccessLogEntry) { e.CommonProperties = nil }}},

		{wrong, "no sandbox", []change{says("samepod_sandbox", nil)}},
		{wrong, "a sandbox without a namespace", []change{says("samepod_sandbox", "bsbx")}},
		{wrong, "a sandbox without a name", []change{says("samepod_sandbox", "sandboxes/")}},
		{wrong, "a namespace that is none", []change{says("samepod_sandbox", "Sand boxes/a")}},
		{wrong, "no id", []change{says("samepod_sandbox_id", nil)}},
		{wrong, "an empty id", []change{says("samepod_sandbox_id", "")}},
		{wrong, "an id with a space, which the server would strip", []change{says("samepod_sandbox_id", " a")}},
		{wrong, "an id with a quote", []change{says("samepod_sandbox_id", `a","x":"`)}},
		{wrong, "an id with a line end", []change{says("samepod_sandbox_id", "a\n")}},
		{wrong, "a number for an id", []change{says("samepod_sandbox_id", 7.0)}},
		{wrong, "no address", []change{says("samepod_upstream", nil)}},
		{wrong, "two addresses", []change{says("samepod_upstream", []any{"10.0.0.1:80", "10.0.0.2:80"})}},
	} {
		e := answered()
		for _, change := range tc.changes {
			change(e)
		}
		intent, err := fromEntry(e, observed)
		got := wrong
		switch {
		case err == nil:
			got = renews
			if want := (Intent{Sandbox{"sandboxes", "6f9619ff-8b86"}, 44772, observed}); intent != want {
				t.Errorf("%s: %v, want %v", tc.rule, intent, want)
			}
		case errors.Is(err, errIdle):
			got = idle
		}
		if got != tc.want {
			t.Errorf("%s: %s (%v), want %s", tc.rule, got, err, tc.want)
		}
	}
	if _, err := fromEntry(nil, observed); !errors.Is(err, errIdle) {
		t.Errorf("nil: %v", err)
	}
}

// FuzzEntry: whatever the bytes, an intent is of a request that was sent and did not
// fail, and its texts are what they may be.
func FuzzEntry(f *testing.F) {
	for _, changes := range [][]change{nil, {running, unanswered}, {code(503)}, {says("samepod_sandbox", nil)}} {
		e := answered()
		for _, change := range changes {
			change(e)
		}
		wire, err := proto.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		var e accesslogv3.HTTPAccessLogEntry
		if proto.Unmarshal(wire, &e) != nil {
			return
		}
		intent, err := fromEntry(&e, observed)
		if err != nil {
			if intent != (Intent{}) {
				t.Errorf("%v beside %v", intent, err)
			}
			return
		}
		if !namespaceForm.MatchString(intent.Namespace) || !idForm.MatchString(intent.ID) {
			t.Errorf("%q", intent.Sandbox)
		}
		if e.GetResponse().GetResponseCode().GetValue() >= 500 || e.GetCommonProperties().GetTimeToFirstUpstreamTxByte() == nil && e.GetCommonProperties().GetTimeToFirstUpstreamRxByte() == nil {
			t.Errorf("renews: %v", &e)
		}
	})
}
