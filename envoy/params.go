// Package envoy renders Envoy's side of the contract: a complete bootstrap, or the
// parts to merge into a configuration that exists.
//
// The configuration is in the template, which reads as ordinary Envoy YAML with
// its reasons beside it. Every parameter that reaches it is a typed value, or a
// string of a narrow alphabet, so that no parameter can write YAML.
//
// params.go is what can be chosen, validate.go what cannot be combined, replies.go the
// answers that Envoy gives by itself, render.go the rendering. The package imports
// nothing else of samepod.
package envoy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Version is a minor version of Envoy 1.
type Version int

// The versions that are rendered for, and tested.
const (
	MinVersion Version = 36
	MaxVersion Version = 40

	// sincePartition has the hashable filter state that keeps connection pools of
	// two Pods apart.
	sincePartition Version = 38
	// sinceAssert has upstream_rbac, which compares the host that Envoy picked with
	// the verified address before it connects.
	sinceAssert Version = 39
	// untilPinned is the last version that honours read_only on filter state. Up to
	// it the first writer of the address wins; after it the last one does, and only
	// the assertion notices.
	untilPinned Version = 38
	// sinceLimits bounds the size of returned headers.
	sinceLimits Version = 37
)

func (v Version) String() string { return fmt.Sprintf("1.%d", int(v)) }

// ParseVersion reads "1.39" or "1.39.3".
func ParseVersion(s string) (Version, error) {
	errVersion := fmt.Errorf("%q; allowed: %v to %v", s, MinVersion, MaxVersion)
	parts := strings.Split(s, ".")
	if len(parts) < 2 || len(parts) > 3 || parts[0] != "1" {
		return 0, errVersion
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil || Version(minor) < MinVersion || Version(minor) > MaxVersion {
		return 0, errVersion
	}
	if len(parts) == 3 {
		if _, err := strconv.ParseUint(parts[2], 10, 16); err != nil {
			return 0, errVersion
		}
	}
	return Version(minor), nil
}

// Arrangement is how the verified address and the dialled address are made one.
type Arrangement string

const (
	// Resolve makes Envoy dial the address that samepod returns (ORIGINAL_DST).
	Resolve Arrangement = "resolve"
	// Assert lets a cluster of the operator's pick the host, and Envoy refuses it
	// unless it is the address that samepod returned. Only for hosts with one
	// address: STATIC, STRICT_DNS, EDS without additional_addresses.
	Assert Arrangement = "assert"
	// Both makes Envoy dial the address that samepod returns, and refuse to dial any
	// other, whatever a filter before or behind ours did.
	Both Arrangement = "both"
)

// Protocol is what Envoy speaks to Pods.
type Protocol string

const (
	// HTTP1 is HTTP/1.1, whatever the caller speaks.
	HTTP1 Protocol = "http1"
	// Downstream is what the caller speaks: HTTP/2 stays HTTP/2, which gRPC needs.
	Downstream Protocol = "downstream"
)

// PortRange is First to Last, both included.
type PortRange struct{ First, Last uint16 }

type contextExtension struct{ Key, Value string }

// Params is everything that can be chosen. [DefaultParams] has the defaults.
type Params struct {
	Version  Version
	Upstream Arrangement
	// AcceptUnasserted renders Assert below 1.39, where nothing asserts: the check
	// then says whether the Pod is alive, not where the request goes.
	AcceptUnasserted bool

	// Replicas are where samepod listens, and ReplicaTLS is how they are spoken to.
	Replicas   []Replica
	ReplicaTLS ReplicaTLS

	// Listen and Admin are of the bootstrap only; the zero Admin is none.
	Listen, Admin netip.AddrPort

	// Cluster is the protected cluster, with the Pods behind it.
	Cluster string
	// Endpoints are the hosts of the cluster that Assert renders.
	Endpoints []netip.AddrPort

	// ClaimHeaders are the request headers that samepod reads. They are sent to it
	// and end there. ClaimMetadata are the namespaces of dynamic metadata that it
	// reads, ContextExtensions what the route tells it.
	ClaimHeaders      []string
	ClaimMetadata     []string
	ContextExtensions map[string]string
	// PrivateHeaders are request headers that end here too, though samepod does not
	// read them: no Pod gets to see them.
	PrivateHeaders []string
	// SetsPath lets samepod give the Pod another :path than the caller's, for dialects
	// that name the Pod in it. It needs PathHardening.
	SetsPath bool
	// SetsHost lets samepod give the Pod its own address as :authority, for dialects in
	// which the caller's may let its bearer in. A route that rewrites it would not do:
	// Envoy then tells the Pod the caller's, as x-envoy-original-host.
	SetsHost bool

	// CIDRs and Ports bound the addresses that upstream_rbac lets through; none is
	// any. Where nothing asserts, samepod alone bounds them.
	CIDRs []netip.Prefix
	Ports []PortRange

	// UpstreamProtocol is what Envoy speaks to Pods, UpstreamTLS how; the zero value
	// is without TLS.
	UpstreamProtocol Protocol
	UpstreamTLS      UpstreamTLS

	// WebSocket lets upgrades through.
	WebSocket bool
	// CORSOrigins are the origins whose pages may call Pods: serialized origins (RFC
	// 6454, section 6.2), or "*" alone. None is no CORS filter. CORSHeaders are
	// request headers that such pages may send, besides those of the claim and
	// content-type.
	CORSOrigins []string
	CORSHeaders []string
	// PathHardening rejects escaped slashes and underscores in header names and
	// merges slashes: for dialects that read the path.
	PathHardening bool

	// RenewEvery is how often samepod is told that a request is still running, besides
	// when it has ended, where the sandbox asks to be renewed by use. 0 is never, also
	// not at the end.
	RenewEvery time.Duration

	CheckTimeout   time.Duration // of one check
	ConnectTimeout time.Duration // to a Pod
	// StreamDuration bounds a request altogether: a stream is checked once, at its
	// beginning. 0 is unbounded.
	StreamDuration time.Duration
	StreamIdle     time.Duration // without a byte in either direction
	UpstreamIdle   time.Duration // of a kept connection to a Pod
	// TCPUserTimeout ends connections to Pods that vanished without a word. It also
	// bounds how long a live Pod may stop reading.
	TCPUserTimeout time.Duration
	// MaxRequests bounds requests in flight to Pods; more are answered at once.
	MaxRequests uint32
}

// DefaultParams renders Both for the newest version.
func DefaultParams() Params {
	return Params{
		Version: MaxVersion, Upstream: Both,
		Replicas:         []Replica{{Address: netip.MustParseAddrPort("127.0.0.1:9191")}},
		Listen:           netip.MustParseAddrPort("127.0.0.1:8080"),
		Admin:            netip.MustParseAddrPort("127.0.0.1:9901"),
		Cluster:          "samepod_verified",
		UpstreamProtocol: HTTP1,
		WebSocket:        true,
		CheckTimeout:     500 * time.Millisecond, ConnectTimeout: 500 * time.Millisecond,
		StreamDuration: time.Hour, StreamIdle: 5 * time.Minute, UpstreamIdle: 10 * time.Second,
		TCPUserTimeout: time.Minute, MaxRequests: 20_000,
	}
}

// unasserted reports whether a cluster of the operator's picks the host and nothing
// compares it.
func (p Params) unasserted() bool { return p.Upstream == Assert && !p.Asserts() }

// Asserts reports whether Envoy compares the host with the verified address.
func (p Params) Asserts() bool { return p.Upstream != Resolve && p.Version >= sinceAssert }

// Partitions reports whether connections are kept apart by Pod uid. Below, each
// request has a connection of its own.
func (p Params) Partitions() bool { return p.Version >= sincePartition }

// PinsForGood reports whether filter state can be made read-only: then the first
// writer of the address wins, else the last one.
func (p Params) PinsForGood() bool { return p.Version <= untilPinned }

// authzCluster is the name of the cluster that is samepod itself.
const authzCluster = "samepod_authz"
