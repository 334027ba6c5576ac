package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/kube"
	"github.com/samepod/samepod/identity/podsfile"
)

// sourceFlags say where Pods come from.
type sourceFlags struct {
	kind string

	podsFile      string
	podsFilePoll  time.Duration
	podsFileGrace time.Duration

	kubeconfig   string
	kubeContext  string
	namespaces   []string
	maxStaleness time.Duration
}

// minStaleness is below what a quiet API server proves: it sends a bookmark every
// minute.
const minStaleness = 90 * time.Second

func (f *sourceFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.kind, "source", "file", "where Pods come from: file or kube")
	flags.StringVar(&f.podsFile, "pods-file", "", "with --source file: the YAML or JSON `file` of Pods, such as kubectl prints")
	flags.DurationVar(&f.podsFilePoll, "pods-file-poll", time.Second, "time between two looks at the file")
	flags.DurationVar(&f.podsFileGrace, "pods-file-grace", time.Minute, "how long the last good state serves while the file cannot be read")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "with --source kube: a kubeconfig `file`; empty for the Pod's own service account")
	flags.StringVar(&f.kubeContext, "kube-context", "", "context of the kubeconfig; empty for its current one")
	flags.StringSliceVar(&f.namespaces, "watch-namespaces", nil, "watch only these namespaces; empty for all. Holders of an address elsewhere are then invisible")
	flags.DurationVar(&f.maxStaleness, "max-staleness-passive", minStaleness, "how old the last event or bookmark of a watch may be, before checks are answered 503 view-stale; at least 90s")
}

// open prepares the source and returns the function that follows it until its
// context ends. A file is read once here, so that a broken one is an error at the
// start and not a service that is never ready.
func (f *sourceFlags) open(conf settings, index *identity.Index, log *slog.Logger) (func(context.Context) error, error) {
	switch f.kind {
	case "file":
		return f.openFile(conf, index, log)
	case "kube":
		return f.openKube(conf, index, log)
	}
	return nil, oneOf("source", f.kind, "file", "kube")
}

func (f *sourceFlags) openFile(conf settings, index *identity.Index, log *slog.Logger) (func(context.Context) error, error) {
	switch {
	case f.podsFile == "":
		return nil, errors.New("--pods-file: missing; --source file reads Pods from one")
	case f.podsFilePoll <= 0:
		return nil, fmt.Errorf("--pods-file-poll: %v; allowed: a positive duration", f.podsFilePoll)
	case f.podsFileGrace < 3*f.podsFilePoll:
		return nil, fmt.Errorf("--pods-file-grace: %v; allowed: at least three times --pods-file-poll, which is %v", f.podsFileGrace, f.podsFilePoll)
	}
	source := &podsfile.Source{
		Path: f.podsFile, Selected: conf.selected, Poll: f.podsFilePoll, Log: log,
		Feed: index.NewFeed("pods file", "the file itself", f.podsFileGrace),
	}
	if err := source.Load(); err != nil {
		return nil, fmt.Errorf("--pods-file: %w", err)
	}
	return source.Run, nil
}

func (f *sourceFlags) openKube(conf settings, index *identity.Index, log *slog.Logger) (func(context.Context) error, error) {
	if f.maxStaleness < minStaleness {
		return nil, fmt.Errorf("--max-staleness-passive: %v; allowed: at least %v, since a quiet API server says something once a minute", f.maxStaleness, minStaleness)
	}
	if len(f.namespaces) > 0 && !slices.Contains(conf.scope, "*") {
		for _, namespace := range conf.scope {
			if !slices.Contains(f.namespaces, namespace) {
				return nil, fmt.Errorf("scope.namespaces: %q: not watched; --watch-namespaces is %s", namespace, strings.Join(f.namespaces, ","))
			}
		}
	}
	klog.SetSlogLogger(log.With("logger", "client-go"))
	source, err := kube.New(kube.Options{
		Kubeconfig: f.kubeconfig, Context: f.kubeContext, Namespaces: f.namespaces, Bound: f.maxStaleness,
		Selected: conf.selected, UserAgent: "samepod/" + version(), Log: log,
	}, index)
	if err != nil {
		return nil, fmt.Errorf("--source kube: %w", err)
	}
	return source.Run, nil
}
