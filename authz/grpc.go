package authz

import (
	"context"
	"errors"
	"net"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// Endpoint is the gRPC server that Envoy talks to: Check, and health for the
// service and for "".
type Endpoint struct {
	server *grpc.Server
	health *health.Server
	// streams are the methods of other services that last. endStreams ends them, and
	// atEnd arranges for what happens then.
	streams    map[string]bool
	endStreams func()
	atEnd      func(do func()) (forget func() bool)
}

// EndpointConfig is what can be chosen of an [Endpoint]. The zero value is
// plaintext, on connections of any age.
type EndpointConfig struct {
	Reflection  bool
	Credentials credentials.TransportCredentials // nil for plaintext
	// ConnectionAge is after how long a connection is told to end, within
	// [AgeGrace]: Envoy then makes a new one, shows its present certificate, and
	// spreads over the replicas that there are now. 0 is never.
	ConnectionAge time.Duration
	// Wait is how long a check may wait for a Pod, beyond what any call may take.
	Wait time.Duration
	// Register adds other services; nil is none. Their calls are bounded as checks
	// are, but a stream lasts until the client ends it, its connection ends, or the
	// Endpoint drains.
	Register func(grpc.ServiceRegistrar)
}

// Bounds of what one client can hold. Envoy is far from all of them: as rendered it
// has 100 checks at a time on a connection, of some kilobytes each.
const (
	mostStreams     = 128
	mostRequest     = 128 << 10 // bytes of a message: twice what Envoy takes as headers by default
	mostMessage     = 256 << 10 // of any service beside: Envoy's first one lists its own extensions, which alone is 60 KiB
	streamWindow    = 64 << 10  // bytes that are taken unread of a stream; grpc-go's own guess grows to 16 MiB
	connWindow      = 1 << 20   // bytes on their way, of all streams
	mostHeaders     = 64 << 10  // bytes of gRPC's own headers, not of the request that is checked
	pingAfter       = 30 * time.Second
	pingTimeout     = 10 * time.Second
	minPingInterval = 10 * time.Second // Envoy's is 30 s as rendered

	// AgeGrace is how long after its age a connection may finish its checks.
	AgeGrace = 10 * time.Second
)

// NewEndpoint makes an Endpoint that is NOT_SERVING.
func NewEndpoint(check *Server, c EndpointConfig) *Endpoint {
	lasting, end := context.WithCancel(context.Background())
	e := &Endpoint{health: health.NewServer(), streams: map[string]bool{}, endStreams: end}
	e.atEnd = func(do func()) (forget func() bool) { return context.AfterFunc(lasting, do) }
	most := mostRequest
	if c.Register != nil {
		most = mostMessage
	}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		// grpc-go would take more than one ping in 5 minutes for an attack and close.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
		// Who does not answer pings does not read: its answers are not kept for ever.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout, MaxConnectionAge: c.ConnectionAge, MaxConnectionAgeGrace: AgeGrace}),
		// Who connects and says nothing is not waited for: it would also hold up
		// the end of the process.
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxConcurrentStreams(mostStreams),
		grpc.MaxRecvMsgSize(most),
		grpc.MaxHeaderListSize(mostHeaders),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.InTapHandle(e.bound(callTimeout + c.Wait)),
	}
	if c.Credentials != nil {
		options = append(options, grpc.Creds(c.Credentials))
	}
	e.server = grpc.NewServer(options...)
	authv3.RegisterAuthorizationServer(e.server, check)
	healthv1.RegisterHealthServer(e.server, healthChecks{e.health})
	if c.Register != nil {
		c.Register(registrar{e})
	}
	if c.Reflection {
		reflection.Register(e.server)
	}
	e.SetServing(false)
	return e
}

// SetServing sets the health of both service names.
func (e *Endpoint) SetServing(serving bool) {
	status := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthv1.HealthCheckResponse_SERVING
	}
	e.health.SetServingStatus("", status)
	e.health.SetServingStatus(authv3.Authorization_ServiceDesc.ServiceName, status)
}

// Serve answers on the listener until [Endpoint.Drain], which may come first.
func (e *Endpoint) Serve(l net.Listener) error {
	if err := e.server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Drain ends service without a lost check: NOT_SERVING first, then wait until
// every Envoy has seen it (its health check interval times the threshold), then
// stop accepting, end streams and let running checks finish, for at most timeout.
// Cancelling ctx skips what is left of the waiting.
func (e *Endpoint) Drain(ctx context.Context, wait, timeout time.Duration) {
	e.health.Shutdown() // for good: later SetServing calls change nothing
	sleep(ctx, wait)
	e.endStreams()
	stopped := make(chan struct{})
	go func() {
		e.server.GracefulStop()
		close(stopped)
	}()
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case <-stopped:
	case <-bounded.Done():
		// Stop itself waits for handlers and handshakes; the process need not.
		go e.server.Stop()
		sleep(context.WithoutCancel(ctx), stopGrace)
	}
}

// bound gives a call so long, from its headers on: a client that never sends the rest of
// its message holds what it has sent no longer. Nothing that is offered takes that long,
// except for streams that last.
func (e *Endpoint) bound(timeout time.Duration) tap.ServerInHandle {
	return func(ctx context.Context, call *tap.Info) (context.Context, error) {
		var cancel context.CancelFunc
		if e.streams[call.FullMethodName] {
			ctx, cancel = context.WithCancel(ctx)
			forget := e.atEnd(cancel)
			context.AfterFunc(ctx, func() { forget() })
		} else {
			ctx, cancel = context.WithTimeout(ctx, timeout)
		}
		context.AfterFunc(ctx, cancel) // with the call
		return ctx, nil
	}
}

// registrar notes the streams of a service that is registered on an Endpoint.
type registrar struct{ *Endpoint }

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(service *grpc.ServiceDesc, by any) {
	for _, s := range service.Streams {
		r.streams["/"+service.ServiceName+"/"+s.StreamName] = true
	}
	r.server.RegisterService(service, by)
}

// healthChecks is health that is asked for, as Envoy and the kubelet do. Watching it
// is a call without an end.
type healthChecks struct{ *health.Server }

// Watch implements healthv1.HealthServer.
func (healthChecks) Watch(*healthv1.HealthCheckRequest, grpc.ServerStreamingServer[healthv1.HealthCheckResponse]) error {
	return status.Error(codes.Unimplemented, "health is not watched; allowed: Check")
}

const (
	handshakeTimeout = 2 * time.Second
	callTimeout      = 2 * time.Second
	stopGrace        = 100 * time.Millisecond // for the connections to be closed
)

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
