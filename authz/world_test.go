package authz

import (
	"net/netip"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/samepod/samepod/identity"
)

// The vocabulary of this package's tests: a world of Pods, built by a script of
// events, and claims on it.

const (
	addrX, addrY = "10.0.0.1", "10.0.0.2"
	addrV6       = "fd00::1"

	pending   = identity.PhasePending
	running   = identity.PhaseRunning
	succeeded = identity.PhaseSucceeded
	failed    = identity.PhaseFailed
)

// A podOption changes the Pod ns/<name> with uid "U-<name>", running, selected,
// ready, without an address.
type podOption func(*identity.Pod)

func pod(name string, options ...podOption) identity.Pod {
	p := identity.Pod{
		NamespacedName: identity.NamespacedName{Namespace: "ns", Name: name},
		UID:            identity.UID("U-" + name),
		Phase:          running, Selected: true, Ready: true,
	}
	for _, o := range options {
		o(&p)
	}
	return p
}

func on(ips ...string) podOption {
	return func(p *identity.Pod) {
		p.IPs = nil
		for _, ip := range ips {
			p.IPs = append(p.IPs, netip.MustParseAddr(ip))
		}
	}
}
func uid(u identity.UID) podOption     { return func(p *identity.Pod) { p.UID = u } }
func phase(f identity.Phase) podOption { return func(p *identity.Pod) { p.Phase = f } }
func in(namespace string) podOption    { return func(p *identity.Pod) { p.Namespace = namespace } }
func terminating(p *identity.Pod)      { p.Terminating = true }
func hostNetwork(p *identity.Pod)      { p.HostNetwork = true }
func mirror(p *identity.Pod)           { p.Mirror = true }
func malformed(p *identity.Pod)        { p.Malformed = "status.podIPs[0].ip" }
func unready(p *identity.Pod)          { p.Ready = false }
func unselected(p *identity.Pod)       { p.Selected = false }
func node(ip string) podOption {
	return func(p *identity.Pod) { p.HostIPs = []netip.Addr{netip.MustParseAddr(ip)} }
}
func gone(p identity.Pod) event {
	return func(f *identity.Feed) { f.Delete(p.NamespacedName, p.UID, time.Now()) }
}
func goneByKey(p identity.Pod) event {
	return func(f *identity.Feed) { f.Delete(p.NamespacedName, "", time.Now()) }
}

type event func(*identity.Feed)

// world applies Pods (as added or updated) and events in order.
func world(script ...any) *identity.Index {
	index := identity.NewIndex(identity.HistoryConfig{Addresses: 16, Tenures: 4})
	feed := index.NewFeed("pods", "told", time.Hour)
	feed.Replace(nil, time.Now())
	for _, step := range script {
		switch step := step.(type) {
		case identity.Pod:
			feed.Apply(step, time.Now())
		case event:
			step(feed)
		}
	}
	return index
}

// claim is on ns/<name> with this uid ("" for any) at this recorded address ("ip"
// or "" for none), port 80.
func claim(name string, u identity.UID, recorded string) identity.Claim {
	c := identity.Claim{
		Pod: identity.NamespacedName{Namespace: "ns", Name: name},
		UID: u, AnyUID: u == "", Port: 80, Authorized: true,
	}
	if recorded != "" {
		c.Recorded = netip.AddrPortFrom(netip.MustParseAddr(recorded), 80)
	}
	return c
}

// at is what the dialect claim makes of an index.
func at(index *identity.Index, c identity.Claim) identity.Target { return Pods(index.Look)(c) }

// policy allows namespace ns, port 80 and any Pod's address.
func policy() Policy {
	return Policy{Scope: must(ParseScope([]string{"ns"})), Ports: must(ParsePorts([]string{"80"}))}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// decide is the verdict on a claim of the dialect claim.
func decide(c identity.Claim, index *identity.Index) Verdict {
	p := policy()
	return p.decide(c, at(index, c))
}

// request is a valid check of ns/a, uid U-a, recorded at 10.0.0.1:80, as Envoy
// sends it without encode_raw_headers; options change it.
func request(options ...func(*authv3.AttributeContext)) *authv3.CheckRequest {
	attrs := &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
		Method: "POST", Path: "/command", Host: "gateway",
		Headers: map[string]string{
			":authority":               "gateway",
			"x-samepod-target":         "ns/a",
			"x-samepod-expect-pod-uid": "U-a",
			"x-samepod-recorded":       addrX + ":80",
		},
	}}}
	for _, o := range options {
		o(attrs)
	}
	return &authv3.CheckRequest{Attributes: attrs}
}
