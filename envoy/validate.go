package envoy

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"time"
)

var (
	clusterName = regexp.MustCompile(`^[A-Za-z0-9_.|:/-]{1,200}$`)
	headerName  = regexp.MustCompile("^[a-z0-9!#$%&*+.^_|~-]{1,200}$") // that of samepod's configuration
	plainText   = regexp.MustCompile(`^[ -~]{1,1000}$`)
	origin      = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?$`)
)

// A ParamError names a parameter that cannot be rendered.
type ParamError struct {
	Param string // as a flag of samepod envoy is named, without dashes
	Err   error
}

func (e *ParamError) Error() string { return e.Param + ": " + e.Err.Error() }

// Unwrap returns what is wrong with it.
func (e *ParamError) Unwrap() error { return e.Err }

func problem(param, format string, args ...any) error {
	return &ParamError{param, fmt.Errorf(format, args...)}
}

// Validate says what is wrong with p, as a [*ParamError].
func (p Params) Validate() error {
	switch {
	case p.Version < MinVersion || p.Version > MaxVersion:
		return problem("envoy-version", "%v; allowed: %v to %v", p.Version, MinVersion, MaxVersion)
	case p.Upstream != Resolve && p.Upstream != Assert && p.Upstream != Both:
		return problem("upstream", "%q; allowed: resolve, assert, both", p.Upstream)
	case p.unasserted() && !p.AcceptUnasserted:
		return problem("upstream", "assert: Envoy %v cannot compare the host that it picks with the verified address (upstream_rbac is in %v and newer); use resolve, or --accept-unasserted if something else compares", p.Version, sinceAssert)
	case p.UpstreamProtocol != HTTP1 && p.UpstreamProtocol != Downstream:
		return problem("upstream-protocol", "%q; allowed: http1, downstream", p.UpstreamProtocol)
	case p.Admin.IsValid() && p.Admin == p.Listen && p.Listen.Port() != 0:
		return problem("admin", "%v is --listen as well", p.Admin)
	case !clusterName.MatchString(p.Cluster) || p.Cluster == authzCluster:
		return problem("cluster", "%q; allowed: letters, digits and _.|:/-, but not %s, which is samepod's own", p.Cluster, authzCluster)
	case p.Upstream == Assert && len(p.Endpoints) == 0:
		return problem("endpoint", "missing; assert renders a cluster of these hosts, to stand where yours does")
	case p.Upstream != Assert && len(p.Endpoints) > 0:
		return problem("endpoint", "%v; allowed with --upstream assert only: samepod returns the address", p.Endpoints[0])
	case p.SetsPath && !p.PathHardening:
		return problem("path-form", "samepod reads the path; it needs path-hardening")
	case p.RenewEvery > mostRenewEvery:
		return problem("renew-every", "%v; allowed: at most %v, OpenSandbox may extend a life by no more than 5m", p.RenewEvery, mostRenewEvery)
	case p.MaxRequests == 0:
		return problem("max-requests", "0; allowed: a positive number")
	}
	return errors.Join(p.validateReplicas(), p.validateAddresses(), p.validateTexts(), p.validateCORS(), p.UpstreamTLS.validate(), p.validateDurations())
}

// validateAddresses refuses what netip reads and Envoy does not, or reads
// otherwise: a zone ends the process before 1.39, a mapped address is another text
// of the same address to the assertion.
func (p Params) validateAddresses() error {
	canonical := func(param string, a netip.AddrPort, portRequired bool) error {
		if a.Addr().Zone() != "" || a.Addr().Is4In6() {
			return problem(param, "%v; allowed: an address without a zone, and not IPv4-mapped", a)
		}
		if portRequired && (a.Port() == 0 || a.Addr().IsUnspecified()) {
			return problem(param, "%v; allowed: an address that can be dialled, and a port 1 to 65535", a)
		}
		return nil
	}
	errs := []error{canonical("listen", p.Listen, false), canonical("admin", p.Admin, false)}
	for _, r := range p.Replicas {
		if r.Address.IsValid() {
			errs = append(errs, canonical("samepod", r.Address, true))
		}
	}
	for _, e := range p.Endpoints {
		errs = append(errs, canonical("endpoint", e, true))
	}
	return errors.Join(errs...)
}

func (p Params) validateTexts() error {
	for _, h := range slices.Concat(p.ClaimHeaders, p.PrivateHeaders) {
		if !headerName.MatchString(h) {
			return problem("claim header", "%q; allowed: a header name in lower case", h)
		}
	}
	for _, m := range p.ClaimMetadata {
		if !plainText.MatchString(m) {
			return problem("claim metadata namespace", "%q; allowed: printable ASCII", m)
		}
	}
	for k, v := range p.ContextExtensions {
		if !plainText.MatchString(k) || !plainText.MatchString(v) {
			return problem("context-extension", "%q=%q; allowed: printable ASCII", k, v)
		}
	}
	return nil
}

func (p Params) validateCORS() error {
	for _, o := range p.CORSOrigins {
		if !origin.MatchString(o) && (o != "*" || len(p.CORSOrigins) > 1) {
			return problem("cors-origin", "%q; allowed: <scheme>://<host>[:<port>] in lower case, without a path, or * alone", o)
		}
	}
	for _, h := range p.CORSHeaders {
		if !headerName.MatchString(h) || h == "*" {
			return problem("cors-header", "%q; allowed: a header name in lower case", h)
		}
	}
	if len(p.CORSOrigins) == 0 && len(p.CORSHeaders) > 0 {
		return problem("cors-header", "%q; without effect, no cors-origin is allowed", p.CORSHeaders[0])
	}
	return nil
}

func (p Params) validateDurations() error {
	const most = math.MaxInt32 * time.Millisecond // a C int, which TCP_USER_TIMEOUT is
	for _, d := range []struct {
		param    string
		value    time.Duration
		zeroIsOK bool
	}{
		{"check-timeout", p.CheckTimeout, false}, {"connect-timeout", p.ConnectTimeout, false}, {"stream-duration", p.StreamDuration, true},
		{"stream-idle", p.StreamIdle, true}, {"renew-every", p.RenewEvery, true}, {"upstream-idle", p.UpstreamIdle, false}, {"tcp-user-timeout", p.TCPUserTimeout, false},
	} {
		zero := ""
		if d.zeroIsOK {
			zero = "0 for none, or "
		}
		if d.value < 0 || d.value == 0 && !d.zeroIsOK || d.value%time.Millisecond != 0 || d.value > most {
			return problem(d.param, "%v; allowed: %sa positive duration in whole milliseconds, at most %v", d.value, zero, most)
		}
	}
	return nil
}

// mostRenewEvery leaves time for samepod's throttle and for Redis.
const mostRenewEvery = time.Minute
