package renewal

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
)

// serving starts a Service on a real server, and a client.
func serving(t *testing.T, s *Service) alsv3.AccessLogServiceClient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	s.Register(server)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return alsv3.NewAccessLogServiceClient(conn)
}

func entries(all ...*accesslogv3.HTTPAccessLogEntry) *alsv3.StreamAccessLogsMessage {
	return &alsv3.StreamAccessLogsMessage{LogEntries: &alsv3.StreamAccessLogsMessage_HttpLogs{HttpLogs: &alsv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: all}}}
}

func changed(changes ...change) *accesslogv3.HTTPAccessLogEntry {
	e := answered()
	for _, c := range changes {
		c(e)
	}
	return e
}

// TestStream: what of a stream is published, and what is counted.
func TestStream(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	var got []string // the one stream is read by one goroutine, which ends before the answer
	client := serving(t, NewService(func(i Intent) { got = append(got, i.ID) }, m))
	stream, err := client.StreamAccessLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range []*alsv3.StreamAccessLogsMessage{
		entries(changed(says("samepod_sandbox_id", "a")), changed(code(503)), changed(says("samepod_sandbox_id", "b"), running)),
		entries(),
		{},
		{LogEntries: &alsv3.StreamAccessLogsMessage_TcpLogs{TcpLogs: &alsv3.StreamAccessLogsMessage_TCPAccessLogEntries{LogEntry: []*accesslogv3.TCPAccessLogEntry{{}}}}},
		entries(changed(says("samepod_sandbox_id", "c")), changed(says("samepod_sandbox", nil))),
	} {
		if err := stream.Send(message); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(got, " "), "a b c"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := testutil.ToFloat64(m.intents.WithLabelValues(string(malformed))); n != 1 {
		t.Errorf("%v malformed, want 1", n)
	}
	if n := testutil.ToFloat64(m.streams); n != 0 {
		t.Errorf("%v streams are left", n)
	}
}

// quiet is a stream on which nobody says anything.
type quiet struct {
	grpc.ClientStreamingServer[alsv3.StreamAccessLogsMessage, alsv3.StreamAccessLogsResponse]
	ctx    context.Context
	answer *alsv3.StreamAccessLogsResponse
}

func (s *quiet) Context() context.Context { return s.ctx }

func (s *quiet) Recv() (*alsv3.StreamAccessLogsMessage, error) {
	<-s.ctx.Done()
	return nil, s.ctx.Err()
}

func (s *quiet) SendAndClose(r *alsv3.StreamAccessLogsResponse) error { s.answer = r; return nil }

// TestSilence: a stream without a whole message is ended, in peace.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewService(func(Intent) {}, NewMetrics(prometheus.NewRegistry()))
		stream := &quiet{ctx: t.Context()}
		started := time.Now()
		if err := s.StreamAccessLogs(stream); err != nil || stream.answer == nil || time.Since(started) != mostSilence {
			t.Errorf("%v, %v after %v", err, stream.answer, time.Since(started))
		}
	})
}

// TestMostStreams: one more than is allowed is refused, and one that ends makes place.
func TestMostStreams(t *testing.T) {
	taken := make(chan Intent)
	s := NewService(func(i Intent) { taken <- i }, NewMetrics(prometheus.NewRegistry()))
	s.places = make(chan struct{}, 1)
	client := serving(t, s)
	open := func() alsv3.AccessLogService_StreamAccessLogsClient {
		stream, err := client.StreamAccessLogs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	first := open()
	if err := first.Send(entries(changed())); err != nil {
		t.Fatal(err)
	}
	<-taken // it has its place
	second := open()
	if _, err := second.CloseAndRecv(); grpcstatus.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v, want ResourceExhausted", err)
	}
	if _, err := first.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
	third := open()
	if _, err := third.CloseAndRecv(); err != nil {
		t.Error(err)
	}
}
