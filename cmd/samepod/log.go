package main

import (
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// newLogger makes the service's logger.
func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	if err := oneOf("log-format", format, "json", "text"); err != nil {
		return nil, err
	}
	if err := oneOf("log-level", level, "debug", "info", "warn", "error"); err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}[level]}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return slog.New(slog.NewJSONHandler(w, options)), nil
}

// spool is a writer that never waits: what cannot be written soon is dropped and
// counted. Whoever reads the log may stop reading (a full disk, a stuck agent),
// and a check that waited for it would run into Envoy's timeout.
type spool struct {
	records chan []byte
	written chan struct{} // closed when everything is
	dropped atomic.Uint64
}

// spooled is how many records may wait.
const spooled = 4096

func newSpool(w io.Writer) *spool {
	s := &spool{records: make(chan []byte, spooled), written: make(chan struct{})}
	go func() {
		defer close(s.written)
		for record := range s.records {
			_, _ = w.Write(record) // there is nowhere to say it
		}
	}()
	return s
}

// Write implements io.Writer. A handler of slog writes one record a call.
func (s *spool) Write(record []byte) (int, error) {
	select {
	case s.records <- append([]byte(nil), record...):
	default:
		s.dropped.Add(1)
	}
	return len(record), nil
}

// Close writes what is left, for at most a second. Nobody may write any more.
func (s *spool) Close() {
	close(s.records)
	select {
	case <-s.written:
	case <-time.After(time.Second):
	}
}
