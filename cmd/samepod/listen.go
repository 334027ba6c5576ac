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

// listen opens every socket or none.
func listen(f serveFlags) (_ *listeners, err error) {
	l := &listeners{}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if len(f.listen) == 0 {
		return nil, errors.New("--listen: missing; allowed: <ip>:<port> or unix:///path")
	}
	for _, address := range f.listen {
		next, err := listenAuthz(address, f)
		if err != nil {
			return nil, fmt.Errorf("--listen: %w", err)
		}
		l.authz = append(l.authz, next)
	}
	if l.health, _, err = listenTCP(f.health); err != nil {
		return nil, fmt.Errorf("--health-listen: %w", err)
	}
	if f.admin == "" {
		return l, nil
	}
	var local bool
	if l.admin, local, err = listenTCP(f.admin); err == nil && !local {
		err = fmt.Errorf("%q: not loopback; the admin listener tells everything to anyone who asks", f.admin)
	}
	if err != nil {
		return nil, fmt.Errorf("--admin-listen: %w", err)
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

func listenAuthz(address string, f serveFlags) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		mode, err := strconv.ParseUint(f.socketMode, 8, 9)
		if err != nil {
			return nil, fmt.Errorf("--socket-mode: %q; allowed: permissions in octal, such as 0660", f.socketMode)
		}
		return listenUnix(path, fs.FileMode(mode))
	}
	l, local, err := listenTCP(address)
	if err != nil {
		return nil, err
	}
	if !local && !f.insecure {
		_ = l.Close()
		return nil, fmt.Errorf("%q: not loopback, and without TLS whoever reaches it learns addresses and uids of Pods; allowed: loopback, unix:///path, or --insecure-authz", address)
	}
	return l, nil
}

// listenTCP reports also whether the address is loopback.
func listenTCP(address string) (l net.Listener, local bool, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, false, fmt.Errorf("%q; allowed: <ip>:<port>", address)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil && host != "" {
		return nil, false, fmt.Errorf("%q; allowed: an IP address, not a name", address)
	}
	l, err = net.Listen("tcp", address)
	return l, ip.IsLoopback(), err
}

// listenUnix makes a socket. One that a killed predecessor left is replaced; one
// that somebody serves, and a file that is no socket, are not.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%q; allowed: an absolute path, as in unix:///run/samepod/authz.sock", "unix://"+path)
	}
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
