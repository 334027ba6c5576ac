package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/kube"
	"github.com/samepod/samepod/identity/podsfile"
	"github.com/samepod/samepod/identity/sandbox"
)

// auditFlags are the flags of samepod audit.
type auditFlags struct {
	kubeconfig  string
	kubeContext string
	namespaces  []string
	podsFile    string
	objectsFile string
	output      string
	all         bool
	timeout     time.Duration
}

// errReassigned is what an audit found.
var errReassigned = errors.New("addresses of sandboxes are held by Pods of others")

func newAudit() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List the sandboxes whose published address is dead, or held by somebody else's Pod",
		Long: `List the sandboxes of OpenSandbox and agent-sandbox whose published address no live Pod
holds (dead), or a Pod that is not theirs (reassigned): what a client, an ingress or a
server that trusts the record dials. It needs no Envoy and no samepod serve, reads once,
and writes nothing.

The exit code is 1 if any address is reassigned or shared with a stranger, 2 if it could not be told.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return &exitError{code: 2, error: err}
			}
			records, err := f.audit(cmd.Context())
			if err != nil {
				return &exitError{code: 2, error: err}
			}
			return f.print(cmd.OutOrStdout(), records)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "a kubeconfig `file`; empty for the service account of the Pod that this runs in")
	flags.StringVar(&f.kubeContext, "kube-context", "", "context of the kubeconfig; empty for its current one")
	flags.StringSliceVar(&f.namespaces, "namespaces", nil, "the namespaces of sandboxes; empty for all. The Pods of all namespaces are read in any case: an address may be held anywhere")
	flags.StringVar(&f.podsFile, "pods-file", "", "in place of a cluster: a `file` of every Pod, as kubectl get pods -A -o yaml prints")
	flags.StringVar(&f.objectsFile, "sandboxes-file", "", "with --pods-file: a `file` of BatchSandboxes, Pools and Sandboxes, as kubectl prints")
	flags.StringVarP(&f.output, "output", "o", "table", "table or json")
	flags.BoolVar(&f.all, "all", false, "list what is as it should be too")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "how long the API server may take")
	return cmd
}

func (f *auditFlags) check(set *pflag.FlagSet) error {
	if err := oneOf("output", f.output, "table", "json"); err != nil {
		return err
	}
	if (f.podsFile == "") != (f.objectsFile == "") {
		return errors.New("--pods-file, --sandboxes-file: one without the other; allowed: both, or a cluster")
	}
	for _, name := range []string{"kubeconfig", "kube-context", "timeout"} {
		if f.podsFile != "" && set.Changed(name) {
			return fmt.Errorf("--%s: without effect; Pods come from --pods-file", name)
		}
	}
	if f.timeout <= 0 {
		return fmt.Errorf("--timeout: %v; allowed: a positive duration", f.timeout)
	}
	return nil
}

// audit reads everything once.
func (f *auditFlags) audit(ctx context.Context) ([]sandbox.Record, error) {
	e := everyEngine()
	pods := identity.NewIndex(identity.HistoryConfig{Addresses: 1, Tenures: 1})
	if f.podsFile != "" {
		return f.auditFiles(e, pods)
	}
	options := kube.Options{
		Kubeconfig: f.kubeconfig, Context: f.kubeContext, Bound: minStaleness, Keep: e.keep(),
		UserAgent: "samepod/" + thisBuild().Version, Log: slog.New(slog.DiscardHandler),
	}
	source, err := kube.New(options, pods)
	if err != nil {
		return nil, err
	}
	sandboxes := sandbox.NewIndex(e.parts(), pods)
	if err := e.watch(source, sandboxes, nil); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = source.Run(ctx) // it ends with ctx, and then without an error
	}()
	feeds := func() []identity.FeedStatus { return append(pods.Feeds(), sandboxes.Feeds()...) }
	for {
		changed := pods.Changed()
		waits := notSynced(feeds())
		if waits == nil {
			cancel()
			<-done
			if len(sandboxes.All()) == 0 {
				if err := missing(sandboxes.Feeds()); err != nil {
					return nil, err
				}
			}
			return f.inScope(sandboxes.Audit()), nil
		}
		select {
		case <-changed:
		case <-done:
			return nil, fmt.Errorf("%s: not read within %v: %s", waits.Name, f.timeout, waits.Fault)
		}
	}
}

// notSynced is a feed that has not delivered its first list; nil if each has.
func notSynced(feeds []identity.FeedStatus) *identity.FeedStatus {
	for _, s := range feeds {
		if s.Freshness == identity.NotSynced {
			return &s
		}
	}
	return nil
}

// missing says that no kind of an engine exists where there are no objects: most likely
// this is not the cluster that was meant, and no clean bill.
func missing(feeds []identity.FeedStatus) error {
	for _, s := range feeds {
		if s.Fault == "" {
			return nil
		}
	}
	return fmt.Errorf("nothing to audit: %s", feeds[0].Fault)
}

func (f *auditFlags) auditFiles(e *engine, pods *identity.Index) ([]sandbox.Record, error) {
	const most = 1 << 30 // bytes
	now := time.Now()
	text, err := readRegular(f.podsFile, most)
	if err != nil {
		return nil, fmt.Errorf("--pods-file: %w", err)
	}
	all, err := podsfile.Parse(text, e.keep())
	if err != nil {
		return nil, fmt.Errorf("--pods-file: %s: %w", f.podsFile, err)
	}
	pods.NewFeed("pods file", "the file itself", time.Hour).Replace(all, now)
	if text, err = readRegular(f.objectsFile, most); err != nil {
		return nil, fmt.Errorf("--sandboxes-file: %w", err)
	}
	objects, err := parseObjects(text)
	if err != nil {
		return nil, fmt.Errorf("--sandboxes-file: %s: %w", f.objectsFile, err)
	}
	sandboxes := sandbox.NewIndex(e.parts(), pods)
	if err := e.fill(sandboxes, objects, now); err != nil {
		return nil, fmt.Errorf("--sandboxes-file: %s: %w", f.objectsFile, err)
	}
	return f.inScope(sandboxes.Audit()), nil
}

// inScope leaves out the sandboxes of other namespaces.
func (f *auditFlags) inScope(records []sandbox.Record) []sandbox.Record {
	var all []sandbox.Record
	for _, r := range records {
		if len(f.namespaces) == 0 || slices.Contains(f.namespaces, r.Sandbox.Namespace) {
			all = append(all, r)
		}
	}
	return all
}

// finding is a record as JSON.
type finding struct {
	Namespace string `json:"namespace"`
	Sandbox   string `json:"sandbox"`
	UID       string `json:"uid"`
	Kind      string `json:"kind"`
	Address   string `json:"address,omitempty"` // absent: it is no address
	State     string `json:"state"`
	Holder    string `json:"holder,omitempty"` // absent: nobody holds it
	HolderUID string `json:"holderUID,omitempty"`
}

// census is an audit as JSON. The counts are of all addresses, the list is of those that
// are not as they should be, or of all with --all.
type census struct {
	Addresses int            `json:"addresses"`
	States    map[string]int `json:"states"`
	Findings  []finding      `json:"findings"`
}

func (f *auditFlags) print(w io.Writer, records []sandbox.Record) error {
	c := census{Addresses: len(records), States: map[string]int{}, Findings: []finding{}}
	foreign := 0
	for h := sandbox.HoldOwn; h <= sandbox.HoldReassigned; h++ {
		c.States[h.String()] = 0
	}
	for _, r := range records {
		c.States[r.Hold.String()]++
		if r.Hold >= sandbox.HoldShared {
			foreign++
		}
		if r.Hold == sandbox.HoldOwn && !f.all {
			continue
		}
		line := finding{Namespace: r.Sandbox.Namespace, Sandbox: r.Sandbox.Name, UID: string(r.UID), Kind: r.Kind, State: r.Hold.String()}
		if r.Address.IsValid() {
			line.Address = r.Address.String()
		}
		if !r.Holder.IsZero() {
			line.Holder, line.HolderUID = r.Holder.String(), string(r.Holder.UID)
		}
		c.Findings = append(c.Findings, line)
	}
	write := c.table
	if f.output == "json" {
		write = func(w io.Writer) error {
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			return enc.Encode(c)
		}
	}
	if err := write(w); err != nil {
		return &exitError{code: 2, error: err}
	}
	if foreign > 0 {
		return fmt.Errorf("%d %w", foreign, errReassigned)
	}
	return nil
}

func (c census) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(c.Findings) > 0 {
		fmt.Fprintln(t, "STATE\tNAMESPACE\tSANDBOX\tADDRESS\tHELD BY\tKIND")
	}
	for _, l := range c.Findings {
		kind, _, _ := strings.Cut(l.Kind, ".")
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", l.State, l.Namespace, l.Sandbox, or(l.Address), or(l.Holder), kind)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d addresses: %d own, %d dead, %d unreadable, %d shared, %d reassigned\n", c.Addresses,
		c.States["own"], c.States["dead"], c.States["unreadable"], c.States["shared"], c.States["reassigned"])
	return err
}

// or is the text, or a dash for none.
func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
