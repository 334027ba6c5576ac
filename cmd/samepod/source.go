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
	"github.com/samepod/samepod/identity/sandbox"
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

// minPoll keeps a slip of the unit from reading a file in a loop.
const minPoll = 10 * time.Millisecond

func (f *sourceFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.kind, "source", "file", "where Pods come from: file or kube")
	flags.StringVar(&f.podsFile, "pods-file", "", "with --source file: the YAML or JSON `file` of Pods, such as kubectl prints")
	flags.DurationVar(&f.podsFilePoll, "pods-file-poll", time.Second, "time between two looks at the file")
	flags.DurationVar(&f.podsFileGrace, "pods-file-grace", time.Minute, "how long the last good state serves while the file cannot be read")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "with --source kube: a kubeconfig `file`; empty for the service account of the Pod that this runs in, and nothing else")
	flags.StringVar(&f.kubeContext, "kube-context", "", "context of the kubeconfig; empty for its current one")
	flags.StringSliceVar(&f.namespaces, "watch-namespaces", nil, "watch only these namespaces; empty for all. Holders of an address elsewhere are then invisible")
	flags.DurationVar(&f.maxStaleness, "max-staleness-passive", minStaleness, "how old the last event or bookmark of a watch may be, before checks are answered 503 view-stale; at least 90s")
}

// check refuses what is wrong, and flags of the other source.
func (f *sourceFlags) check(set *pflag.FlagSet) error {
	if err := oneOf("source", f.kind, "file", "kube"); err != nil {
		return err
	}
	for _, flag := range []struct{ name, kind string }{
		{"pods-file", "file"}, {"pods-file-poll", "file"}, {"pods-file-grace", "file"},
		{"kubeconfig", "kube"}, {"kube-context", "kube"}, {"watch-namespaces", "kube"}, {"max-staleness-passive", "kube"},
	} {
		if set.Changed(flag.name) && flag.kind != f.kind {
			return fmt.Errorf("--%s: without effect; --source is %s", flag.name, f.kind)
		}
	}
	switch {
	case f.kind == "file" && f.podsFile == "":
		return errors.New("--pods-file: missing; --source file reads Pods from one")
	case f.podsFilePoll < minPoll:
		return fmt.Errorf("--pods-file-poll: %v; allowed: at least %v", f.podsFilePoll, minPoll)
	case f.podsFileGrace < 3*f.podsFilePoll:
		return fmt.Errorf("--pods-file-grace: %v; allowed: at least three times --pods-file-poll, which is %v", f.podsFileGrace, f.podsFilePoll)
	case f.maxStaleness < minStaleness:
		return fmt.Errorf("--max-staleness-passive: %v; allowed: at least %v, since a quiet API server says something once a minute", f.maxStaleness, minStaleness)
	}
	return nil
}

// source is where Pods come from, ready to be followed.
type source struct {
	follow    func(context.Context) error // until its context ends
	about     string                      // which file or API server
	notes     []string                    // what it cannot see
	sandboxes *sandbox.Index              // nil for the dialect claim
}

// open prepares the source. A file is read once here, so that a broken one is an
// error at the start and not a service that is never ready.
func (f *sourceFlags) open(conf settings, pins sandbox.PinPolicy, index *identity.Index, log *slog.Logger) (source, error) {
	switch {
	case f.kind == "kube":
		return f.openKube(conf, pins, index, log)
	case conf.engine != nil:
		return source{}, fmt.Errorf("--source file: has no sandboxes; allowed with the dialect %s: kube", conf.dialect)
	}
	return f.openFile(conf, index, log)
}

func (f *sourceFlags) openFile(conf settings, index *identity.Index, log *slog.Logger) (source, error) {
	file := &podsfile.Source{
		Path: f.podsFile, Keep: conf.keep(false), Poll: f.podsFilePoll, Log: log,
		Feed: index.NewFeed("pods file", "the file itself", f.podsFileGrace),
	}
	if err := file.Load(); err != nil {
		return source{}, fmt.Errorf("--pods-file: %w", err)
	}
	return source{follow: file.Run, about: "file " + f.podsFile}, nil
}

func (f *sourceFlags) openKube(conf settings, pins sandbox.PinPolicy, index *identity.Index, log *slog.Logger) (source, error) {
	var seen source
	if len(f.namespaces) > 0 {
		watched := strings.Join(f.namespaces, ",")
		scope, all := conf.policy.Scope.Namespaces()
		if all {
			return source{}, fmt.Errorf(`scope.namespaces: ["*"]: only %s is watched, so a Pod elsewhere would be called gone; name the namespaces, or leave --watch-namespaces out`, watched)
		}
		for _, namespace := range scope {
			if !slices.Contains(f.namespaces, namespace) {
				return source{}, fmt.Errorf("scope.namespaces: %q: not watched; --watch-namespaces is %s", namespace, watched)
			}
		}
		seen.notes = []string{fmt.Sprintf("only the namespaces %s are watched: Pods elsewhere that hold the same address are invisible", watched)}
	}
	klog.SetSlogLogger(log.With("logger", "client-go"))
	options := kube.Options{
		Kubeconfig: f.kubeconfig, Context: f.kubeContext, Namespaces: f.namespaces, Bound: f.maxStaleness,
		Keep: conf.keep(pins.Containers), UserAgent: "samepod/" + thisBuild().Version, Log: log,
	}
	watch, err := kube.New(options, index)
	if err != nil {
		return source{}, fmt.Errorf("--source kube: %w", err)
	}
	if conf.engine != nil {
		if seen.sandboxes, err = conf.engine.open(watch, options, conf.policy.Scope, pins, index); err != nil {
			return source{}, fmt.Errorf("--source kube: %w", err)
		}
	}
	seen.follow, seen.about = watch.Run, "kube "+watch.Host
	return seen, nil
}
