package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/samepod/samepod/lab"
	"github.com/samepod/samepod/renewal"
)

const redisPassword = "s3cret"

// writesRenewal stands for a check that says of which sandbox the request is, and that
// the sandbox asks for renewal: what samepod writes for an engine's sandbox. Behind the
// check, so that a denied request does not get there.
const writesRenewal = `
name: envoy.filters.http.header_to_metadata
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
  request_rules:
  - { header: x-renew, on_header_present: { metadata_namespace: envoy.filters.http.ext_authz, key: samepod_renew } }
  - { header: x-sandbox, on_header_present: { metadata_namespace: envoy.filters.http.ext_authz, key: samepod_sandbox } }
  - { header: x-id, on_header_present: { metadata_namespace: envoy.filters.http.ext_authz, key: samepod_sandbox_id } }
`

// renewArm is the product with a Redis.
type renewArm struct {
	*arm
	redis *lab.Redis
	list  *redis.Client
}

func newRenewArm(t *testing.T, version, every string) *renewArm {
	t.Helper()
	l := newLab(t)
	r := must(l.StartRedis(t.Context(), "redis", redisPassword))(t)
	password := filepath.Join(l.Dir, "password")
	if err := os.WriteFile(password, []byte(redisPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newSamepodArm(t, "--renew-intents", "redis://"+r.Addr.String()+"/1", "--renew-intents-password-file", password, "--renew-intents-interval", "0s")
	config := readBootstrap(t, a.bootstrap(version, a.samepod.Authz.String(), "--renew-every", every))
	config.apply(t, strings.NewReplacer(), edit{behindCheck, writesRenewal})
	a.envoy = must(a.StartEnvoy(t.Context(), "envoy", envoyBinary(t, version), config.text(t)))(t)
	a.waitVerdicts()
	list := redis.NewClient(&redis.Options{Addr: r.Addr.String(), Password: redisPassword, DB: 1})
	t.Cleanup(func() { list.Close() })
	return &renewArm{a, r, list}
}

// renewed counts the intents in the list by sandbox.
func (a *renewArm) renewed() map[string]int {
	a.t.Helper()
	seen := map[string]int{}
	for _, text := range must(a.list.LRange(a.t.Context(), renewal.DefaultQueue, 0, -1).Result())(a.t) {
		var intent struct {
			Namespace  string
			ID         string    `json:"sandbox_id"`
			ObservedAt time.Time `json:"observed_at"`
			Port       uint16
		}
		if err := json.Unmarshal([]byte(text), &intent); err != nil || intent.Namespace != "sandboxes" || intent.Port != lab.ExecdPort || time.Since(intent.ObservedAt) > time.Minute {
			a.t.Fatalf("intent %s: %v", text, err)
		}
		seen[intent.ID]++
	}
	return seen
}

// asking are the headers of a claim on a Pod whose sandbox asks for renewal.
func asking(claim []string, id string) []string {
	return append([]string{"x-renew", "true", "x-sandbox", "sandboxes/a", "x-id", id}, claim...)
}

// request is one for a client that may leave.
func (a *renewArm) request(ctx context.Context, path string, header []string) *http.Request {
	a.t.Helper()
	req := must(http.NewRequestWithContext(ctx, "POST", a.envoy.URL(path), strings.NewReader(`{"command":"x"}`)))(a.t)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// TestRenew: what a real Envoy tells, as the real samepod publishes it to a real Redis.
func TestRenew(t *testing.T) {
	for _, version := range []string{lab.EnvoyVersions()[0], lab.NewestEnvoy()} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			a := newRenewArm(t, version, "200ms")
			addr, dead := a.addrs.Take(), a.addrs.Take()
			a.run("a", "uid-a", addr)
			a.run("dead", "uid-dead", dead).Stop()
			live, gone := claimOn("a", "uid-a", addr), claimOn("dead", "uid-dead", dead)
			want := map[string]bool{}

			for _, tc := range []struct {
				method, path, id string
				claim            []string
				status           int
				renews           bool
			}{
				{"GET", "/ping", "answered", live, 200, true},
				{"GET", "/pty", "a-409-of-the-Pod", live, 409, true},
				{"GET", "/fail", "a-503-of-the-Pod", live, 503, false},
				{"POST", "/reset", "reset", live, 502, false},
				{"GET", "/ping", "unreachable", gone, 503, false},
				{"GET", "/ping", "denied", claimOn("a", "uid-other", addr), 409, false},
				{"GET", "/ping?" + strings.Repeat("x", 50_000), "long-path", live, 200, true},
				{"GET", "/ping", "no-text", append([]string{"user-agent", "\xff\xfe", "referer", "\xc3("}, live...), 200, true},
			} {
				if c := do(t, tc.method, a.envoy.URL(tc.path), "", asking(tc.claim, tc.id)...); c.status != tc.status {
					t.Errorf("%s: %d %s, want %d", tc.id, c.status, c.body, tc.status)
				}
				want[tc.id] = tc.renews
			}
			do(t, "GET", a.envoy.URL("/ping"), "", live...) // does not ask

			// A caller that leaves: after the Pod began to answer, and before.
			ctx, leave := context.WithCancel(t.Context())
			must(http.DefaultClient.Do(a.request(ctx, "/command?ticks=100&every=100ms", asking(live, "left"))))(t)
			leave()
			want["left"] = true
			ctx, leave = context.WithCancel(t.Context())
			answer := make(chan error, 1)
			go func() {
				_, err := http.DefaultClient.Do(a.request(ctx, "/wait?for=1m", asking(live, "working")))
				answer <- err
			}()
			a.eventually("a request without an answer renews", func() bool { return a.renewed()["working"] > 0 })
			leave()
			if <-answer == nil {
				t.Error("answered")
			}
			want["working"] = true

			// One stream tells in order: what comes behind shows that the rest was judged.
			do(t, "GET", a.envoy.URL("/ping"), "", asking(live, "last")...)
			want["last"] = true
			a.eventually("the last request renews", func() bool { return a.renewed()["last"] > 0 })
			seen := a.renewed()
			for id, renews := range want {
				if (seen[id] > 0) != renews {
					t.Errorf("%s: %d intents, want some: %v", id, seen[id], renews)
				}
			}
			if len(seen) > len(want) {
				t.Errorf("%v", seen)
			}
			a.invariant(len(want) + 1)
		})
	}
}

// TestRenewStream: a command that runs longer than its sandbox may live renews it while
// it runs; the control is told of at its end only, and its sandbox expires in use. The
// list is read as OpenSandbox's server reads it, and the life is scaled down.
func TestRenewStream(t *testing.T) {
	for _, tc := range []struct {
		every   string
		expires bool
	}{{"200ms", false}, {"1m", true}} {
		t.Run(tc.every, func(t *testing.T) {
			t.Parallel()
			a := newRenewArm(t, lab.NewestEnvoy(), tc.every)
			addr := a.addrs.Take()
			a.run("a", "uid-a", addr)
			const life = 3 * time.Second // Envoy tells with up to a second's delay
			ended := make(chan int, 1)
			go func() {
				ended <- do(t, "POST", a.envoy.URL("/command?ticks=60&every=100ms"), `{"command":"x"}`, asking(claimOn("a", "uid-a", addr), "long")...).status
			}()
			expired := false
			for status := 0; status == 0; {
				_, err := a.list.BRPop(t.Context(), life, renewal.DefaultQueue).Result()
				select {
				case status = <-ended:
					if status != 200 {
						t.Errorf("%d", status)
					}
				default:
					expired = expired || err != nil
				}
			}
			if expired != tc.expires {
				t.Errorf("expired in use: %v, want %v", expired, tc.expires)
			}
		})
	}
}

// TestRenewBlocked: a Redis that answers nothing makes nobody wait; what happened
// meanwhile is published when it answers again, and samepod ends although a stream of
// entries is open.
func TestRenewBlocked(t *testing.T) {
	t.Parallel()
	a := newRenewArm(t, lab.NewestEnvoy(), "200ms")
	addr := a.addrs.Take()
	a.run("a", "uid-a", addr)
	claim := claimOn("a", "uid-a", addr)
	do(t, "GET", a.envoy.URL("/ping"), "", asking(claim, "before")...)
	a.eventually("an intent", func() bool { return a.renewed()["before"] > 0 })
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(a.redis.Pid(), s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	const requests = 50
	for i := range requests {
		if c := do(t, "GET", a.envoy.URL("/ping"), "", asking(claim, fmt.Sprint("during-", i))...); c.status != 200 {
			t.Errorf("%d %s", c.status, c.body)
		}
	}
	a.eventually("a push fails", func() bool { return must(a.samepod.Metric("samepod_renew_redis_failures_total"))(t) > 0 })
	signal(syscall.SIGCONT)
	a.eventually("every intent", func() bool {
		seen := a.renewed()
		for i := range requests {
			if seen[fmt.Sprint("during-", i)] == 0 {
				return false
			}
		}
		return true
	})
	if n := must(a.samepod.Metric("samepod_renew_streams"))(t); n != 1 {
		t.Errorf("%v streams", n)
	}
	if err := a.samepod.Stop(5 * time.Second); err != nil { // the drain's timeout is longer
		t.Error(err)
	}
	for _, file := range []string{a.samepod.Err, a.samepod.Out} {
		if text := must(os.ReadFile(file))(t); strings.Contains(string(text), redisPassword) {
			t.Errorf("the password is in %s", file)
		}
	}
	a.invariant(requests + 1)
}
