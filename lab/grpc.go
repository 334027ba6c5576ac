package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// echoService is gRPC in a Pod: it says at once what it hears, and in its trailers
// whose Pod it is. There it also says what only samepod may.
type echoService struct {
	grpc_testing.UnimplementedTestServiceServer
	pod *Pod
}

func grpcHandler(p *Pod) http.Handler {
	server := grpc.NewServer()
	grpc_testing.RegisterTestServiceServer(server, echoService{pod: p})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.execute(r, "grpc "+r.URL.Path)
		server.ServeHTTP(w, r)
	})
}

func (s echoService) trailer() metadata.MD {
	return metadata.Pairs("served-by", s.pod.UID, "x-samepod-reason", "same-pod", "x-samepod-decision", "forged")
}

func (s echoService) answer(said []byte) *grpc_testing.Payload {
	return &grpc_testing.Payload{Body: fmt.Appendf(nil, "%s by %s", said, s.pod.UID)}
}

// UnaryCall answers, or with a wanted status ends with it.
func (s echoService) UnaryCall(ctx context.Context, r *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	if err := grpc.SetTrailer(ctx, s.trailer()); err != nil {
		return nil, err
	}
	if want := r.GetResponseStatus(); want != nil {
		return nil, status.Error(codes.Code(want.GetCode()), want.GetMessage())
	}
	return &grpc_testing.SimpleResponse{Payload: s.answer(r.GetPayload().GetBody())}, nil
}

// FullDuplexCall answers each message before it reads the next.
func (s echoService) FullDuplexCall(stream grpc_testing.TestService_FullDuplexCallServer) error {
	stream.SetTrailer(s.trailer())
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{Payload: s.answer(r.GetPayload().GetBody())}); err != nil {
			return err
		}
	}
}
