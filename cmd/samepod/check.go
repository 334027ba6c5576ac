package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/envoy"
	"github.com/samepod/samepod/envoy/hazard"
)

// mostConfiguration bounds what is read of a configuration. A gateway with
// thousands of routes dumps a few dozen MiB.
const mostConfiguration = 64 << 20

// checkFlags are the flags of samepod envoy check.
type checkFlags struct {
	config, version, upstream, output string
	dialect                           dialectFlags
	options                           hazard.Options
}

func newCheck() *cobra.Command {
	f := checkFlags{output: "text"}
	cmd := &cobra.Command{
		Use:   "check FILE|ADMIN-URL",
		Short: "Say what in an Envoy's configuration can misroute a request",
		Long: `Say what in an Envoy's configuration can misroute a request, where, and how to mend it.

FILE is a bootstrap in YAML or JSON, a saved answer to /config_dump?include_eds, or - for standard input.
ADMIN-URL is the admin interface of a running Envoy, such as http://127.0.0.1:9901; it is only read.
The exit code is 1 if there is a hazard, or nothing is protected, or something cannot be judged; notes exit 0. It is 2
if there was nothing to judge: no such file, no answer, no configuration.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return unjudged(fmt.Errorf("%d arguments; allowed: one, a file, - or the admin interface of an Envoy, http://<host>:<port>", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.read()
			if err != nil {
				return unjudged(err)
			}
			text, err := readConfiguration(cmd.Context(), args[0], cmd.InOrStdin())
			if err != nil {
				return unjudged(err)
			}
			r, err := hazard.Check(text, o)
			if wrong, ok := errors.AsType[*envoy.ParamError](err); ok {
				return unjudged(flagged(wrong))
			}
			if err != nil {
				return unjudged(fmt.Errorf("%s: %w", args[0], err))
			}
			if err := f.print(cmd.OutOrStdout(), args[0], r); err != nil {
				return err
			}
			if n := r.Count(hazard.Hazard); n > 0 {
				return fmt.Errorf("%s: %s", args[0], count(n, "hazard"))
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "samepod's configuration `file`: the claim's headers follow it. Without it, the defaults of the --dialect")
	f.dialect.register(flags)
	flags.StringVar(&f.version, "envoy-version", "", "`version` of Envoy, such as 1.40 or 1.40.0. Without it, what a dump says, and 1.40 for a bootstrap")
	flags.StringVar(&f.options.Cluster, "cluster", envoy.DefaultParams().Cluster, "`name` of the protected cluster")
	flags.StringVar(&f.upstream, "upstream", "", "the `arrangement` that is meant: resolve, assert or both. Without it, what the configuration looks like")
	flags.BoolVar(&f.options.AcceptUnasserted, "accept-unasserted", false, "accept assert below 1.39, where nothing asserts")
	flags.StringVar(&f.output, "output", f.output, "text, or json for machines")
	return cmd
}

// unjudged is an error that says nothing of the configuration.
func unjudged(err error) error { return &exitError{code: 2, error: err} }

// read makes options of the flags.
func (f *checkFlags) read() (hazard.Options, error) {
	o := f.options
	if err := oneOf("output", f.output, "text", "json"); err != nil {
		return o, err
	}
	if f.version != "" {
		if _, err := envoy.ParseVersion(f.version); err != nil {
			return o, fmt.Errorf("--envoy-version: %w", err)
		}
	}
	if f.upstream != "" {
		if err := oneOf("upstream", f.upstream, string(envoy.Resolve), string(envoy.Assert), string(envoy.Both)); err != nil {
			return o, err
		}
	}
	o.Version, o.Upstream = f.version, envoy.Arrangement(f.upstream)
	var conf *settings
	if f.config != "" {
		loaded, err := loadConfig(f.config)
		if err != nil {
			return o, err
		}
		conf = &loaded
	}
	side, _, err := f.dialect.read(conf)
	o.ClaimHeaders, o.PrivateHeaders, o.SetsPath, o.SetsHost = side.reads, side.private, side.pathForm, side.setsHost
	return o, err
}

// claimHeaders are the request headers that a claim is made of.
func claimHeaders(claims authz.Mapping) []string {
	var all []string
	for _, s := range claims.Sources() {
		if s.Header != "" {
			all = append(all, s.Header)
		}
	}
	return all
}

// readConfiguration reads a file, standard input or a running Envoy.
func readConfiguration(ctx context.Context, from string, stdin io.Reader) ([]byte, error) {
	if strings.Contains(from, "://") {
		return fetchDump(ctx, from)
	}
	if from == "-" {
		return readBounded("standard input", stdin)
	}
	f, err := os.Open(from) //nolint:gosec // the operator's own file
	if err != nil {
		return nil, fmt.Errorf("%q: %w; allowed: a file, - or http://<host>:<port>", from, errors.Unwrap(err))
	}
	defer f.Close()
	return readBounded(from, f)
}

func readBounded(from string, r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, mostConfiguration+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", from, err)
	case len(text) > mostConfiguration:
		return nil, fmt.Errorf("%s: longer than %d MiB, which is the most that is read", from, mostConfiguration>>20)
	}
	return text, nil
}

// fetchDump asks a running Envoy for its configuration. It follows no redirect and
// no proxy: what answers must be the Envoy that is asked for.
func fetchDump(ctx context.Context, admin string) ([]byte, error) {
	u, err := url.Parse(admin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q; allowed: a file, or the admin interface of an Envoy, http://<host>:<port>", admin)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	where := u.Scheme + "://" + u.Host + "/config_dump?include_eds"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, errors.Unwrap(err)) // whose own words begin with Get
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: answered %s; allowed: 200 and a config dump", where, resp.Status)
	}
	text, err := readBounded(where, resp.Body)
	if err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("%s: answered 200, but no JSON; allowed: a config dump", where)
	}
	return text, nil
}

// print writes a report for people, or for machines.
func (f *checkFlags) print(w io.Writer, from string, r hazard.Report) error {
	if f.output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	var b strings.Builder
	rule := ""
	for _, x := range r.Findings {
		if x.Rule != rule { // said once; a rule's findings follow each other
			rule = x.Rule
			fmt.Fprintf(&b, "%s %s\n  why    %s\n  fix    %s\n", x.Severity, x.Rule, x.Why, x.Fix)
		}
		fmt.Fprintf(&b, "  at     %s\n  found  %s\n", x.Place, x.Found)
	}
	fmt.Fprintf(&b, "%s: Envoy %s, %s, %s to %s: %s, %s\n", from, r.Version, r.Upstream,
		count(len(r.Protected), "route"), r.Cluster, count(r.Count(hazard.Hazard), "hazard"), count(r.Count(hazard.Note), "note"))
	_, err := io.WriteString(w, b.String())
	return err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
