package renewal

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// DefaultQueue is the list that OpenSandbox's ingress and its server agree on.
const DefaultQueue = "opensandbox:renew:intent"

// redisTimeout bounds every step towards Redis: connecting, writing, reading.
const redisTimeout = time.Second

// Redis is the list that OpenSandbox's server reads: the messages are pushed at its
// head, the server takes them from its end.
type Redis struct {
	client *redis.Client
	queue  string
	most   int64
}

// RedisConfig says which list. The user that connects needs the commands LPUSH and
// LTRIM on it, MULTI and EXEC, and SELECT where URL names a database.
type RedisConfig struct {
	// URL is redis://[<user>[:<password>]@]<host>:<port>[/<database>], with rediss for
	// TLS, or unix://<path>.
	URL string
	// Password is asked for each connection, where URL has none; nil for none.
	Password func() (string, error)
	// CAs are those of rediss; nil is the system's.
	CAs   *x509.CertPool
	Queue string
	// Most is how long the list may get; what is oldest is dropped. 0 is any length.
	Most int
}

// NewRedis makes a Redis, and connects with the first push. No error has the password.
func NewRedis(c RedisConfig) (*Redis, error) {
	options, err := redis.ParseURL(c.URL)
	if err != nil || queried(c.URL) {
		return nil, errors.New("not shown, it may have a password; allowed: redis://[<user>[:<password>]@]<host>:<port>[/<database>], rediss:// for TLS, unix://<path>")
	}
	if c.CAs != nil {
		if options.TLSConfig == nil {
			return nil, errors.New("is not rediss://; without TLS a CA is without effect")
		}
		options.TLSConfig.RootCAs = c.CAs
	}
	if c.Password != nil {
		if options.Password != "" {
			return nil, errors.New("has a password, and there is a password file; allowed: one of them")
		}
		user := options.Username
		options.CredentialsProviderContext = func(context.Context) (string, string, error) {
			password, err := c.Password()
			return user, password, err
		}
	}
	bound(options)
	silence()
	return &Redis{client: redis.NewClient(options), queue: c.Queue, most: int64(c.Most)}, nil
}

// bound makes a client of one connection that gives up in time and leaves it to the
// publisher to try again. It needs no command but AUTH and SELECT to connect.
func bound(o *redis.Options) {
	o.Protocol, o.DisableIdentity = 2, true // neither HELLO nor CLIENT
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = redisTimeout, redisTimeout, redisTimeout
	o.MaxRetries, o.DialerRetries = -1, 1
	o.PoolSize = 1
}

// Push is a [Push]. The list gets all of the messages or none.
func (r *Redis) Push(ctx context.Context, messages [][]byte) error {
	values := make([]any, len(messages))
	for i, m := range messages {
		values[i] = m
	}
	_, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.LPush(ctx, r.queue, values...)
		if r.most > 0 {
			p.LTrim(ctx, r.queue, 0, r.most-1)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("redis %s: %w", r.client.Options().Addr, err)
	}
	return nil
}

// Close ends the connection.
func (r *Redis) Close() error { return r.client.Close() }

// String is where it is, without who we are there.
func (r *Redis) String() string { return r.client.Options().Addr + " " + r.queue }

// queried reports whether a URL has a query: options of the client's own would
// undo the bounds that are set here.
func queried(text string) bool {
	u, err := url.Parse(text)
	return err != nil || u.RawQuery != "" || u.Fragment != ""
}

// silence ends the client's own log, which is the process's and knows no levels. What
// fails is returned, and logged once by the publisher.
var silence = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
