package authz

import (
	"context"
	"net"
	"testing"
	"time"

	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// stream is a service that reads until its stream ends.
type stream struct {
	alsv3.UnimplementedAccessLogServiceServer
	opened chan context.Context
}

func (s stream) StreamAccessLogs(call grpc.ClientStreamingServer[alsv3.StreamAccessLogsMessage, alsv3.StreamAccessLogsResponse]) error {
	s.opened <- call.Context()
	for {
		if _, err := call.Recv(); err != nil {
			return err
		}
	}
}

// TestStreams: a stream of a service beside Check has no deadline, a check still has
// one, and an Endpoint that drains does not wait for a stream.
func TestStreams(t *testing.T) {
	server, _, _ := testServer(world(pod("a", on(addrX))))
	beside := stream{opened: make(chan context.Context, 1)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := NewEndpoint(server, EndpointConfig{Register: func(r grpc.ServiceRegistrar) { alsv3.RegisterAccessLogServiceServer(r, beside) }})
	go e.Serve(l)
	conn := client(t, l.Addr().String())
	if _, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{}); err != nil {
		t.Fatal(err)
	}
	call, err := alsv3.NewAccessLogServiceClient(conn).StreamAccessLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lasts := <-beside.opened
	if at, ok := lasts.Deadline(); ok {
		t.Errorf("a stream ends in %v", time.Until(at))
	}
	e.Drain(t.Context(), 0, 2*time.Second)
	if err := call.RecvMsg(nil); status.Code(err) != codes.Canceled { // Unavailable: the connection was cut
		t.Errorf("%v, want Canceled", err)
	}
}

// TestBeside: only what is registered as a stream lasts.
func TestBeside(t *testing.T) {
	server, _, _ := testServer(world(pod("a", on(addrX))))
	e := NewEndpoint(server, EndpointConfig{Register: func(r grpc.ServiceRegistrar) { alsv3.RegisterAccessLogServiceServer(r, stream{}) }})
	for method, lasts := range map[string]bool{
		alsv3.AccessLogService_StreamAccessLogs_FullMethodName:           true,
		authv3.Authorization_Check_FullMethodName:                        false,
		"/grpc.health.v1.Health/Watch":                                   false,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      false,
		"/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs/": false,
	} {
		if e.streams[method] != lasts {
			t.Errorf("%s lasts: %v", method, !lasts)
		}
	}
}
