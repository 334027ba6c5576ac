package lab_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/samepod/samepod/lab"
)

// shared is one API server for all tests of the package; each uses a namespace of
// its own.
var shared = struct {
	once sync.Once
	dir  string
	lab  *lab.Lab
	kube *lab.Kube
	err  error
}{}

func sharedKube(t *testing.T) *lab.Kube {
	t.Helper()
	shared.once.Do(func() {
		//nolint:usetesting // it outlives the test that comes first
		if shared.dir, shared.err = os.MkdirTemp("", "samepod-kube-"); shared.err != nil {
			return
		}
		shared.lab = lab.New(shared.dir)
		if shared.kube, shared.err = shared.lab.StartKube(bg); shared.err != nil {
			return
		}
		_, shared.err = shared.kube.StartStatefulSetController()
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.kube
}

// closeShared ends what tests share.
func closeShared() {
	if shared.lab != nil {
		shared.lab.Close()
		os.RemoveAll(shared.dir)
	}
}

var namespaces atomic.Int64

// cluster is a namespace of the real API server, samepod watching it, and two
// Envoys: the product, and the control, which forwards to the recorded address as
// platforms do.
type cluster struct {
	*lab.Lab
	t         *testing.T
	kube      *lab.Kube
	namespace string
	addrs     *lab.Addresses
	samepod   *lab.Samepod
	product   *lab.Envoy
	control   *lab.Envoy
	requests  int
}

// newCluster starts everything but the Envoys.
func newCluster(t *testing.T, binary string, samepodArgs ...string) *cluster {
	t.Helper()
	kube := sharedKube(t)
	l := newLab(t)
	c := &cluster{Lab: l, t: t, kube: kube, namespace: fmt.Sprintf("sandboxes-%d", namespaces.Add(1)), addrs: must(lab.NewAddresses(lab.ExecdPort))(t)}
	if err := kube.CreateNamespace(t.Context(), c.namespace); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(l.Dir, "samepod.yaml")
	if err := lab.WriteConfig(config, c.namespace, c.addrs.Prefix()); err != nil {
		t.Fatal(err)
	}
	kubeconfig := must(kube.Kubeconfig(lab.UserSamepod, kube.URL))(t)
	args := append([]string{"--config", config, "--source", "kube", "--kubeconfig", kubeconfig, "--log-level", "debug"}, samepodArgs...)
	c.samepod = must(l.StartSamepod(t.Context(), "samepod", binary, args...))(t)
	if err := c.samepod.WaitReady(t.Context(), true, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	return c
}

// startEnvoys starts the product and the control on this version.
func (c *cluster) startEnvoys(version string) {
	c.t.Helper()
	bootstrap := samepodCLI(c.t, "envoy", "bootstrap", "--envoy-version", version, "--config", filepath.Join(c.Dir, "samepod.yaml"), "--samepod", c.samepod.Authz.String(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	c.product = must(c.StartEnvoy(c.t.Context(), "product", envoyBinary(c.t, version), bootstrap))(c.t)
	c.control = must(c.StartEnvoy(c.t.Context(), "control", envoyBinary(c.t, version), []byte(lab.ControlBootstrap)))(c.t)
	eventually(c.t, "the product gets verdicts", func() bool {
		n, err := c.product.Stat("cluster.samepod_authz.membership_healthy")
		return err == nil && n == 1
	})
}

// sandbox is a Pod of the API with its process.
type sandbox struct {
	*lab.Pod
	name, uid string
}

// create makes the API object alone.
func (c *cluster) create(name string) sandbox {
	c.t.Helper()
	p := must(c.kube.CreatePod(c.t.Context(), c.namespace, name))(c.t)
	return sandbox{name: name, uid: string(p.UID)}
}

// start gives a created Pod an address, a process and the status Running.
func (c *cluster) start(s sandbox, addr netip.Addr) sandbox {
	c.t.Helper()
	s.Pod = must(c.StartPod(s.name, s.uid, addr))(c.t)
	c.status(s, corev1.PodRunning, addr)
	return s
}

func (c *cluster) status(s sandbox, phase corev1.PodPhase, ips ...netip.Addr) {
	c.t.Helper()
	if err := c.kube.SetStatus(c.t.Context(), c.namespace, s.name, phase, ips...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) delete(s sandbox, graceful bool) {
	c.t.Helper()
	if err := c.kube.DeletePod(c.t.Context(), c.namespace, s.name, graceful); err != nil {
		c.t.Fatal(err)
	}
}

// ask sends a command that names itself to whoever the claim means.
func (c *cluster) ask(e *lab.Envoy, s sandbox, at netip.Addr, command string) call {
	c.t.Helper()
	if e == c.product {
		c.requests++
	}
	return do(c.t, "POST", e.URL("/command"), `{"command":"`+command+`"}`,
		"x-samepod-target", c.namespace+"/"+s.name, "x-samepod-expect-pod-uid", s.uid, "x-samepod-recorded", netip.AddrPortFrom(at, lab.ExecdPort).String())
}

// until asks the product until it answers this; a 200 on the way must come from
// the Pod that is meant.
func (c *cluster) until(want string, s sandbox, at netip.Addr) {
	c.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		got := c.ask(c.product, s, at, "for "+s.uid)
		reason := got.reason()
		if got.status == 200 {
			reason = "same-pod"
		}
		if reason == want {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: %d %s %s, want %s", s.name, got.status, reason, got.body, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// finish holds the product to what it promises: nobody executed what was meant for
// another, and every answer came from the verified address.
func (c *cluster) finish(all ...sandbox) {
	c.t.Helper()
	for _, s := range all {
		if s.Pod == nil {
			continue
		}
		for _, e := range s.Executed() {
			if e.Command != "for "+s.uid && e.Command != "control" {
				c.t.Errorf("%s executed %q", s.name, e.Command)
			}
		}
	}
	log := must(c.product.WaitForAccessLog(c.t.Context(), c.requests))(c.t)
	if err := lab.CheckInvariant(log); err != nil {
		c.t.Error(err)
	}
}

// wronged asks the control for s, and expects the fault: 200 from somebody else.
func (c *cluster) wronged(s, by sandbox, at netip.Addr) {
	c.t.Helper()
	before := len(by.Executed())
	got := c.ask(c.control, s, at, "control")
	if got.status != 200 || len(by.Executed()) != before+1 {
		c.t.Errorf("the control: asked for %s at %v, %d, executed by %s: %v; without the fault this shows nothing", s.name, at, got.status, by.name, len(by.Executed())-before)
	}
}
