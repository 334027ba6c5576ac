package mtls

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Refusal is why a connection was refused.
type Refusal int

// The refusals, which are also label values.
const (
	// RefusedHandshake is no TLS, an older version of it, or no certificate.
	RefusedHandshake Refusal = iota
	// RefusedCertificate is one that no client CA vouches for, or that expired.
	RefusedCertificate
	// RefusedIdentity is a good certificate whose names are not listed.
	RefusedIdentity
	refusals
)

func (r Refusal) String() string { return [refusals]string{"handshake", "certificate", "identity"}[r] }

// refusalCount counts the refusals of a kind, and remembers when one was logged.
type refusalCount struct {
	n      atomic.Uint64
	logged atomic.Int64 // in nanoseconds since 1970
}

// quiet is how long after a logged refusal others of its kind are only counted: an
// Envoy that is refused tries again every second.
const quiet = 10 * time.Second

// Credentials are those of a gRPC server. Unix sockets stay as they are: who may
// open one is a matter of the file system, which TLS would add nothing to.
func (k *Keeper) Credentials() credentials.TransportCredentials {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.config.Load(), nil },
	}
	return &serverCredentials{TransportCredentials: credentials.NewTLS(config), keeper: k}
}

type serverCredentials struct {
	credentials.TransportCredentials
	keeper *Keeper
}

// ServerHandshake implements credentials.TransportCredentials.
func (c *serverCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if conn.LocalAddr().Network() == "unix" {
		return insecure.NewCredentials().ServerHandshake(conn)
	}
	secured, info, err := c.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		c.keeper.refuse(conn.RemoteAddr(), err)
	}
	return secured, info, err
}

// Clone implements credentials.TransportCredentials.
func (c *serverCredentials) Clone() credentials.TransportCredentials {
	return &serverCredentials{TransportCredentials: c.TransportCredentials.Clone(), keeper: c.keeper}
}

// refuse counts a refusal, and logs it unless one of its kind has been logged just
// now. A probe that connects and says nothing is counted only.
func (k *Keeper) refuse(remote net.Addr, err error) {
	why := refusalOf(err)
	count := &k.refused[why]
	count.n.Add(1)
	now := time.Now().UnixNano()
	last := count.logged.Load()
	if errors.Is(err, io.EOF) || now-last < int64(quiet) || !count.logged.CompareAndSwap(last, now) {
		return
	}
	k.log.Warn("refused a connection", "why", why.String(), "remote", remote.String(), "err", err)
}

func refusalOf(err error) Refusal {
	if _, ok := errors.AsType[*identityError](err); ok {
		return RefusedIdentity
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return RefusedCertificate
	}
	return RefusedHandshake
}
