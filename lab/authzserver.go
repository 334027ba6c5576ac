package lab

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// AuthzServer is an external authorization server that answers what a test says:
// also what samepod must never answer.
type AuthzServer struct {
	authv3.UnimplementedAuthorizationServer
	Addr   netip.AddrPort
	server *grpc.Server
	answer atomic.Pointer[Answer]
	asked  atomic.Int64
}

// Answer answers one check.
type Answer func(ctx context.Context, req *authv3.CheckRequest) (*authv3.CheckResponse, error)

// StartAuthzServer starts one on a free port. It answers UNIMPLEMENTED until
// [AuthzServer.Say].
func (l *Lab) StartAuthzServer() (*AuthzServer, error) { return l.StartAuthzServerAt("127.0.0.1:0") }

// StartAuthzServerAt starts one on this address.
func (l *Lab) StartAuthzServerAt(address string) (*AuthzServer, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &AuthzServer{Addr: listener.Addr().(*net.TCPAddr).AddrPort()}
	s.server = grpc.NewServer()
	authv3.RegisterAuthorizationServer(s.server, s)
	healthy := health.NewServer()
	healthy.SetServingStatus(authv3.Authorization_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(s.server, healthy)
	go s.server.Serve(listener)
	l.onClose(s.Stop)
	return s, nil
}

// Stop ends it.
func (s *AuthzServer) Stop() { s.server.Stop() }

// Say sets the answer to every later check.
func (s *AuthzServer) Say(a Answer) { s.answer.Store(&a) }

// Asked is how many checks were made.
func (s *AuthzServer) Asked() int { return int(s.asked.Load()) }

// Check implements envoy.service.auth.v3.Authorization.
func (s *AuthzServer) Check(ctx context.Context, req *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	s.asked.Add(1)
	if a := s.answer.Load(); a != nil {
		return (*a)(ctx, req)
	}
	return s.UnimplementedAuthorizationServer.Check(ctx, req)
}
