package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/samepod/samepod/node"
)

// doctorFlags are the flags of samepod doctor.
type doctorFlags struct {
	rootfs, config, args     string
	runtimeClasses           string
	failOn, output           string
	verbose, noRun, logRules bool
	every                    time.Duration
	options                  node.Options
}

func newDoctor() *cobra.Command {
	f := doctorFlags{rootfs: "/", failOn: string(node.Failure), output: "text"}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say why Pod sandboxes do not start on this node, or would not",
		Long: `Say why Pod sandboxes do not start on this node, or would not.

It reads the effective configuration of containerd and of runsc, follows every path component by component, lets the
kernel answer the test at which runsc fails, and classifies logs. Nothing is changed. Other nodes are read by --rootfs,
where their root directory is mounted or was copied to.

The exit code is 1 if something keeps Pods from starting, 2 if something that matters could not be looked at, else 0.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unjudged(fmt.Errorf("%d arguments; allowed: none", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.logRules {
				return printJSON(cmd.OutOrStdout(), node.LogRules())
			}
			for {
				r, err := f.examine(cmd)
				if err != nil {
					return unjudged(err)
				}
				if err := f.print(cmd.OutOrStdout(), r); err != nil {
					return err
				}
				if f.every == 0 {
					return f.verdict(r)
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(f.every):
				}
			}
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.rootfs, "rootfs", f.rootfs, "root `directory` of the node, such as /host in a Pod. Links are followed inside it")
	flags.StringVar(&f.config, "containerd-config", "", "judge this `file` of the node. Without it, the one of each containerd that runs, else those of known distributions")
	flags.StringVar(&f.args, "containerd-args", "", "command `line` of containerd, where it cannot be seen to run: \"--state /run/x\", or \"\" for no flags")
	flags.StringVar(&f.options.RunscVersion, "runsc-version", "", "what runsc --version prints, where it cannot be run")
	flags.StringVar(&f.options.ContainerdVersion, "containerd-version", "", "what containerd --version prints, where it cannot be run")
	flags.BoolVar(&f.noRun, "no-run", false, "run no binary of the node to ask for its version")
	flags.StringArrayVar(&f.options.Logs, "logs", nil, "also classify this file or directory of the node; may be repeated")
	flags.StringVar(&f.runtimeClasses, "runtimeclasses-file", "", "a `file` of kubectl get runtimeclasses -o yaml or json: does containerd have their handlers?")
	flags.StringSliceVar(&f.options.Ignore, "ignore", nil, "leave out these checks")
	flags.StringVar(&f.failOn, "fail-on", f.failOn, "the least severity that exits 1: failure or warning")
	flags.StringVar(&f.output, "output", f.output, "text, json for machines, or line: one line of at most 80 bytes for node-problem-detector")
	flags.DurationVar(&f.every, "every", 0, "look again after this time, until it is ended, as in a DaemonSet; 0s for once")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print also what is right, and all evidence")
	flags.BoolVar(&f.logRules, "log-rules", false, "print the signatures as rules for node-problem-detector, and do nothing else")
	return cmd
}

// askTimeout is how long a binary may take to print its version.
const askTimeout = 5 * time.Second

// ask runs a binary that only the owner of the node can have put there.
func ask(ctx context.Context, binary string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "--version")
	cmd.WaitDelay = time.Second // what it has started may hold its output open
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("--version: %w", err)
	}
	return string(out), nil
}

// verdict is the error, and with it the exit code, that a report is.
func (f *doctorFlags) verdict(r node.Report) error {
	code := r.Exit(node.Severity(f.failOn))
	if code == node.ExitOK {
		return nil
	}
	return &exitError{code: code, error: fmt.Errorf("%s, %s, %d unknown", count(r.Count(node.Failure), "failure"), count(r.Count(node.Warning), "warning"), r.Count(node.Unknown))}
}

func (f *doctorFlags) examine(cmd *cobra.Command) (node.Report, error) {
	if err := oneOf("output", f.output, "text", "json", "line"); err != nil {
		return node.Report{}, err
	}
	if err := oneOf("fail-on", f.failOn, string(node.Failure), string(node.Warning)); err != nil {
		return node.Report{}, err
	}
	if f.every < 0 || f.every > 0 && f.every < time.Second {
		return node.Report{}, fmt.Errorf("--every: %v; allowed: 0s, or at least 1s", f.every)
	}
	host, err := node.NewHost(f.rootfs)
	if err != nil {
		return node.Report{}, fmt.Errorf("--rootfs: %w", err)
	}
	o := f.options
	o.Config = f.config
	if cmd.Flags().Changed("containerd-args") {
		o.Args = &f.args
	}
	if host.MayRun() && !f.noRun {
		o.Ask = ask
	}
	if f.runtimeClasses != "" {
		o.RuntimeClasses = func() ([]node.RuntimeClass, error) {
			text, err := readRegular(f.runtimeClasses, mostConfiguration)
			if err != nil {
				return nil, fmt.Errorf("--runtimeclasses-file: %w", err)
			}
			return node.ParseRuntimeClasses(text)
		}
	}
	o.Now = time.Now()
	r, err := node.Examine(cmd.Context(), host, o)
	if err != nil {
		return r, fmt.Errorf("--ignore: %w", err)
	}
	return r, nil
}

func (f *doctorFlags) print(w io.Writer, r node.Report) error {
	switch f.output {
	case "json":
		return printJSON(w, r)
	case "line":
		_, err := fmt.Fprintln(w, oneLine(r))
		return err
	}
	var b strings.Builder
	passed := 0
	for _, x := range r.Findings {
		right := x.Severity == node.OK || x.Severity == node.Skipped
		if right {
			passed++
		}
		if right && !f.verbose {
			continue
		}
		fmt.Fprintf(&b, "%s %s: %s", x.Severity, x.Check, plain(x.Found))
		for _, part := range []struct{ name, text string }{{"evidence", strings.Join(x.Evidence, "; ")}, {"so", x.Consequence}, {"do", x.Remedy}} {
			if part.text != "" {
				fmt.Fprintf(&b, " | %s: %s", part.name, plain(part.text))
			}
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s, %s, %d unknown, %d right or not for this node\n", count(r.Count(node.Failure), "failure"), count(r.Count(node.Warning), "warning"), r.Count(node.Unknown), passed)
	_, err := io.WriteString(w, b.String())
	return err
}

// mostLine is what node-problem-detector keeps of a plugin's output.
const mostLine = 80

// oneLine is the worst that was found.
func oneLine(r node.Report) string {
	if len(r.Findings) == 0 {
		return "unknown: nothing was checked"
	}
	worst := slices.MaxFunc(r.Findings, func(a, b node.Finding) int {
		return slices.Index(node.Severities(), a.Severity) - slices.Index(node.Severities(), b.Severity)
	})
	line := plain(fmt.Sprintf("%s: %s", worst.Check, worst.Found))
	switch {
	case worst.Severity != node.OK && worst.Severity != node.Skipped:
	case !slices.ContainsFunc(r.Findings, func(f node.Finding) bool { return f.Check == "state-symlink" && f.Severity == node.OK }):
		line = "no containerd here starts runsc"
	default:
		line = "Pods with runsc can start"
	}
	if len(line) > mostLine {
		line = strings.ToValidUTF8(line[:mostLine-3], "") + "..."
	}
	return line
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
