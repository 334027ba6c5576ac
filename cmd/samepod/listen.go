package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// listeners are all sockets of the service.
type listeners struct {
	authz  []net.Listener
	health net.Listener
	admin  net.Listener // nil for none
}

// listen judges every address, and then opens every socket or none.
func listen(f serveFlags) (_ *listeners, err error) {
	if len(f.listen) == 0 {
		return nil, errors.New("--listen: missing; allowed: <ip>:<port> or unix:///path")
	}
	for _, address := range f.listen {
		if err := judgeAuthz(address, f.tls); err != nil {
			return nil, fmt.Errorf("--listen: %w", err)
		}
	}
	mode, err := strconv.ParseUint(f.socketMode, 8, 9)
	if err != nil {
		return nil, fmt.Errorf("--socket-mode: %q; allowed: permissions in octal, up to 0777", f.socketMode)
	}
	if _, err := isLoopback(f.health); err != nil {
		return nil, fmt.Errorf("--health-listen: %w", err)
	}
	if f.admin != "" {
		local, err := isLoopback(f.admin)
		if err == nil && !local {
			err = fmt.Errorf("%q: not loopback; the admin listener tells everything to anyone who asks", f.admin)
		}
		if err != nil {
			return nil, fmt.Errorf("--admin-listen: %w", err)
		}
	}

	l := &listeners{}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	for _, address := range f.listen {
		next, err := listenAuthz(address, fs.FileMode(mode))
		if err != nil {
			return nil, fmt.Errorf("--listen: %w", err)
		}
		l.authz = append(l.authz, &boundListener{Listener: next, mostUnproven: mostUnproven, mostProven: f.maxConns})
	}
	if l.health, err = listenHTTP(f.health); err != nil {
		return nil, fmt.Errorf("--health-listen: %w", err)
	}
	if f.admin != "" {
		if l.admin, err = listenHTTP(f.admin); err != nil {
			return nil, fmt.Errorf("--admin-listen: %w", err)
		}
	}
	return l, nil
}

func (l *listeners) close() {
	for _, each := range append([]net.Listener{l.health, l.admin}, l.authz...) {
		if each != nil {
			_ = each.Close() // closed already where it was served
		}
	}
}

func (l *listeners) addresses() []string {
	texts := make([]string, len(l.authz))
	for i, each := range l.authz {
		texts[i] = each.Addr().String()
	}
	return texts
}

func (l *listeners) adminAddress() string {
	if l.admin == nil {
		return ""
	}
	return l.admin.Addr().String()
}

const unixScheme = "unix://"

func isUnix(address string) bool { return strings.HasPrefix(address, unixScheme) }

func isTCP(address string) bool { return !isUnix(address) }

// isExposed reports whether others than this machine may reach the address.
func isExposed(address string) bool {
	local, err := isLoopback(address)
	return isTCP(address) && err == nil && !local
}

// judgeAuthz says why Envoy must not be answered there.
func judgeAuthz(address string, secured tlsFlags) error {
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		const most = 107 // bytes of sun_path on Linux, but for its end
		if !filepath.IsAbs(path) || len(path) > most {
			return fmt.Errorf("%q; allowed: an absolute path of at most %d bytes, as in unix:///run/samepod/authz.sock", address, most)
		}
		return nil
	}
	local, err := isLoopback(address)
	if err == nil && !local {
		err = secured.expose(address)
	}
	return err
}

// isLoopback reads <ip>:<port>; a missing address is every one.
func isLoopback(address string) (bool, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("%q; allowed: <ip>:<port>", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false, fmt.Errorf("%q; allowed: a port 0 to 65535, where 0 takes a free one", address)
	}
	if host == "" {
		return false, nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false, fmt.Errorf("%q; allowed: an IP address, not a name", address)
	}
	return ip.IsLoopback(), nil
}

func listenAuthz(address string, mode fs.FileMode) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		return listenUnix(path, mode)
	}
	return net.Listen("tcp", address)
}

// mostHTTP is how many connections the kubelet, Prometheus and operators may have;
// beyond it the oldest is closed.
const mostHTTP = 256

// listenHTTP listens for HTTP: what clients hold there must not be the file
// descriptors that Envoy's connections need.
func listenHTTP(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err // not an interface that holds a nil listener
	}
	return &boundListener{Listener: l, mostUnproven: mostHTTP}, nil
}

// listenUnix makes a socket. One that a killed predecessor left is replaced; one
// that somebody serves, and a file that is no socket, are not.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s: exists and is no socket", path)
	default:
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
			return nil, fmt.Errorf("%s: somebody serves there", path)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}
