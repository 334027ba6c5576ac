package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/samepod/samepod/creation"
	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/kube"
)

// creationFlags are those of the creation SLI.
type creationFlags struct {
	enabled      bool
	deadline     time.Duration
	grace        time.Duration
	classes      []string
	versionLabel string
	lease        string
}

func (f *creationFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.enabled, "creation-sli", false, "with --source kube: measure how many Pods get their sandbox in time; needs more permissions (docs/creation.md)")
	flags.DurationVar(&f.deadline, "creation-deadline", time.Minute, "how long a Pod's sandbox may take from when the Pod is bound; longer than volumes take to be attached")
	flags.DurationVar(&f.grace, "creation-grace", 15*time.Second, "how long after the deadline a verdict waits for news that are under way")
	flags.StringSliceVar(&f.classes, "creation-runtime-classes", nil, "RuntimeClasses to tell apart in metrics; others are \"other\", none is \"default\"")
	flags.StringVar(&f.versionLabel, "creation-node-version-label", "", "label of Nodes by which results are split, such as one with the version of runsc; empty for the Node's containerRuntimeVersion")
	flags.StringVar(&f.lease, "creation-lease", "", "Lease on which replicas agree which of them counts: `<namespace>/<name>` (required with --creation-sli)")
}

// mostClasses bounds a label of which every value has a series for each cause.
const mostClasses = 8

func (f *creationFlags) check(set *pflag.FlagSet, source string) error {
	if !f.enabled {
		for _, name := range []string{"deadline", "grace", "runtime-classes", "node-version-label", "lease"} {
			if set.Changed("creation-" + name) {
				return fmt.Errorf("--creation-%s: without effect; --creation-sli is not set", name)
			}
		}
		return nil
	}
	switch {
	case source != "kube":
		return fmt.Errorf("--creation-sli: without effect; --source is %s", source)
	case f.lease == "":
		return errors.New("--creation-lease: missing; allowed: <namespace>/<name>")
	case f.deadline < time.Second:
		return fmt.Errorf("--creation-deadline: %v; allowed: at least 1s, which is as exactly as the API tells", f.deadline)
	case f.grace < time.Second:
		return fmt.Errorf("--creation-grace: %v; allowed: at least 1s", f.grace)
	case len(f.classes) > mostClasses:
		return fmt.Errorf("--creation-runtime-classes: %d names; allowed: at most %d", len(f.classes), mostClasses)
	}
	if _, err := identity.ParseNamespacedName(f.lease); err != nil {
		return fmt.Errorf("--creation-lease: %q: %w", f.lease, err)
	}
	for i, class := range f.classes {
		if _, err := identity.NewNamespacedName("x", class); err != nil || slices.Contains(creation.ReservedClasses(), class) || slices.Contains(f.classes[:i], class) {
			return fmt.Errorf("--creation-runtime-classes: %q; allowed: names of RuntimeClasses, each once, but not %s", class, strings.Join(creation.ReservedClasses(), " and "))
		}
	}
	return nil
}

// creationSLI is the measurement, ready to be run.
type creationSLI struct {
	feed    *kube.Creation
	metrics *creation.Metrics
	ledger  creation.Ledger
	tracker atomic.Pointer[creation.Tracker] // nil while another replica counts
}

// open is nil without --creation-sli.
func (f *creationFlags) open(from sourceFlags, conf settings, reg *prometheus.Registry, log *slog.Logger) (*creationSLI, error) {
	if !f.enabled {
		return nil, nil //nolint:nilnil // none is not an error, and every method of none does nothing
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	lease, err := identity.ParseNamespacedName(f.lease)
	if err != nil {
		return nil, err
	}
	s := &creationSLI{}
	s.metrics = creation.NewMetrics(reg, f.classes, s.pending, s.ledger.Owners)
	s.feed, err = kube.NewCreation(kube.CreationOptions{
		Options: kube.Options{
			Kubeconfig: from.kubeconfig, Context: from.kubeContext, Namespaces: from.namespaces, Keep: conf.keep(false),
			UserAgent: "samepod/" + thisBuild().Version, Log: log.With("part", "creation"),
		},
		InScope: conf.policy.Scope.Contains, Lease: lease, Holder: name + "-" + rand.Text()[:8], NodeVersionLabel: f.versionLabel,
		Begin: func(handover time.Time) *creation.Tracker {
			t := creation.NewTracker(creation.Config{Deadline: f.deadline, Grace: f.grace, Handover: handover, Tell: func(o creation.Outcome) { s.tell(log, o) }, Version: func(version string) { s.metrics.Version(version) }})
			s.tracker.Store(t)
			return t
		},
		Counting: func(is bool) {
			s.metrics.Counting(is)
			s.ledger.Counting(is)
			if !is {
				s.tracker.Store(nil)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("--creation-sli: %w", err)
	}
	return s, nil
}

func (s *creationSLI) pending() int {
	if t := s.tracker.Load(); t != nil {
		return t.Pending()
	}
	return 0
}

// tell counts an outcome. The log has those that somebody may want to look into: it
// is the only place, with /creation, that names the Pod and the node.
func (s *creationSLI) tell(log *slog.Logger, o creation.Outcome) {
	s.metrics.Add(o)
	s.ledger.Add(o)
	level := slog.LevelDebug
	if o.Result == creation.Bad || o.Result == creation.Recovered || o.Generation > 1 {
		level = slog.LevelWarn
	}
	log.LogAttrs(context.Background(), level, "sandbox", slog.String("pod", o.String()), slog.String("uid", string(o.UID)), slog.Int("generation", o.Generation),
		slog.String("result", o.Result.String()), slog.String("excluded", o.Exclusion.String()), slog.String("evidence", o.Evidence.String()), slog.String("cause", o.Cause.String()),
		slog.Int("attempts", o.Attempts), slog.Duration("took", o.Took), slog.String("node", o.Node), slog.String("nodeVersion", o.NodeVersion), slog.Bool("skewed", o.Skewed))
}

// run counts until ctx ends. Without the SLI it does nothing.
func (s *creationSLI) run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return s.feed.Run(ctx)
}

// handler adds /creation to the admin listener: it names Pods and nodes.
func (s *creationSLI) handler(next http.Handler) http.Handler {
	if s == nil {
		return next
	}
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /creation", func(w http.ResponseWriter, r *http.Request) {
		from, errFrom := time.Parse(time.RFC3339, r.URL.Query().Get("from"))
		to, errTo := time.Parse(time.RFC3339, r.URL.Query().Get("to"))
		if err := errors.Join(errFrom, errTo); err != nil || !from.Before(to) {
			http.Error(w, fmt.Sprintf("from %q to %q: allowed: /creation?from=<time>&to=<time>, later and as in RFC 3339", r.URL.Query().Get("from"), r.URL.Query().Get("to")), http.StatusBadRequest)
			return
		}
		w.Header().Set("content-type", "application/json")
		_ = json.NewEncoder(w).Encode(s.ledger.Window(from, to)) // the reader may be gone
	})
	return mux
}
