package authz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// What clients that mean harm do to the listener: nothing that they send is an
// allow or a gRPC error, what they hold is bounded, and others are served.

// rawDial connects a client that sends bytes as they are.
func rawDial(tb testing.TB) func(ctx context.Context, wire []byte) (*authv3.CheckResponse, error) {
	tb.Helper()
	server, _, _ := testServer(world(pod("a", on(addrX))))
	server.config.Log = slog.New(slog.DiscardHandler)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	e := NewEndpoint(server, EndpointConfig{})
	go e.Serve(l)
	conn := client(tb, l.Addr().String(), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")})))
	tb.Cleanup(func() { e.Drain(context.Background(), 0, time.Second) })
	return func(ctx context.Context, wire []byte) (*authv3.CheckResponse, error) {
		var resp authv3.CheckResponse
		err := conn.Invoke(ctx, authv3.Authorization_Check_FullMethodName, wire, &resp)
		return &resp, err
	}
}

// client connects to an address.
func client(tb testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	conn, err := grpc.NewClient(address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// sound says what no answer may be, whatever was asked.
func sound(resp *authv3.CheckResponse, err error) error {
	upstream, dialled := resp.GetDynamicMetadata().GetFields()[UpstreamKey]
	allowed := resp.GetStatus().GetCode() == 0
	switch {
	case err != nil:
		return fmt.Errorf("a gRPC error: %w", err)
	case resp.GetStatus() == nil:
		return errors.New("no status, which allows")
	case allowed && upstream.GetStringValue() != addrX+":80":
		return fmt.Errorf("an allow of %v", upstream)
	case allowed != dialled, allowed != (resp.GetOkResponse() != nil):
		return fmt.Errorf("an allow and a denial: %v", resp)
	}
	return nil
}

// fill sets every field of a message, down to a depth, so that each can be spoilt.
func fill(m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case m.Has(f) && f.Message() != nil && !f.IsList() && !f.IsMap():
			fill(m.Mutable(f).Message(), depth-1)
		case m.Has(f), f.IsMap(), f.ContainingOneof() != nil && m.WhichOneof(f.ContainingOneof()) != nil:
		case f.Message() != nil && f.IsList() && depth > 0:
			fill(m.Mutable(f).List().AppendMutable().Message(), depth-1)
		case f.Message() != nil && !f.IsList() && depth > 0:
			fill(m.Mutable(f).Message(), depth-1)
		case f.Kind() == protoreflect.StringKind && !f.IsList():
			m.Set(f, protoreflect.ValueOfString("filled"))
		case f.Kind() == protoreflect.BytesKind && !f.IsList():
			m.Set(f, protoreflect.ValueOfBytes([]byte("filled")))
		}
	}
}

// place is a field that is set somewhere in a message.
type place struct {
	path string
	in   func(root protoreflect.Message) protoreflect.Message
	f    protoreflect.FieldDescriptor
}

// places are all fields that are set, also those of lists and of messages within.
func places(root protoreflect.Message) []place {
	var all []place
	var walk func(path string, in func(protoreflect.Message) protoreflect.Message)
	walk = func(path string, in func(protoreflect.Message) protoreflect.Message) {
		in(root).Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			here := path + "." + string(f.Name())
			all = append(all, place{here, in, f})
			switch {
			case f.Message() == nil || f.IsMap():
			case f.IsList():
				for i := range in(root).Get(f).List().Len() {
					walk(fmt.Sprintf("%s[%d]", here, i), func(r protoreflect.Message) protoreflect.Message { return in(r).Get(f).List().Get(i).Message() })
				}
			default:
				walk(here, func(r protoreflect.Message) protoreflect.Message { return in(r).Get(f).Message() })
			}
			return true
		})
	}
	walk("", func(r protoreflect.Message) protoreflect.Message { return r })
	return all
}

// TestHostileFields spoils every field of a request that would be allowed, one at a
// time, and sends it over a real connection.
func TestHostileFields(t *testing.T) {
	check := rawDial(t)
	for _, encodingOf := range []string{"map", "list"} {
		whole := request()
		if encodingOf == "list" {
			whole = request(raw())
		}
		fill(whole.ProtoReflect(), 4)
		wire := must(proto.Marshal(whole))
		if resp, err := check(t.Context(), wire); err != nil || reasonOf(resp) != "same-pod" {
			t.Fatalf("the control: %v, %v", reasonOf(resp), err)
		}
		tried := 0
		for _, p := range places(whole.ProtoReflect()) {
			isText := !p.f.IsList() && !p.f.IsMap() && (p.f.Kind() == protoreflect.StringKind || p.f.Kind() == protoreflect.BytesKind)
			text := func(v string) []byte {
				if !isText {
					return nil
				}
				clone := proto.CloneOf(whole)
				value := protoreflect.ValueOfString(v)
				if p.f.Kind() == protoreflect.BytesKind {
					value = protoreflect.ValueOfBytes([]byte(v))
				}
				p.in(clone.ProtoReflect()).Set(p.f, value)
				return must(proto.Marshal(clone))
			}
			absent := proto.CloneOf(whole)
			p.in(absent.ProtoReflect()).Clear(p.f)
			const mark = "MARKMARK"
			for rule, spoilt := range map[string][]byte{
				"absent": must(proto.Marshal(absent)), "empty": text(""), "huge": text(strings.Repeat("x", 60<<10)),
				"not UTF-8": bytes.ReplaceAll(text(mark), []byte(mark), []byte("\xff\xfe\xc3\x28\xa0\xa1\x00\x00")), "a zero byte": text("a\x00b"), "a number": text("1"),
				"twice": append(bytes.Clone(wire), text("other")...),
			} {
				if spoilt == nil || rule == "twice" && !isText {
					continue
				}
				tried++
				resp, err := check(t.Context(), spoilt)
				if fault := sound(resp, err); fault != nil {
					t.Errorf("%s, %s %s: %v", encodingOf, p.path, rule, fault)
				}
				if got, want := reasonOf(resp) == "same-pod", stillSays(spoilt, request()); got != want {
					t.Errorf("%s, %s %s: allowed %v, want %v", encodingOf, p.path, rule, got, want)
				}
			}
		}
		t.Logf("%s: %d spoilt requests", encodingOf, tried)
		if tried < 100 {
			t.Errorf("%s: only %d fields were spoilt", encodingOf, tried)
		}
	}
}

// stillSays reports whether bytes still make the claim of a request: each of its
// headers once, in either encoding, with the same value.
func stillSays(wire []byte, claim *authv3.CheckRequest) bool {
	var req authv3.CheckRequest
	if proto.Unmarshal(wire, &req) != nil {
		return false
	}
	got := map[string][]string{}
	for k, v := range req.GetAttributes().GetRequest().GetHttp().GetHeaders() {
		got[strings.ToLower(k)] = append(got[strings.ToLower(k)], v)
	}
	for _, h := range req.GetAttributes().GetRequest().GetHttp().GetHeaderMap().GetHeaders() {
		k := strings.ToLower(h.GetKey())
		for _, v := range []string{h.GetValue(), string(h.GetRawValue())} {
			if v != "" {
				got[k] = append(got[k], v)
			}
		}
	}
	for _, name := range []string{target, expectUID, recordedAt} {
		if v := got[name]; len(v) != 1 || v[0] != claim.GetAttributes().GetRequest().GetHttp().GetHeaders()[name] {
			return false
		}
	}
	return true
}

// FuzzConnection: no bytes get more than a denial over a real connection.
func FuzzConnection(f *testing.F) {
	for _, r := range []*authv3.CheckRequest{request(), request(raw()), {}} {
		fill(r.ProtoReflect(), 3)
		f.Add(must(proto.Marshal(r)))
	}
	check := rawDial(f)
	f.Fuzz(func(t *testing.T, wire []byte) {
		if len(wire) > mostRequest {
			return
		}
		if fault := sound(check(t.Context(), wire)); fault != nil {
			t.Error(fault)
		}
	})
}

// TestManyChecks: ten thousand checks at once, each with the answer to its own
// question, in memory that does not grow with them.
func TestManyChecks(t *testing.T) {
	server, _, _ := testServer(world(pod("a", on(addrX))))
	server.config.Log = slog.New(slog.DiscardHandler)
	first, _ := dial(t, server)
	conns := []*grpc.ClientConn{first}
	for range 7 {
		conns = append(conns, client(t, first.Target()))
	}
	const checks = 10_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	var mu sync.Mutex
	wrong := map[string]int{}
	for i := range checks {
		all.Go(func() {
			req, want := request(), "same-pod"
			if i%2 == 1 {
				req, want = request(set(expectUID, "B")), "pod-replaced"
			}
			resp, err := authv3.NewAuthorizationClient(conns[i%len(conns)]).Check(t.Context(), req)
			if got := reasonOf(resp); err != nil || got != want {
				mu.Lock()
				defer mu.Unlock()
				wrong[fmt.Sprintf("%s for %s, %v", got, want, err)]++
			}
		})
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	if len(wrong) > 0 {
		t.Errorf("wrong answers: %v", wrong)
	}
	grown := int64(after.Sys) - int64(before.Sys)
	t.Logf("%d checks took %d MiB from the system, clients included", checks, grown>>20)
	if grown > 1<<30 {
		t.Errorf("%d MiB", grown>>20)
	}
}

// rawClient speaks HTTP/2 frames, as no library would.
type rawClient struct {
	t    *testing.T
	conn net.Conn
	*http2.Framer
	hpack *hpack.Encoder
	block bytes.Buffer
}

func newRawClient(t *testing.T, address string) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &rawClient{t: t, conn: conn, Framer: http2.NewFramer(conn, conn)}
	c.hpack = hpack.NewEncoder(&c.block)
	io.WriteString(conn, http2.ClientPreface)
	if err := c.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// open opens a stream for a check and says no more.
func (c *rawClient) open(id uint32, header ...hpack.HeaderField) error {
	c.block.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: authv3.Authorization_Check_FullMethodName},
		{Name: ":authority", Value: "x"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}, header...) {
		c.hpack.WriteField(f)
	}
	block := c.block.Bytes()
	const most = 16 << 10 // bytes of a frame
	first := block[:min(len(block), most)]
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndHeaders: len(first) == len(block)}); err != nil {
		return err
	}
	for block = block[len(first):]; len(block) > 0; {
		next := block[:min(len(block), most)]
		block = block[len(next):]
		if err := c.WriteContinuation(id, len(block) == 0, next); err != nil {
			return err
		}
	}
	return nil
}

// read reads frames until one of this kind for a stream, or the end.
func (c *rawClient) read(ok func(http2.Frame) bool) error {
	c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return err
		}
		if ok(f) {
			return nil
		}
	}
}

// TestHostileConnections: while one client misbehaves, another one is served.
func TestHostileConnections(t *testing.T) {
	server, _, _ := testServer(world(pod("a", on(addrX))))
	server.config.Log = slog.New(slog.DiscardHandler)
	conn, _ := dial(t, server)
	served := func(while string) {
		t.Helper()
		resp, err := authv3.NewAuthorizationClient(client(t, conn.Target())).Check(timeout(t, 10*time.Second), request())
		if err != nil || reasonOf(resp) != "same-pod" {
			t.Errorf("while %s: %v, %v", while, reasonOf(resp), err)
		}
	}

	t.Run("streams that say nothing", func(t *testing.T) {
		c := newRawClient(t, conn.Target())
		limit := uint32(0)
		if err := c.read(func(f http2.Frame) bool {
			s, ok := f.(*http2.SettingsFrame)
			if ok {
				limit, _ = s.Value(http2.SettingMaxConcurrentStreams)
			}
			return ok
		}); err != nil || limit != mostStreams {
			t.Fatalf("the server allows %d streams, %v", limit, err)
		}
		for i := range uint32(mostStreams + 1) {
			if err := c.open(2*i + 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.read(func(f http2.Frame) bool {
			r, ok := f.(*http2.RSTStreamFrame)
			return ok && r.ErrCode == http2.ErrCodeRefusedStream && r.StreamID == 2*mostStreams+1
		}); err != nil {
			t.Errorf("one stream too many is not refused: %v", err)
		}
		served("a client holds all of its streams")
	})

	t.Run("headers without an end", func(t *testing.T) {
		c := newRawClient(t, conn.Target())
		if err := c.open(1, hpack.HeaderField{Name: "x-long", Value: strings.Repeat("x", 2*mostHeaders)}); err != nil {
			t.Fatal(err)
		}
		refused := func(f http2.Frame) bool {
			r, isReset := f.(*http2.RSTStreamFrame)
			_, isGoAway := f.(*http2.GoAwayFrame)
			return isReset && r.StreamID == 1 || isGoAway
		}
		if err := c.read(refused); errors.Is(err, os.ErrDeadlineExceeded) { // any other error is a connection that was closed
			t.Errorf("%d KiB of headers: %v", 2*mostHeaders>>10, err)
		}
		served("a client sends headers without an end")
	})

	t.Run("a message that is too long", func(t *testing.T) {
		req := request(set("x-long", strings.Repeat("x", mostRequest)))
		if _, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req); err == nil {
			t.Error("it is answered; the documentation says that Envoy decides")
		}
		served("a client sends long messages")
	})

	t.Run("silence", func(t *testing.T) {
		var silent []net.Conn
		for range 500 {
			c, err := net.Dial("tcp", conn.Target())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			silent = append(silent, c)
		}
		served("500 clients say nothing")
		started := time.Now()
		for _, c := range silent {
			c.SetReadDeadline(started.Add(10 * handshakeTimeout))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("a silent connection is kept: %v", err)
			}
		}
	})

	t.Run("streams that are opened and reset", func(t *testing.T) {
		c := newRawClient(t, conn.Target())
		for i := range uint32(5000) {
			if c.open(2*i+1) != nil || c.WriteRSTStream(2*i+1, http2.ErrCodeCancel) != nil {
				break // closed: as good an end as any
			}
		}
		served("a client resets streams")
	})
}

// TestLargestRequest: all headers that Envoy takes by default fit, in either encoding.
func TestLargestRequest(t *testing.T) {
	check := rawDial(t)
	const envoys = 60 << 10 // max_request_headers_kb
	for encodingOf, req := range map[string]*authv3.CheckRequest{"map": request(set("x-long", strings.Repeat("x", envoys))), "list": request(set("x-long", strings.Repeat("x", envoys)), raw())} {
		if resp, err := check(t.Context(), must(proto.Marshal(req))); err != nil || reasonOf(resp) != "same-pod" {
			t.Errorf("%s: %v, %v", encodingOf, reasonOf(resp), err)
		}
	}
}

// TestUnfinishedMessages: clients that send all of their messages but the end, on all
// of their streams, hold little, and not for long.
func TestUnfinishedMessages(t *testing.T) {
	server, _, _ := testServer(world(pod("a", on(addrX))))
	server.config.Log = slog.New(slog.DiscardHandler)
	conn, _ := dial(t, server)
	const clients, most = 4, 512 << 20 // bytes
	// grpc-go keeps a frame of just more than 1 KiB in a buffer of 4 KiB.
	const chunk, buffer = 1<<10 + 16, 4 << 10
	if bound := clients * mostStreams * (mostRequest + streamWindow) / chunk * buffer; bound > most {
		t.Errorf("%d clients may hold %d MiB", clients, bound>>20)
	}
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var sending, ending sync.WaitGroup
	for range clients {
		c := newRawClient(t, conn.Target())
		ended := 0
		ending.Go(func() {
			if err := c.read(func(f http2.Frame) bool {
				if h, ok := f.(*http2.HeadersFrame); ok && h.StreamEnded() {
					ended++
				}
				return ended == mostStreams
			}); err != nil {
				t.Errorf("%d of %d calls are ended: %v", ended, mostStreams, err)
			}
		})
		sending.Go(func() {
			for i := range uint32(mostStreams) {
				if err := errors.Join(c.open(2*i+1), c.WriteData(2*i+1, false, []byte{0, 0, mostRequest >> 16, mostRequest >> 8 & 0xff, mostRequest & 0xff})); err != nil {
					t.Error(err)
					return
				}
			}
			for sent := 0; sent+chunk < mostRequest; sent += chunk {
				for i := range uint32(mostStreams) {
					if err := c.WriteData(2*i+1, false, make([]byte, chunk)); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	sending.Wait()
	var held runtime.MemStats
	runtime.ReadMemStats(&held)
	t.Logf("%d clients sent %d MiB, of which %d MiB are held", clients, clients*mostStreams*mostRequest>>20, (int64(held.HeapInuse)-int64(before.HeapInuse))>>20)
	if held.HeapInuse > before.HeapInuse+most {
		t.Errorf("%d MiB are held", (held.HeapInuse-before.HeapInuse)>>20)
	}
	ending.Wait()
	resp, err := authv3.NewAuthorizationClient(client(t, conn.Target())).Check(timeout(t, 10*time.Second), request())
	if err != nil || reasonOf(resp) != "same-pod" {
		t.Errorf("another client: %v, %v", reasonOf(resp), err)
	}
}

// TestHealthIsNotWatched: there is no call without an end.
func TestHealthIsNotWatched(t *testing.T) {
	server, _, _ := testServer(world())
	conn, _ := dial(t, server)
	watch, err := healthv1.NewHealthClient(conn).Watch(timeout(t, 10*time.Second), &healthv1.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("watching health: %v", err)
	}
}

// TestNeverReads: from a client that asks and does not read the server soon reads no
// more, so that it holds a bounded number of answers; its pings then end the
// connection.
func TestNeverReads(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of real time")
	}
	t.Parallel()
	server, _, _ := testServer(world(pod("a", on(addrX))))
	server.config.Log = slog.New(slog.DiscardHandler)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := NewEndpoint(server, EndpointConfig{})
	// As samepod serve listens: the connections are no *net.TCPConn, for which grpc-go
	// would also set TCP_USER_TIMEOUT.
	go e.Serve(netutil.LimitListener(l, 100))
	t.Cleanup(func() { e.Drain(context.Background(), 0, time.Second) })
	conn := client(t, l.Addr().String())
	c := newRawClient(t, conn.Target())
	message := must(proto.Marshal(request()))
	message = append([]byte{0, 0, 0, byte(len(message) >> 8), byte(len(message))}, message...)
	c.conn.SetWriteDeadline(time.Now().Add(4 * (pingAfter + pingTimeout)))
	id := uint32(1)
	for err = nil; err == nil; id += 2 {
		if err = c.open(id); err == nil {
			err = c.WriteData(id, true, message)
		}
	}
	t.Logf("closed after %d checks: %v", id/2, err)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a client that never reads is kept")
	}
	resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), request())
	if err != nil || reasonOf(resp) != "same-pod" {
		t.Errorf("another client: %v, %v", reasonOf(resp), err)
	}
}
