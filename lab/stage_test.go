package lab_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/samepod/samepod/lab"
)

// A theatre is one samepod and one version of Envoy, with a stage for every row of
// a table, so that rows can be played at the same time.
type theatre struct {
	*arm
	version  string
	nobody   netip.Addr     // of a Pod that runs, and that nobody listens for
	hole     netip.Addr     // of a Pod whose packets vanish
	dns      netip.AddrPort // a name server that knows every stage's name
	mu       sync.Mutex
	rendered map[string][]byte
	shared   map[string]*lab.Envoy
}

// A stage has two Pods: A is whom the requests mean, B is the stranger.
type stage struct {
	*theatre
	t     *testing.T
	n     int
	a, b  *lab.Pod
	cast  []*lab.Pod // everybody who can execute something
	names *strings.Replacer
	authz *lab.AuthzServer // stands in samepod's place, where there is one
	late  string           // where it will listen, if it is not to be there yet
	http  *http.Client     // of the caller
}

// newTheatre starts samepod with the Pods of so many stages.
func newTheatre(t *testing.T, version string, stages int) (*theatre, []*stage) {
	t.Helper()
	th := &theatre{arm: newSamepodArm(t), version: version, rendered: map[string][]byte{}, shared: map[string]*lab.Envoy{}}
	th.nobody = th.addrs.Take()
	list := func(name, uid string, addr netip.Addr) {
		th.pods[name] = lab.PodRecord{Namespace: "sandboxes", Name: name, UID: uid, Phase: "Running", Addr: addr}
	}
	list("nobody", "uid-nobody", th.nobody)
	th.hole = th.addrs.Take()
	list("hole", "uid-hole", th.hole)
	dig(t, netip.AddrPortFrom(th.hole, lab.ExecdPort))
	all := make([]*stage, stages)
	for i := range all {
		s := &stage{theatre: th, t: t, n: i, http: http1}
		s.a = must(th.StartPod(fmt.Sprintf("a-%d", i), fmt.Sprintf("uid-a-%d", i), th.addrs.Take()))(t)
		s.b = must(th.StartPod(fmt.Sprintf("b-%d", i), fmt.Sprintf("uid-b-%d", i), th.addrs.Take()))(t)
		list(s.a.Name, s.a.UID, s.a.Addr.Addr())
		list(s.b.Name, s.b.UID, s.b.Addr.Addr())
		s.cast = []*lab.Pod{s.a, s.b}
		all[i] = s
	}
	th.dns = startDNS(t, func(name string) []netip.Addr {
		for _, s := range all {
			if s.dnsName() == name {
				return []netip.Addr{th.nobody, s.b.Addr.Addr()}
			}
		}
		return nil
	})
	th.writePods()
	th.eventually("samepod reads the Pods", func() bool {
		n, err := th.samepod.Metric("samepod_index_pods")
		return err == nil && int(n) == len(th.pods)
	})
	return th, all
}

// bootstrapFor is what samepod prints for an arrangement, which may have further
// arguments behind it.
func (th *theatre) bootstrapFor(arrangement string) []byte {
	th.t.Helper()
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.rendered[arrangement] == nil {
		args := append([]string{"--check-timeout", "10s", "--upstream"}, strings.Fields(arrangement)...) // a busy machine is no fault
		if arrangement == assert {
			args = append(args, "--accept-unasserted", "--endpoint", "127.0.0.1:1")
		}
		th.rendered[arrangement] = th.bootstrap(th.version, th.samepod.Authz.String(), args...)
	}
	return th.rendered[arrangement]
}

// renderedEnvoy is one Envoy for all who need what is rendered, as it is.
func (th *theatre) renderedEnvoy(t *testing.T, arrangement string) *lab.Envoy {
	t.Helper()
	config := th.bootstrapFor(arrangement)
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.shared[arrangement] == nil {
		th.shared[arrangement] = must(th.StartEnvoy(bg, "rendered-"+strings.ReplaceAll(arrangement, " ", ""), envoyBinary(t, th.version), config))(t)
		waitForVerdicts(t, th.shared[arrangement])
	}
	return th.shared[arrangement]
}

func waitForVerdicts(t *testing.T, e *lab.Envoy) {
	t.Helper()
	eventually(t, "Envoy gets verdicts", func() bool {
		n, err := e.Stat("cluster.samepod_authz.membership_healthy")
		return err == nil && n == 1
	})
}

// checkShared holds the logs of what was rendered to the invariant.
func (th *theatre) checkShared() {
	th.t.Helper()
	for name, e := range th.shared {
		if !e.Alive() {
			th.t.Errorf("%s: Envoy has ended", name)
		}
		if err := loggedInvariant(th.t, e); err != nil {
			th.t.Errorf("%s: %v", name, err)
		}
	}
}

// loggedInvariant ends an Envoy, and holds all that it has logged to the invariant.
func loggedInvariant(t *testing.T, e *lab.Envoy) error {
	t.Helper()
	_ = e.Stop(10 * time.Second)
	return lab.CheckInvariant(must(e.AccessLog())(t))
}

// dnsName is a name that has two addresses: nobody's, and B's.
func (s *stage) dnsName() string { return fmt.Sprintf("stage-%d.test", s.n) }

// setUp makes the edits that come from the stage itself.
func (s *stage) setUp(t *testing.T, row scene) (surroundings []edit) {
	t.Helper()
	s.t = t
	authz := s.samepod.Authz
	switch {
	case row.cold:
		authz = unusedAddress(t)
		s.late = authz.String()
	case row.says != nil:
		s.authz = must(s.StartAuthzServer())(t)
		s.authz.Say(row.says)
		authz = s.authz.Addr
	}
	if row.cold || row.says != nil {
		surroundings = append(surroundings, edit{inAuthz, fmt.Sprintf("load_assignment: {endpoints: [{lb_endpoints: [{endpoint: %s}]}]}", socket(authz))})
	}
	if row.upstream == assert {
		surroundings = append(surroundings, edit{inCluster, "load_assignment: {endpoints: [{lb_endpoints: [{endpoint: " + socket(s.a.Addr) + "}]}]}"})
	}
	s.name()
	return append(surroundings, row.given...)
}

// name says what the names in edits and headers stand for.
func (s *stage) name() {
	s.names = strings.NewReplacer(
		"$A", s.a.Addr.String(), "$B", s.b.Addr.String(),
		"$ENDPOINT_A", socket(s.a.Addr), "$ENDPOINT_B", socket(s.b.Addr), "$ENDPOINT_NOBODY", socket(netip.AddrPortFrom(s.nobody, lab.ExecdPort)),
		"$SOCKET_B", socketAddress(s.b.Addr), "$OTHERPORT", strconv.Itoa(otherPort),
		"$SOCKET_NOBODY", socketAddress(netip.AddrPortFrom(s.nobody, lab.ExecdPort)), "$DNS", socketAddress(s.dns), "$NAME", s.dnsName(),
		"$DIR", filepath.Join(s.Dir, fmt.Sprintf("stage-%d", s.n)), "$PORT", strconv.Itoa(lab.ExecdPort),
	)
}

func socketAddress(a netip.AddrPort) string {
	return fmt.Sprintf("{socket_address: {address: %q, port_value: %d}}", a.Addr(), a.Port())
}

func socket(a netip.AddrPort) string { return "{address: " + socketAddress(a) + "}" }

// play sends a request, and says how it was answered and who executed what.
func (s *stage) play(e *lab.Envoy, p probe, want string) string {
	s.t.Helper()
	before := map[*lab.Pod]int{}
	for _, pod := range s.cast {
		before[pod] = len(pod.Executed())
	}
	answer := p(s, e)
	outcome := func() string {
		var ran []string
		for _, pod := range s.cast {
			for _, x := range pod.Executed()[before[pod]:] {
				ran = append(ran, x.Command+"@"+strings.ToUpper(pod.Name[:1]))
			}
		}
		return strings.TrimSpace(answer + " " + strings.Join(ran, ", "))
	}
	for deadline := time.Now().Add(3 * time.Second); outcome() != want && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // for a copy that comes late
	return outcome()
}

// handOver gives A's address to B: connections that exist stay with A, as with a
// process that outlives its Pod.
func (s *stage) handOver() {
	s.t.Helper()
	if err := s.a.Unlisten(); err != nil {
		s.t.Fatal(err)
	}
	s.join("b-successor", s.a.Addr)
}

// join starts somebody else who can execute something, until the arm is over.
func (s *stage) join(name string, addr netip.AddrPort) {
	s.t.Helper()
	s.cast = append(s.cast, s.start(name, "uid-"+name, addr))
}

// start waits for the address: a process that is being started beside us holds our
// sockets for a moment.
func (s *stage) start(name, uid string, addr netip.AddrPort) (pod *lab.Pod) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%v is free", addr), func() bool {
		var err error
		pod, err = s.StartPodOn(name, uid, addr)
		return err == nil
	})
	return pod
}

// restore brings the stage to where it was before an arm.
func (s *stage) restore() {
	s.t.Helper()
	if len(s.cast) == 2 {
		return
	}
	for _, pod := range append(s.cast[2:], s.a) {
		pod.Stop()
	}
	s.a = s.start(s.a.Name, s.a.UID, s.a.Addr)
	s.cast = []*lab.Pod{s.a, s.b}
}

// believer is what samepod must never be: it allows what the request claims.
func believer(_ context.Context, req *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	claim := map[string]string{}
	for _, h := range req.GetAttributes().GetRequest().GetHttp().GetHeaderMap().GetHeaders() {
		claim[h.GetKey()] = string(h.GetRawValue())
	}
	return allow(verified(claim["x-samepod-recorded"], claim["x-samepod-expect-pod-uid"])), nil
}

// alsoSets is a believer that sets a request header besides.
func alsoSets(key, value string) lab.Answer {
	return func(ctx context.Context, req *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		r, err := believer(ctx, req)
		r.GetOkResponse().Headers = alsoHeader(key, value)
		return r, err
	}
}

func alsoHeader(key, value string) []*corev3.HeaderValueOption {
	return []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: key, Value: value}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD}}
}

func verified(upstream, uid string) map[string]any {
	return map[string]any{"samepod_upstream": upstream, "samepod_pod_uid": uid, "samepod_decision": "d"}
}
