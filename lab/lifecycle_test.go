package lab_test

import (
	"testing"

	"github.com/samepod/samepod/lab"
)

// The stand-ins for the engines' controllers are held to the real server and to the real
// SDKs: what these wait for, and what these refuse to do in a wrong phase.

// meanwhile lets a client take a step that waits for the test to be the controller.
func meanwhile(client *lab.EngineClient, step lab.ClientStep) (wait func(*testing.T) lab.ClientAnswer) {
	type outcome struct {
		answer lab.ClientAnswer
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		answer, err := client.Do(step)
		done <- outcome{answer, err}
	}()
	return func(t *testing.T) lab.ClientAnswer {
		t.Helper()
		o := <-done
		if o.err != nil || !o.answer.OK {
			t.Fatalf("%s: %+v, %v", step.Do, o.answer, o.err)
		}
		return o.answer
	}
}

func TestOpenSandboxLifecycle(t *testing.T) {
	l, o, addrs := newOpenSandbox(t)
	ctx := t.Context()
	client := must(l.StartOpenSandboxClient(ctx))(t)
	server := must(l.StartOpenSandboxServer(ctx, o.Kube, lab.OpenSandboxConfig{Namespace: o.Namespace, Gateway: ingress(t, o)}))(t)

	created := meanwhile(client, lab.ClientStep{Do: "create", Server: server.Addr, SecureAccess: true})
	id := must(o.Created(ctx))(t)
	first := must(o.BringUp(ctx, id, addrs.Take()))(t)
	if got := created(t); got.Output != id {
		t.Errorf("created %s, want %s", got.Output, id)
	}
	if got := must(client.Command("first"))(t); !got.OK || ran(got.Output) != first.Name {
		t.Errorf("created: %+v", got)
	}
	token := must(o.Sandbox(ctx, id))(t).GetAnnotations()["opensandbox.io/secure-access-token"]
	if got := first.Executed(); token == "" || got[len(got)-1].Header.Get("OpenSandbox-Secure-Access") != token {
		t.Errorf("the SDK does not send the sandbox's token %q", token)
	}
	if pod := must(o.Get(ctx, id+"-0"))(t); pod.Annotations["opensandbox.io/secure-access-token"] != token {
		t.Error("the Pod does not have the sandbox's token: a watch of Pods carried secrets before")
	}

	meanwhile(client, lab.ClientStep{Do: "pause"})(t)
	succeed(t, o.AckPause(ctx, id))
	succeed(t, o.CompletePause(ctx, id))
	succeed(t, o.Reconcile(ctx, id))
	eventually(t, "the server knows", func() bool { return must(server.State(id))(t) == "Paused" })
	resumed := meanwhile(client, lab.ClientStep{Do: "resume", Server: server.Addr, Sandbox: id})
	eventually(t, "the server has asked for it", func() bool {
		pause, _ := must(o.Sandbox(ctx, id))(t).Object["spec"].(tree)["pause"].(bool)
		return !pause
	})
	succeed(t, o.AckResume(ctx, id))
	second := must(o.BringUp(ctx, id, addrs.Take()))(t)
	resumed(t)
	if got := must(client.Command("second"))(t); !got.OK || ran(got.Output) != second.Name || second.UID == first.UID {
		t.Errorf("resumed: %+v", got)
	}
	meanwhile(client, lab.ClientStep{Do: "renew", Seconds: 3600})(t)
	expect(t, "renewed", shape(t, o, id), `["`+second.Addr.Addr().String()+`"] Succeed ready=1 lag=2`) // of the images, and of the time
}

func TestAgentSandboxLifecycle(t *testing.T) {
	l, a, addrs := newAgentSandbox(t)
	ctx := t.Context()
	client := must(l.StartAgentSandboxClient(ctx, a.Kube))(t)
	pod := must(a.StartWarm(ctx, "warm-1", "warm", addrs.Take()))(t)
	created := meanwhile(client, lab.ClientStep{Do: "create", Server: "http://" + pod.Addr.String(), Claim: "claim", Namespace: a.Namespace, Port: lab.AgentSandboxPort})
	succeed(t, a.Adopt(ctx, "claim", "warm-1"))
	created(t)
	if got := must(client.Command("once"))(t); !got.OK || ran(got.Output) != "warm-1" {
		t.Errorf("created: %+v", got)
	}
	if got := pod.Executed()[0].Header; got.Get("X-Sandbox-ID") != "warm-1" || got.Get("X-Sandbox-Pod-IP") != pod.Addr.Addr().String() {
		t.Errorf("it says %v", got)
	}
}
