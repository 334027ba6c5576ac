package renewal

import (
	"errors"
	"io"
	"time"

	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Bounds of what clients can hold: a stream, and a message that is never finished.
const (
	mostStreams = 256 // an Envoy has one for each of its workers
	// mostSilence is how long a stream may be without a whole message; Envoy opens
	// another one with its next entry.
	mostSilence = time.Minute
)

// Service implements envoy.service.accesslog.v3.AccessLogService. It never answers,
// and never makes Envoy wait: what cannot be published is dropped and counted. The
// size of a message is bounded by the server it is registered on.
type Service struct {
	alsv3.UnimplementedAccessLogServiceServer
	publish func(Intent)
	metrics *Metrics
	places  chan struct{}
}

// NewService makes a Service that publishes by a func which must not block.
func NewService(publish func(Intent), m *Metrics) *Service {
	return &Service{publish: publish, metrics: m, places: make(chan struct{}, mostStreams)}
}

// Register adds the service to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) { alsv3.RegisterAccessLogServiceServer(r, s) }

// StreamAccessLogs implements alsv3.AccessLogServiceServer.
func (s *Service) StreamAccessLogs(stream grpc.ClientStreamingServer[alsv3.StreamAccessLogsMessage, alsv3.StreamAccessLogsResponse]) error {
	select {
	case s.places <- struct{}{}:
	default:
		return status.Errorf(codes.ResourceExhausted, "%d streams of access logs; no more are allowed", mostStreams)
	}
	s.metrics.streams.Inc()
	defer func() { <-s.places; s.metrics.streams.Dec() }()
	messages, ended := make(chan *alsv3.StreamAccessLogsMessage), make(chan error, 1)
	go func() {
		for {
			message, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case messages <- message:
			case <-stream.Context().Done(): // as it is when this call has returned
				return
			}
		}
	}()
	silence := time.NewTimer(mostSilence)
	defer silence.Stop()
	for {
		select {
		case message := <-messages:
			s.take(message)
			silence.Reset(mostSilence)
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return stream.SendAndClose(&alsv3.StreamAccessLogsResponse{})
			}
			return err
		case <-silence.C:
			return stream.SendAndClose(&alsv3.StreamAccessLogsResponse{})
		}
	}
}

// take publishes what a message says.
func (s *Service) take(message *alsv3.StreamAccessLogsMessage) {
	now := time.Now()
	for _, entry := range message.GetHttpLogs().GetLogEntry() {
		switch intent, err := fromEntry(entry, now); {
		case err == nil:
			s.publish(intent)
		case !errors.Is(err, errIdle):
			s.metrics.count(malformed)
		}
	}
}
