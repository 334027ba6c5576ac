package renewal

import (
	"crypto/x509"
	"strings"
	"testing"
)

// TestRedisConfig: what is wrong is said, and never with the password. The rest is run
// against a real Redis, in the lab.
func TestRedisConfig(t *testing.T) {
	password := func() (string, error) { return "s3cret", nil }
	for _, tc := range []struct {
		config RedisConfig
		want   string // in the error, or where it is
	}{
		{RedisConfig{URL: "redis://10.0.0.1:6379/2"}, "10.0.0.1:6379 q"},
		{RedisConfig{URL: "rediss://default@redis.example.org:6380"}, "redis.example.org:6380 q"},
		{RedisConfig{URL: "unix:///run/redis.sock"}, "/run/redis.sock q"},
		{RedisConfig{URL: "redis://u:s3cret@10.0.0.1:6379"}, "10.0.0.1:6379 q"},
		{RedisConfig{URL: "redis://u@10.0.0.1:6379", Password: password}, "10.0.0.1:6379 q"},
		{RedisConfig{URL: "redis://u:s3cret@10.0.0.1:x"}, "not shown"},
		{RedisConfig{URL: "redis://u:s3cret@10.0.0.1:6379/x"}, "not shown"},
		{RedisConfig{URL: "redis://u:s3cret@10.0.0.1:6379?read_timeout=-1"}, "not shown"},
		{RedisConfig{URL: "http://u:s3cret@10.0.0.1"}, "not shown"},
		{RedisConfig{URL: "redis://u:s3%zz@10.0.0.1"}, "not shown"},
		{RedisConfig{URL: "redis://u:s3cret@10.0.0.1", Password: password}, "one of them"},
		{RedisConfig{URL: "redis://10.0.0.1", CAs: x509.NewCertPool()}, "without effect"},
	} {
		tc.config.Queue = "q"
		r, err := NewRedis(tc.config)
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = r.String()
			r.Close()
		}
		if !strings.Contains(got, tc.want) || strings.Contains(got, "s3cret") {
			t.Errorf("%s: %s, want %s", tc.config.URL, got, tc.want)
		}
	}
}
