package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Envoy is a running Envoy.
type Envoy struct {
	*Process
	Admin netip.AddrPort
	Addr  netip.AddrPort // of its first listener
}

// StartEnvoy runs an Envoy binary with this configuration, whose listener and
// admin interface should ask for port 0, and waits until it serves.
func (l *Lab) StartEnvoy(ctx context.Context, name, binary string, config []byte) (*Envoy, error) {
	file := filepath.Join(l.Dir, name+".yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	admin := filepath.Join(l.Dir, name+".admin")
	p, err := l.Start(name, binary, "-c", file, "--disable-hot-restart", "--concurrency", "1", "--admin-address-path", admin,
		"--log-level", "warning", "--file-flush-interval-msec", "20", "--drain-time-s", "1", "--parent-shutdown-time-s", "2")
	if err != nil {
		return nil, err
	}
	e := &Envoy{Process: p}
	return e, wait(ctx, p, name+" serves", 30*time.Second, func() bool {
		text, err := os.ReadFile(admin)
		if err != nil {
			return false
		}
		if e.Admin, err = netip.ParseAddrPort(strings.TrimSpace(string(text))); err != nil {
			return false
		}
		if status, _, err := e.admin("/ready"); err != nil || status != http.StatusOK {
			return false
		}
		return e.findListener() == nil
	})
}

// ValidateEnvoy asks an Envoy binary whether it takes the configuration.
func (l *Lab) ValidateEnvoy(name, binary string, config []byte) error {
	file := filepath.Join(l.Dir, name+".yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	p, err := l.Start(name, binary, "-c", file, "--mode", "validate", "--log-level", "error")
	if err != nil {
		return err
	}
	<-p.done
	if p.err != nil {
		return fmt.Errorf("envoy --mode validate: %w\n%s", p.err, p.tail())
	}
	return nil
}

func (e *Envoy) admin(path string) (int, []byte, error) {
	return get("http://" + e.Admin.String() + path)
}

func (e *Envoy) findListener() error {
	_, body, err := e.admin("/listeners?format=json")
	if err != nil {
		return err
	}
	var all struct {
		ListenerStatuses []struct {
			LocalAddress struct {
				SocketAddress struct {
					Address   string
					PortValue uint16 `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal(body, &all); err != nil {
		return err
	}
	if len(all.ListenerStatuses) == 0 {
		return fmt.Errorf("no listener yet")
	}
	a := all.ListenerStatuses[0].LocalAddress.SocketAddress
	ip, err := netip.ParseAddr(a.Address)
	e.Addr = netip.AddrPortFrom(ip, a.PortValue)
	return err
}

// URL is the address for a client.
func (e *Envoy) URL(path string) string { return "http://" + e.Addr.String() + path }

// Stat returns a counter or gauge by its full name, 0 where there is none.
func (e *Envoy) Stat(name string) (int, error) {
	_, body, err := e.admin("/stats?filter=^" + strings.ReplaceAll(name, ".", "%5C.") + "$")
	if err != nil {
		return 0, err
	}
	value := 0
	if text := strings.TrimSpace(string(body)); text != "" {
		_, err = fmt.Sscanf(text, name+": %d", &value)
	}
	return value, err
}

// AccessLog is one request, as the rendered access log tells it. Where Envoy has
// nothing to say a field is empty.
type AccessLog struct {
	Code       int
	Details    string
	Flags      string
	Decision   string
	Verified   text   // what samepod returned
	PodUID     string `json:"pod_uid"`
	Upstream   string // the host that was picked
	Remote     string // the address that was connected to
	Connection int
	Attempts   int
	RequestID  string `json:"request_id"`
	Method     string
}

// text is a string, or the JSON of what a scripted server returned in its place.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(raw []byte) error {
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil {
		*t = text(raw)
	} else if s != nil {
		*t = text(*s)
	}
	return nil
}

// AccessLog returns what Envoy has logged so far.
func (e *Envoy) AccessLog() ([]AccessLog, error) {
	text, err := os.ReadFile(e.Out)
	if err != nil {
		return nil, err
	}
	var all []AccessLog
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("{")) || !bytes.HasSuffix(line, []byte("\n")) {
			continue // a line of which the rest is still to come
		}
		var entry AccessLog
		if err := json.Unmarshal(line, &entry); err != nil {
			return nil, fmt.Errorf("access log: %w: %s", err, line)
		}
		all = append(all, entry)
	}
	return all, nil
}

// WaitForAccessLog waits until Envoy has logged n requests: it does so after the
// answer is sent.
func (e *Envoy) WaitForAccessLog(ctx context.Context, n int) (all []AccessLog, err error) {
	waitErr := wait(ctx, e.Process, fmt.Sprintf("%d requests in the access log", n), 10*time.Second, func() bool {
		all, err = e.AccessLog()
		return err != nil || len(all) >= n
	})
	if err == nil {
		err = waitErr
	}
	return all, err
}

// jsonLines calls f with every complete line of a file that is a JSON object.
func jsonLines(path string, f func(line []byte) (more bool)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil // the end, or a line of which the rest is still to come
		}
		if bytes.HasPrefix(line, []byte("{")) && !f(line) {
			return nil
		}
	}
}
