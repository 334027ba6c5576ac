package renewal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRedisConfig: what is wrong is said, and never with the password. The rest is run
// against a real Redis, in the lab.
func TestRedisConfig(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	password, empty := file("password", "s3cret\n"), file("empty", "\n")
	for _, tc := range []struct {
		config RedisConfig
		want   string // in the error, or where it is
	}{
		{RedisConfig{URL: "redis://10.0.0.1:6379/2"}, "10.0.0.1:6379 q"},
		{RedisConfig{URL: "rediss://default@redis.example.org:6380"}, "redis.example.org:6380 q"},
		{RedisConfig{URL: "unix:///run/redis.sock"}, "/run/redis.sock q"},
		{RedisConfig{URL: "redis://u:s3cret@10.0.0.1:6379"}, "10.0.0.1:6379 q"},
		{RedisConfig{URL: "redis://u@10.0.0.1:6379", PasswordFile: password}, "10.0.0.1:6379 q"},
		{RedisConfig{URL: "redis://u:s3cret@10.0.0.1:x"}, "not shown"},
		{RedisConfig{URL: "redis://u:s3cret@10.0.0.1:6379/x"}, "not shown"},
		{RedisConfig{URL: "redis://u:s3cret@10.0.0.1:6379?read_timeout=-1"}, "not shown"},
		{RedisConfig{URL: "http://u:s3cret@10.0.0.1"}, "not shown"},
		{RedisConfig{URL: "redis://u:s3%zz@10.0.0.1"}, "not shown"},
		{RedisConfig{URL: "redis://u:s3cret@10.0.0.1", PasswordFile: password}, "one of them"},
		{RedisConfig{URL: "redis://10.0.0.1", PasswordFile: empty}, "empty"},
		{RedisConfig{URL: "redis://10.0.0.1", PasswordFile: filepath.Join(dir, "none")}, "no such file"},
		{RedisConfig{URL: "redis://10.0.0.1", CAFile: password}, "without effect"},
		{RedisConfig{URL: "rediss://10.0.0.1", CAFile: password}, "no certificate"},
		{RedisConfig{URL: "rediss://10.0.0.1", CAFile: filepath.Join(dir, "none")}, "no such file"},
	} {
		tc.config.Queue = "q"
		r, err := NewRedis(tc.config)
		got := ""
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
