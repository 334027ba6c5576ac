package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/identity/agentsandbox"
	"github.com/samepod/samepod/identity/opensandbox"
)

// envoySide is what Envoy has to know of a dialect.
type envoySide struct {
	// reads are the request headers that samepod reads. They end there.
	reads []string
	// private are those that end there too, as in the engine's own gateway.
	private []string
	// pages are those that pages of other origins send besides, to whom they may.
	pages []string
	// setsHost: the Pod gets its own address as :authority.
	setsHost bool
	// pathForm: the path may name the Pod.
	pathForm bool
}

// envoySides has every dialect. Where a request of the dialect claim says which Pod it
// means is a matter of samepod's configuration.
//
// OpenSandbox's ingress leaves open-sandbox-ingress to the Pod. Here it ends, since a
// signed route in it lets its bearer in. Host ends for the same reason, and there as
// well, and so does the key of OpenSandbox's own API, which its JavaScript SDK sends along
// to every Pod. x-execd-access-token is for the Pod.
//
// Of agent-sandbox's routers the one in Python removes its headers, and both remove
// authorization, lest a sandbox speaks for its caller.
var envoySides = map[dialect]envoySide{
	dialectClaim: {},
	dialectOpenSandbox: {
		reads:    []string{opensandbox.RouteHeader, opensandbox.OldRouteHeader, opensandbox.TokenHeader, opensandbox.RenewHeader},
		private:  []string{"open-sandbox-api-key"},
		pages:    []string{"x-execd-access-token"},
		setsHost: true,
		pathForm: true,
	},
	dialectAgentSandbox: {
		reads: []string{
			agentsandbox.IDHeader, agentsandbox.NamespaceHeader, agentsandbox.PortHeader, agentsandbox.UIDHeader, agentsandbox.PodIPHeader,
		},
		private:  []string{"x-sandbox-timeout", "authorization"},
		pages:    []string{"x-sandbox-timeout", "authorization"},
		pathForm: true,
	},
}

// dialectFlags say which dialect Envoy's side is of, where samepod's configuration does not.
type dialectFlags struct {
	name     string
	pathForm bool
}

func (f *dialectFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.name, "dialect", "", "without --config: the `dialect` of callers: claim (the default), opensandbox or agent-sandbox")
	flags.BoolVar(&f.pathForm, "path-form", false, "the path may name the Pod, so samepod may set :path: OpenSandbox's /<id>/<port>/, agent-sandbox's <prefix>/<namespace>/<id>/<port>/. It turns --path-hardening on")
}

// read finds Envoy's side of the dialect. conf is samepod's configuration, or nil; claims
// are what the dialect claim reads then.
func (f *dialectFlags) read(conf *settings) (envoySide, authz.Mapping, error) {
	d, claims, pathForm := dialect(f.name), authz.DefaultMapping(), f.pathForm
	switch {
	case conf != nil && (f.name != "" || f.pathForm):
		return envoySide{}, claims, errors.New("--dialect, --path-form: both are in --config already")
	case conf != nil:
		d, claims = conf.dialect, conf.claims
		pathForm = conf.engine != nil && conf.engine.setsPath
	case f.name == "":
		d = dialectClaim
	}
	side, ok := envoySides[d]
	switch {
	case !ok:
		return side, claims, fmt.Errorf("--dialect: %q; allowed: %s", d, strings.Join(dialectNames(), ", "))
	case pathForm && !side.pathForm:
		return side, claims, fmt.Errorf("--path-form: without effect; no path names a Pod in the dialect %s", d)
	}
	if d != dialectClaim {
		claims = authz.Mapping{Allowed: claims.Allowed}
	}
	side.reads = slices.Concat(side.reads, claimHeaders(claims))
	side.pathForm = pathForm
	return side, claims, nil
}

func dialectNames() []string {
	var all []string
	for _, d := range slices.Sorted(maps.Keys(envoySides)) {
		all = append(all, string(d))
	}
	return all
}
