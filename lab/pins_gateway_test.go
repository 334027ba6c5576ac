package lab_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/samepod/samepod/lab"
)

// pinAnnotation is where a pin stands.
const pinAnnotation = "samepod.dev/pin"

// pinWorld is OpenSandbox with a gateway whose pins stand on the API server.
type pinWorld struct {
	*gateway
	*lab.OpenSandbox
	addrs *lab.Addresses
}

func newPinWorld(t *testing.T) *pinWorld {
	t.Helper()
	l, o, addrs := newOpenSandbox(t)
	g := newGateway(t, l, o.Kube, opensandboxConfig(o.Namespace, addrs, ""))
	g.front(lab.NewestEnvoy(), g.samepod)
	return &pinWorld{g, o, addrs}
}

// up is a sandbox that serves, and that nobody has asked for.
func (w *pinWorld) up() (id string, p *lab.Pod) {
	w.t.Helper()
	id = newID()
	return id, w.owns(id, must(w.Start(w.t.Context(), id, w.addrs.Take()))(w.t))
}

// rebuilt lets a sandbox lose its Pod and get another, as by an eviction.
func (w *pinWorld) rebuilt(id string) *lab.Pod {
	w.t.Helper()
	succeed(w.t, w.Delete(w.t.Context(), id+"-0", false))
	return w.owns(id, must(w.BringUp(w.t.Context(), id, w.addrs.Take()))(w.t))
}

// resumed takes a sandbox through a pause and a resume.
func (w *pinWorld) resumed(id string) *lab.Pod {
	w.t.Helper()
	succeed(w.t, w.Pause(w.t.Context(), id))
	succeed(w.t, w.Resume(w.t.Context(), id))
	return w.owns(id, must(w.BringUp(w.t.Context(), id, w.addrs.Take()))(w.t))
}

// pin is the pin of a sandbox as the API server has it.
func (w *pinWorld) pin(id string) string {
	w.t.Helper()
	return must(w.Sandbox(w.t.Context(), id))(w.t).GetAnnotations()[pinAnnotation]
}

// also is a replica of the gateway with more arguments, and an Envoy that asks it.
func (w *pinWorld) also(name string, args ...string) (*lab.Samepod, func(id string) call) {
	w.t.Helper()
	first := w.envoy
	s := w.replica(name, args...)
	e := w.front(lab.NewestEnvoy(), s)
	w.envoy = first
	return s, func(id string) call { w.t.Helper(); return w.send(e, id, header(id)...) }
}

// TestPins: which Pod a sandbox was given is remembered on the real API server, by
// replicas that see it at different times.
func TestPins(t *testing.T) {
	t.Parallel()
	w := newPinWorld(t)
	ctx := t.Context()
	proxy, late := w.behindProxy("late")
	askLate := func(id string) call { return w.send(late, id, header(id)...) }

	w.run("two replicas at once", func(t *testing.T) {
		for range 5 {
			id, p := w.up()
			until(t, p.Name, func() call {
				var both sync.WaitGroup
				answers := make([]call, 2)
				for i, ask := range []func(string) call{func(id string) call { return w.ask(id) }, askLate} {
					both.Go(func() { answers[i] = ask(id) })
				}
				both.Wait()
				if said(answers[0]) != said(answers[1]) {
					return call{}
				}
				return answers[0]
			})
			if pin := w.pin(id); !strings.Contains(pin, "pod="+p.UID) || strings.Count(pin, "pod=") != 1 {
				t.Errorf("pin %q, want that of %s", pin, p.UID)
			}
		}
	})

	w.run("a late replica", func(t *testing.T) {
		same, p := w.up()
		other, old := w.up()
		marker, m := w.up()
		until(t, m.Name, func() call { return askLate(marker) }) // so it has seen both Pods
		proxy.Hold()
		defer proxy.Resume()
		w.until(p.Name, same)
		before := w.pin(same)
		until(t, p.Name, func() call { return askLate(same) })
		if now := w.pin(same); now != before {
			t.Errorf("it writes the pin again: %s, was %s", now, before)
		}
		next := w.rebuilt(other)
		w.until(next.Name, other)
		stranger := newID()
		b := w.owns(stranger, must(w.Start(ctx, stranger, old.Addr.Addr()))(t))
		until(t, "pod-replaced", func() call { return askLate(other) })
		if n := len(b.Executed()); n != 0 {
			t.Errorf("who has the address now executed %d commands", n)
		}
		proxy.Resume()
		until(t, next.Name, func() call { return askLate(other) })
	})

	w.run("a pause that nobody saw", func(t *testing.T) {
		second, ask := w.also("second")
		id, p := w.up()
		until(t, p.Name, func() call { return ask(id) })
		before := w.pin(id)
		second.Kill()
		next := w.resumed(id)
		_, ask = w.also("second-again")
		until(t, next.Name, func() call { return ask(id) })
		if now := w.pin(id); now == before || !strings.Contains(now, "pod="+next.UID) {
			t.Errorf("pin %q, was %q", now, before)
		}
		w.until(next.Name, id)
	})

	w.run("rebuilt without a reason", func(t *testing.T) {
		id, p := w.up()
		w.until(p.Name, id)
		next := w.rebuilt(id)
		for name, ask := range map[string]func(string) call{"first": func(id string) call { return w.ask(id) }, "late": askLate} {
			until(t, "pod-replaced", func() call { return ask(id) })
			checkProblem(t, name, ask(id), 409, "pod-replaced", false)
		}
		at := w.Namespace + "/" + id
		if out, code := w.cli(lab.UserSamepod, "pin", "get", at); code != 0 || !strings.Contains(out, "pod="+p.UID) {
			t.Errorf("pin get: %d %s", code, out)
		}
		if out, code := w.cli(lab.UserReader, "pin", "release", at); code == 0 {
			t.Errorf("somebody who may not released it: %s", out)
		}
		w.ask(id)
		if out, code := w.cli(lab.UserSamepod, "pin", "release", at); code != 0 {
			t.Fatalf("pin release: %d %s", code, out)
		}
		w.until(next.Name, id)
		if out, code := w.cli(lab.UserSamepod, "pin", "get", at); code != 0 || !strings.Contains(out, "pod="+next.UID) {
			t.Errorf("pin get: %d %s", code, out)
		}
	})
	w.finish()
}

// TestPinPolicies: what the flags promise of pins, and what is left where writing them is
// forbidden.
func TestPinPolicies(t *testing.T) {
	t.Parallel()
	w := newPinWorld(t)
	ctx := t.Context()
	succeed(t, w.kube.GrantEngines(ctx, lab.UserReader, "get", "list", "watch"))
	reader := must(w.kube.Kubeconfig(lab.UserReader, w.kube.URL))(t)

	w.run("a key, and follow", func(t *testing.T) {
		key := writeFile(t, w.Lab, "pin-key", "0123456789abcdef0123456789abcdef")
		_, ask := w.also("key", "--pin-key-file", key, "--on-replace", "follow")
		id, p := w.up()
		until(t, p.Name, func() call { return ask(id) })
		if pin := w.pin(id); !strings.Contains(pin, " mac=") {
			t.Errorf("pin %q has no mac", pin)
		}
		w.until("unverifiable", id) // a replica without the key cannot tell
		next := w.rebuilt(id)
		until(t, next.Name, func() call { return ask(id) })
		pin := w.pin(id)
		if !strings.Contains(pin, "pod="+next.UID) {
			t.Errorf("followed, but the pin is %q", pin)
		}

		body, mac, _ := strings.Cut(pin, " mac=")
		other, q := w.up()
		until(t, q.Name, func() call { return ask(other) })
		forged := strings.NewReplacer("sandbox="+string(must(w.Sandbox(ctx, id))(t).GetUID()), "sandbox="+string(must(w.Sandbox(ctx, other))(t).GetUID())).Replace(body)
		for what, text := range map[string]string{"without a mac": forged, "with another's mac": forged + " mac=" + mac, "another's": pin} {
			succeed(t, w.Annotate(ctx, other, pinAnnotation, text))
			until(t, "unverifiable", func() call { return ask(other) })
			checkProblem(t, what, ask(other), 409, "unverifiable", false)
			if out, code := w.cli(lab.UserSamepod, "pin", "get", w.Namespace+"/"+other, "--pin-key-file", key); code == 0 || !strings.Contains(out, "denied") {
				t.Errorf("%s: pin get: %d %s", what, code, out)
			}
		}
		if out, code := w.cli(lab.UserSamepod, "pin", "release", w.Namespace+"/"+other, "--pin-key-file", key); code != 0 {
			t.Errorf("pin release: %d %s", code, out)
		}
		until(t, q.Name, func() call { return ask(other) })
	})

	w.run("containers", func(t *testing.T) {
		_, ask := w.also("containers", "--pin-containers")
		id, p := w.up()
		until(t, p.Name, func() call { return ask(id) })
		succeed(t, w.RestartContainer(ctx, p.Name))
		until(t, "container-replaced", func() call { return ask(id) })
		w.until(p.Name, id) // others do not ask
	})

	w.run("no permission", func(t *testing.T) {
		s, ask := w.also("reader", "--kubeconfig", reader)
		const note = "pins are in memory"
		if _, says := s.Ready(); strings.Contains(says, note) {
			t.Errorf("before anything was pinned: %s", says)
		}
		id, p := w.up()
		until(t, p.Name, func() call { return ask(id) })
		if _, says := s.Ready(); !strings.Contains(says, note) || w.pin(id) != "" {
			t.Errorf("pin %q; %s", w.pin(id), says)
		}
		w.rebuilt(id)
		until(t, "pod-replaced", func() call { return ask(id) })
	})

	w.run("no permission, and it is required", func(t *testing.T) {
		_, ask := w.also("required", "--kubeconfig", reader, "--require-pin")
		id, p := w.up()
		until(t, "overloaded", func() call { return ask(id) })
		checkProblem(t, "required", ask(id), 503, "overloaded", false)
		if n := len(p.Executed()); n != 0 {
			t.Errorf("executed %d commands", n)
		}
		w.until(p.Name, id) // whoever may write it pins it
		until(t, p.Name, func() call { return ask(id) })
	})
	w.finish()
}
