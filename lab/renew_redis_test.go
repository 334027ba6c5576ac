package lab_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/samepod/samepod/lab"
	"github.com/samepod/samepod/renewal"
)

// TestRenewRedis: what a real Redis makes of what is pushed.
func TestRenewRedis(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := must(l.StartRedis(t.Context(), "redis", redisPassword))(t)
	list := redis.NewClient(&redis.Options{Addr: r.Addr.String(), Password: redisPassword})
	t.Cleanup(func() { list.Close() })
	push := func(c renewal.RedisConfig, messages ...string) error {
		c.Queue = "TestRenewRedis"
		to := must(renewal.NewRedis(c))(t)
		defer to.Close()
		var all [][]byte
		for _, m := range messages {
			all = append(all, []byte(m))
		}
		return to.Push(t.Context(), all)
	}

	t.Run("the oldest are read first, and dropped first", func(t *testing.T) {
		c := renewal.RedisConfig{URL: "redis://:" + redisPassword + "@" + r.Addr.String(), Most: 3}
		if err := push(c, "1", "2", "3", "4"); err != nil {
			t.Fatal(err)
		}
		if err := push(c, "5"); err != nil {
			t.Fatal(err)
		}
		var got []string
		for list.LLen(t.Context(), "TestRenewRedis").Val() > 0 {
			got = append(got, must(list.RPop(t.Context(), "TestRenewRedis").Result())(t))
		}
		if want := []string{"3", "4", "5"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})

	t.Run("a password is read again", func(t *testing.T) {
		password := "of-yesterday"
		to := must(renewal.NewRedis(renewal.RedisConfig{URL: "redis://" + r.Addr.String(), Password: func() (string, error) { return password, nil }, Queue: "q"}))(t)
		defer to.Close()
		if err := to.Push(t.Context(), [][]byte{[]byte("x")}); err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("an old password: %v", err)
		}
		password = redisPassword
		if err := to.Push(t.Context(), [][]byte{[]byte("x")}); err != nil {
			t.Errorf("the new one: %v", err)
		}
	})

	t.Run("TLS", func(t *testing.T) {
		ours, theirs := must(lab.NewCA("ours"))(t), must(lab.NewCA("theirs"))(t)
		cert, key, err := ours.Issue(lab.Leaf{Names: []string{"127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		pair := must(tls.X509KeyPair(cert, key))(t)
		front := must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}}))(t)
		defer front.Close()
		go terminate(front, r.Addr.String())
		c := renewal.RedisConfig{URL: "rediss://:" + redisPassword + "@" + front.Addr().String(), CAs: pool(ours)}
		if err := push(c, "x"); err != nil {
			t.Errorf("its CA: %v", err)
		}
		c.CAs = pool(theirs)
		if err := push(c, "x"); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("another CA: %v", err)
		}
	})
}

func pool(ca *lab.CA) *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(ca.PEM)
	return p
}

// terminate forwards what TLS connections bring.
func terminate(front net.Listener, to string) {
	for {
		in, err := front.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer out.Close()
			go io.Copy(out, in)
			_, _ = io.Copy(in, out)
		}()
	}
}
