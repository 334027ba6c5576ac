package lab_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestGRPC calls gRPC in a Pod, end to end. The control is the default protocol,
// which cannot carry it.
func TestGRPC(t *testing.T) {
	onEveryEnvoyAtOnce(t, func(t *testing.T, version string) {
		a := newArm(t, version, "--upstream-protocol", "downstream")
		addr := a.addrs.Take()
		pod := a.run("a", "uid-a", addr)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		claim := metadata.NewOutgoingContext(ctx, metadata.Pairs(claimOn("a", "uid-a", addr)...))
		client := func(target string) grpc_testing.TestServiceClient {
			conn := must(grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
			t.Cleanup(func() { conn.Close() })
			return grpc_testing.NewTestServiceClient(conn)
		}
		pods := client(a.envoy.Addr.String())
		hello := &grpc_testing.SimpleRequest{Payload: &grpc_testing.Payload{Body: []byte("hello")}}

		var trailer metadata.MD
		forged := func() bool { return len(trailer["x-samepod-reason"])+len(trailer["x-samepod-decision"]) > 0 }
		answer, err := pods.UnaryCall(claim, hello, grpc.Trailer(&trailer))
		if err != nil || string(answer.GetPayload().GetBody()) != "hello by uid-a" || !slices.Equal(trailer["served-by"], []string{"uid-a"}) || forged() {
			t.Errorf("a call: %v, %v, trailer %v", answer, err, trailer)
		}
		_, err = pods.UnaryCall(claim, &grpc_testing.SimpleRequest{ResponseStatus: &grpc_testing.EchoStatus{Code: int32(codes.AlreadyExists), Message: "mine"}}, grpc.Trailer(&trailer))
		if status.Code(err) != codes.AlreadyExists || status.Convert(err).Message() != "mine" || forged() {
			t.Errorf("a status of the Pod's own: %v, trailer %v", err, trailer)
		}

		stream := must(pods.FullDuplexCall(claim))(t)
		for _, word := range []string{"one", "two", "three"} { // each is answered before the next is said
			if err := stream.Send(&grpc_testing.StreamingOutputCallRequest{Payload: &grpc_testing.Payload{Body: []byte(word)}}); err != nil {
				t.Fatal(err)
			}
			if got := must(stream.Recv())(t); string(got.GetPayload().GetBody()) != word+" by uid-a" {
				t.Errorf("%s: %s", word, got.GetPayload().GetBody())
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) || !slices.Equal(stream.Trailer()["served-by"], []string{"uid-a"}) {
			t.Errorf("the end of a stream: %v, trailer %v", err, stream.Trailer())
		}

		executed := len(pod.Executed())
		var header metadata.MD
		_, err = pods.UnaryCall(metadata.NewOutgoingContext(ctx, metadata.Pairs(claimOn("a", "uid-old", addr)...)), hello, grpc.Header(&header), grpc.Trailer(&trailer))
		if reason := slices.Concat(header["x-samepod-reason"], trailer["x-samepod-reason"]); status.Code(err) != codes.Unknown || !slices.Contains(reason, "pod-replaced") {
			t.Errorf("another uid: %v, reason %q", err, reason)
		}
		if len(pod.Executed()) != executed {
			t.Error("a denied call reached the Pod")
		}
		// HTTP/1.1 stays HTTP/1.1.
		if c := do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", addr)...); c.status != 200 {
			t.Errorf("HTTP/1.1 beside it: %d %s", c.status, c.body)
		}
		// Another Pod at the address has a connection of its own, also in HTTP/2.
		pod.Stop()
		a.set("a", "uid-a", "", addr)
		a.run("b", "uid-b", addr)
		if _, err := pods.UnaryCall(claim, hello); status.Code(err) != codes.Unknown {
			t.Errorf("the Pod is gone: %v", err)
		}
		answer, err = pods.UnaryCall(metadata.NewOutgoingContext(ctx, metadata.Pairs(claimOn("b", "uid-b", addr)...)), hello)
		if err != nil || string(answer.GetPayload().GetBody()) != "hello by uid-b" {
			t.Errorf("its successor: %v, %v", answer, err)
		}
		a.invariant(7)

		control := func(name string, config []byte) (*grpc_testing.SimpleResponse, error) {
			e := must(a.StartEnvoy(t.Context(), name, envoyBinary(t, version), config))(t)
			waitForVerdicts(t, e)
			return client(e.Addr.String()).UnaryCall(metadata.NewOutgoingContext(ctx, metadata.Pairs(claimOn("b", "uid-b", addr)...)), hello, grpc.Trailer(&trailer))
		}
		if _, err := control("http1", a.bootstrap(version, a.samepod.Authz.String())); err == nil {
			t.Error("the control: HTTP/1.1 carries gRPC after all")
		}
		uncleaned := bytes.Replace(a.bootstrap(version, a.samepod.Authz.String(), "--upstream-protocol", "downstream"), []byte("response_trailers_mutations"), []byte("response_mutations"), 1)
		if _, err := control("uncleaned", uncleaned); err != nil || !forged() {
			t.Errorf("the control: trailers are cleaned by somebody else: %v, %v", err, trailer)
		}
	})
}
