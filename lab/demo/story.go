package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/samepod/samepod/lab"
)

// sandbox is a Pod with what a caller has recorded of it.
type sandbox struct {
	name    string
	addr    netip.Addr
	process *lab.Pod
}

// play tells the story and fails if it does not go as it says.
func (s *stage) play(ctx context.Context) error {
	fmt.Printf("The incident, on Envoy %s.\n\n", s.version)
	a, err := s.start(ctx, "a")
	if err != nil {
		return err
	}
	s.a = a
	s.sayf("Sandbox a runs in the Pod %s/%s at %v. Its platform has recorded that address.", namespace, a.process.Name, a.addr)
	if err := s.both(ctx, a, "executed in a", "executed in a"); err != nil {
		return err
	}

	if err := s.world.exit(ctx, a); err != nil {
		return err
	}
	s.addrs.Release(a.addr)
	s.sayf("a's container exits. The Pod stays as Failed, its address still in its status; nobody is there.")
	if err := s.both(ctx, a, "503", "409 "+s.world.ended()); err != nil {
		return err
	}

	b, err := s.start(ctx, "b")
	if err != nil {
		return err
	}
	if b.addr != a.addr {
		return fmt.Errorf("b got %v, want a's %v", b.addr, a.addr)
	}
	s.sayf("Another tenant's sandbox b starts, and gets the address %v.", b.addr)
	if err := s.both(ctx, a, "executed in b", "409 "+s.world.ended()); err != nil {
		return err
	}
	s.sayf("b's own callers notice nothing:")
	if err := s.expect(ctx, "with samepod", s.with, b, "executed in b"); err != nil {
		return err
	}

	fmt.Println("\nWhat the caller of a gets with samepod:")
	answer, err := s.call(ctx, s.with, a, "for a: cat secrets")
	if err != nil {
		return err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(strings.TrimSpace(answer.body)), "  ", "  "); err != nil {
		return err
	}
	fmt.Printf("  HTTP %d\n  %s\n", answer.status, &pretty)
	return s.timeline(a, b)
}

// start makes a Pod, its process and its record, and waits until samepod knows.
func (s *stage) start(ctx context.Context, name string) (sandbox, error) {
	p := sandbox{name: name, addr: s.addrs.Take()}
	var err error
	p.process, err = s.world.start(ctx, name, p.addr)
	return p, err
}

func (s *stage) sayf(format string, args ...any) {
	fmt.Printf("\n%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// both asks for p through both Envoys.
func (s *stage) both(ctx context.Context, p sandbox, without, with string) error {
	if err := s.expect(ctx, "without samepod", s.without, p, without); err != nil {
		return err
	}
	return s.expect(ctx, "with samepod", s.with, p, with)
}

// expect asks until the answer is as the story says, since a change takes a moment
// to be known, and tells it.
func (s *stage) expect(ctx context.Context, arm string, e *lab.Envoy, p sandbox, want string) error {
	var got answer
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		var err error
		if got, err = s.call(ctx, e, p, "for "+p.name+": cat secrets"); err != nil {
			return err
		}
		if strings.Contains(got.summary(), want) {
			mark := ""
			if !strings.HasSuffix(want, "in "+p.name) && strings.HasPrefix(want, "executed") {
				mark = "   <-- a command for " + p.name + " ran in a stranger's container"
			}
			fmt.Printf("          %-16s POST /command for %s  ->  %s%s\n", arm, p.name, got.summary(), mark)
			return nil
		}
	}
	return fmt.Errorf("%s: %s, want %s", arm, got.summary(), want)
}

type answer struct {
	status int
	reason string
	body   string
}

// summary is the answer in a few words.
func (a answer) summary() string {
	if _, rest, ok := strings.Cut(a.body, "executed in "); ok {
		return fmt.Sprintf("%d executed in %s", a.status, strings.TrimSpace(strings.SplitN(rest, `"`, 2)[0]))
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.status, a.reason))
}

func (s *stage) call(ctx context.Context, e *lab.Envoy, p sandbox, command string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL("/command"), strings.NewReader(fmt.Sprintf(`{"command":%q}`, command)))
	if err != nil {
		return answer{}, err
	}
	headers, err := s.headers(ctx, p)
	if err != nil {
		return answer{}, err
	}
	for _, h := range headers {
		req.Header.Set(h[0], h[1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("x-samepod-reason"), string(body)}, err
}

// headers say which sandbox is meant, and where it was, which is what the Envoy without
// samepod dials.
func (s *stage) headers(ctx context.Context, p sandbox) ([][2]string, error) {
	recorded, err := s.world.recorded(ctx, p)
	return append(s.world.headers(p), [2]string{"x-samepod-recorded", recorded}), err
}

// timeline tells who held the address, as samepod saw it, and who executed what.
func (s *stage) timeline(pods ...sandbox) error {
	past, err := s.samepod.History(pods[0].addr)
	if err != nil {
		return err
	}
	fmt.Printf("\nWho held %v:\n", pods[0].addr)
	instant := func(t *time.Time, zero string) string {
		if t == nil {
			return zero
		}
		return t.Local().Format("15:04:05.000")
	}
	for _, t := range past {
		fmt.Printf("  %s to %-12s  %s  uid %s\n", instant(t.From, "?"), instant(t.To, "now"), t.Pod, t.UID)
	}
	fmt.Println("\nWhat was executed:")
	for _, p := range pods {
		for _, e := range p.process.Executed() {
			mark := ""
			if !strings.HasPrefix(e.Command, "for "+p.name+":") {
				mark = "   <-- through the Envoy without samepod"
			}
			fmt.Printf("  in %s: %q%s\n", p.name, e.Command, mark)
		}
	}
	return nil
}

// explain tells how to try it by hand.
func (s *stage) explain(ctx context.Context) error {
	headers, err := s.headers(ctx, s.a)
	if err != nil {
		return err
	}
	fmt.Println("\nIt runs until Ctrl-C. Ask for sandbox a, as its caller would:")
	for _, arm := range []struct {
		name string
		e    *lab.Envoy
	}{{"with samepod", s.with}, {"without samepod", s.without}} {
		fmt.Printf("\n# %s\ncurl -i %s", arm.name, arm.e.URL("/command"))
		for _, h := range headers {
			fmt.Printf(" \\\n  -H '%s: %s'", h[0], h[1])
		}
		fmt.Printf(" \\\n  -d '{\"command\":\"for a: ls\"}'\n")
	}
	fmt.Printf("\n# what samepod knows\ncurl http://%s/readyz\ncurl 'http://%s/history?address=%s'\n", s.samepod.Health, s.samepod.Admin, s.a.addr)
	return nil
}
