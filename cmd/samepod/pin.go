package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/kube"
	"github.com/samepod/samepod/identity/sandbox"
)

// pinCommandFlags are the flags of samepod pin.
type pinCommandFlags struct {
	kubeconfig  string
	kubeContext string
	kind        string
	keyFile     string
	timeout     time.Duration
}

func newPin() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pin",
		Short: "Show and release which Pod a sandbox is pinned to",
		Args:  cobra.NoArgs,
		RunE:  help,
	}
	for _, c := range []struct {
		use, short, long string
		run              func(ctx context.Context, cmd *cobra.Command, live *kube.Live, s sandbox.Sandbox) error
	}{
		{
			"get <namespace>/<sandbox>", "Show the pin of a sandbox",
			"Show the pin of a sandbox, as it stands in the annotation " + sandbox.PinAnnotation + ". Pins in the memory of a samepod are not seen.",
			getPin,
		},
		{
			"release <namespace>/<sandbox>", "Remove the pin of a sandbox",
			"Remove the pin of a sandbox: the next request pins whatever Pod the sandbox means by then. What the old Pod held is lost, so be sure that the users of the sandbox know. It fails if somebody changes the sandbox at the same time.",
			releasePin,
		},
	} {
		var f pinCommandFlags
		sub := &cobra.Command{
			Use: c.use, Short: c.short, Long: c.long, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
				defer cancel()
				live, s, err := f.find(ctx, args[0])
				if err != nil {
					return err
				}
				return c.run(ctx, cmd, live, s)
			},
		}
		f.register(sub.Flags())
		cmd.AddCommand(sub)
	}
	return cmd
}

func (f *pinCommandFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "a kubeconfig `file`; empty for the service account of the Pod that this runs in")
	flags.StringVar(&f.kubeContext, "kube-context", "", "context of the kubeconfig; empty for its current one")
	flags.StringVar(&f.kind, "kind", "", "BatchSandbox or Sandbox, where both have the name")
	flags.StringVar(&f.keyFile, "pin-key-file", "", "`file` with the key of pins, to check their MAC")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long the API server may take")
}

// find reads the sandbox of the name.
func (f *pinCommandFlags) find(ctx context.Context, text string) (*kube.Live, sandbox.Sandbox, error) {
	name, err := identity.ParseNamespacedName(text)
	if err != nil {
		return nil, sandbox.Sandbox{}, fmt.Errorf("%q: %w", text, err)
	}
	if err := oneOf("kind", f.kind, "", "BatchSandbox", "Sandbox"); err != nil {
		return nil, sandbox.Sandbox{}, err
	}
	e := everyEngine()
	policy, err := (&pinFlags{keyFile: f.keyFile}).policy(e)
	if err != nil {
		return nil, sandbox.Sandbox{}, err
	}
	options := kube.Options{Kubeconfig: f.kubeconfig, Context: f.kubeContext, UserAgent: "samepod/" + thisBuild().Version, Log: slog.New(slog.DiscardHandler)}
	live, err := kube.NewLive(options, e.liveKinds(policy.Key), nil)
	if err != nil {
		return nil, sandbox.Sandbox{}, err
	}
	var found []sandbox.Sandbox
	for _, kind := range e.sandboxes {
		if f.kind != "" && f.kind != kind.resource.Kind {
			continue
		}
		s, ok, err := live.Get(ctx, kind.resource.Owner(), name)
		if err != nil {
			return nil, s, fmt.Errorf("%s %s: %w", kind.resource.Kind, name, err)
		}
		if ok {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return nil, sandbox.Sandbox{}, fmt.Errorf("%s: no such sandbox", name)
	case 1:
		return live, found[0], nil
	}
	return nil, sandbox.Sandbox{}, fmt.Errorf("%s: a BatchSandbox and a Sandbox have the name; say which with --kind", name)
}

func getPin(_ context.Context, cmd *cobra.Command, _ *kube.Live, s sandbox.Sandbox) error {
	kind, _, _ := strings.Cut(s.Kind, ".")
	switch {
	case s.PinFault != "":
		return fmt.Errorf("%s %s: its pin cannot be believed, and every request for it is denied: %s", kind, s.NamespacedName, s.PinFault)
	case s.Pin == (sandbox.Pin{}):
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s has no pin\n", kind, s.NamespacedName)
		return nil
	case s.Pin.Sandbox != s.UID:
		return fmt.Errorf("%s %s: its pin is of another sandbox (%s), and every request for it is denied", kind, s.NamespacedName, s.Pin.Sandbox)
	}
	fmt.Fprintln(cmd.OutOrStdout(), s.Pin.Text(nil))
	if s.Generation > s.Pin.Generation {
		fmt.Fprintf(cmd.OutOrStdout(), "the sandbox was changed since (generation %d): the next request pins it anew\n", s.Generation)
	}
	return nil
}

func releasePin(ctx context.Context, cmd *cobra.Command, live *kube.Live, s sandbox.Sandbox) error {
	if s.Pin == (sandbox.Pin{}) && s.PinFault == "" {
		return fmt.Errorf("%s: has no pin", s.NamespacedName)
	}
	if _, err := live.Annotate(ctx, s, ""); err != nil {
		if errors.Is(err, sandbox.ErrConflict) {
			return fmt.Errorf("%s: %w; look at it again", s.NamespacedName, err)
		}
		return fmt.Errorf("%s: %w", s.NamespacedName, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "released; the next request for %s pins the Pod that it has by then\n", s.NamespacedName)
	return nil
}
