package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Samepod is a running samepod serve.
type Samepod struct {
	*Process
	Authz  netip.AddrPort // the first TCP listener
	Health netip.AddrPort
	Admin  netip.AddrPort
}

// SamepodBinary builds samepod from the checkout; race adds the race detector.
func SamepodBinary(ctx context.Context, race bool) (string, error) {
	top, err := root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(top, ".cache", "bin", "samepod")
	args := []string{"build"}
	if race {
		path += "-race"
		args = append(args, "-race")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	build := exec.CommandContext(ctx, "go", append(args, "-o", path, "./cmd/samepod")...)
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// StartSamepod runs binary serve with these flags, and where they do not say where
// to listen on free ports of loopback, and waits until it has said where.
func (l *Lab) StartSamepod(ctx context.Context, name, binary string, args ...string) (*Samepod, error) {
	if !slices.Contains(args, "--listen") { // it may be repeated
		args = append(args, "--listen", "127.0.0.1:0")
	}
	args = append([]string{"serve", "--health-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain-delay", "100ms"}, args...)
	p, err := l.Start(name, binary, args...)
	if err != nil {
		return nil, err
	}
	s := &Samepod{Process: p}
	return s, wait(ctx, p, "samepod starts", 30*time.Second, func() bool { return s.findAddresses() == nil })
}

// findAddresses reads them from the record with which the service starts.
func (s *Samepod) findAddresses() error {
	err := fmt.Errorf("no record yet")
	readErr := jsonLines(s.Err, func(line []byte) bool {
		var record struct {
			Msg           string
			Listen        []string
			Health, Admin string
		}
		if json.Unmarshal(line, &record) != nil || record.Msg != "starting" {
			return true
		}
		for _, text := range record.Listen {
			if a, parseErr := netip.ParseAddrPort(text); parseErr == nil && !s.Authz.IsValid() {
				s.Authz = a
			}
		}
		s.Health, _ = netip.ParseAddrPort(record.Health)
		s.Admin, _ = netip.ParseAddrPort(record.Admin)
		err = nil
		return false
	})
	if readErr != nil {
		return readErr
	}
	return err
}

// Ready reports whether /readyz answers 200, and what it says.
func (s *Samepod) Ready() (bool, string) {
	status, body, err := get("http://" + s.Health.String() + "/readyz")
	if err != nil {
		return false, err.Error()
	}
	return status == http.StatusOK, string(body)
}

// WaitReady waits until /readyz answers 200 (or no longer does).
func (s *Samepod) WaitReady(ctx context.Context, want bool, limit time.Duration) error {
	said := ""
	err := wait(ctx, s.Process, fmt.Sprintf("ready is %v", want), limit, func() bool {
		var got bool
		got, said = s.Ready()
		return got == want
	})
	if err != nil {
		return fmt.Errorf("%w\n/readyz: %s", err, said)
	}
	return nil
}

// Metric returns a sample of /metrics by its name with labels, as it is written.
func (s *Samepod) Metric(name string) (float64, error) {
	text, err := s.Metrics()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			var v float64
			_, err := fmt.Sscan(rest, &v)
			return v, err
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}

// Metrics returns /metrics.
func (s *Samepod) Metrics() (string, error) {
	_, body, err := get("http://" + s.Health.String() + "/metrics")
	return string(body), err
}

// Tenure is one entry of /history.
type Tenure struct {
	Pod, UID string
	From, To *time.Time
}

// History asks the admin listener who held an address.
func (s *Samepod) History(addr netip.Addr) ([]Tenure, error) {
	_, body, err := get("http://" + s.Admin.String() + "/history?address=" + addr.String())
	if err != nil {
		return nil, err
	}
	var all []Tenure
	return all, json.Unmarshal(body, &all)
}
