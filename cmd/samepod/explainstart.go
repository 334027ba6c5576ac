package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/samepod/samepod/node"
)

// explainFlags are the flags of samepod explain-start.
type explainFlags struct {
	podFile, eventsFile     string
	kubeconfig, kubeContext string
	rootfs, output          string
	logs                    []string
}

func newExplainStart() *cobra.Command {
	f := explainFlags{rootfs: "/", output: "text"}
	cmd := &cobra.Command{
		Use:   "explain-start NAMESPACE/POD",
		Short: "Say why a Pod does not start",
		Long: `Say why a Pod does not start: join its events, its conditions and its node's logs into one account.

The class of the failure is in the events. Its cause is often in the logs of the node only; give them by --logs. Pod and
events are asked for with your kubeconfig, or are files that kubectl printed.

The exit code is 0 if the cause is known or the Pod has its sandbox, 2 if not.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || strings.Count(args[0], "/") != 1 || strings.HasPrefix(args[0], "/") || strings.HasSuffix(args[0], "/") {
				return unjudged(fmt.Errorf("%q; allowed: one <namespace>/<pod>", strings.Join(args, " ")))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.explain(cmd.Context(), args[0])
			if err != nil {
				return unjudged(err)
			}
			if f.output == "json" {
				err = printJSON(cmd.OutOrStdout(), a)
			} else {
				err = printAccount(cmd.OutOrStdout(), a)
			}
			if err == nil && !a.Known() {
				err = unjudged(errors.New("the cause is not known"))
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.podFile, "pod-file", "", "a `file` with the Pod, of kubectl get pod -o yaml or json")
	flags.StringVar(&f.eventsFile, "events-file", "", "a `file` with events, of kubectl get events -o yaml or json. With --pod-file, no API server is asked")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "a kubeconfig `file`; empty for the one of kubectl")
	flags.StringVar(&f.kubeContext, "kube-context", "", "context of the kubeconfig; empty for its current one")
	flags.StringArrayVar(&f.logs, "logs", nil, "a file or directory of the node's logs, such as /var/log/runsc or a journal that was saved; may be repeated")
	flags.StringVar(&f.rootfs, "rootfs", f.rootfs, "root `directory` below which --logs are")
	flags.StringVar(&f.output, "output", f.output, "text, or json for machines")
	return cmd
}

func (f *explainFlags) explain(ctx context.Context, name string) (node.Account, error) {
	if err := oneOf("output", f.output, "text", "json"); err != nil {
		return node.Account{}, err
	}
	switch {
	case (f.podFile == "") != (f.eventsFile == ""):
		return node.Account{}, errors.New("--pod-file and --events-file: give both, or none to ask the API server")
	case f.podFile != "" && (f.kubeconfig != "" || f.kubeContext != ""):
		return node.Account{}, errors.New("--kubeconfig, --kube-context: without effect with --pod-file")
	}
	read := f.ask
	if f.podFile != "" {
		read = f.readFiles
	}
	podText, eventsText, err := read(ctx, name)
	if err != nil {
		return node.Account{}, err
	}
	pods, err := node.ParsePods(podText)
	if err != nil {
		return node.Account{}, fmt.Errorf("the Pod: %w", err)
	}
	events, err := node.ParseEvents(eventsText)
	if err != nil {
		return node.Account{}, fmt.Errorf("the events: %w", err)
	}
	host, err := node.NewHost(f.rootfs)
	if err != nil {
		return node.Account{}, fmt.Errorf("--rootfs: %w", err)
	}
	var paths []string
	for _, path := range f.logs {
		paths = append(paths, absolute(path, host))
	}
	hits, notes := host.Logs(paths)
	for _, p := range pods {
		if p.Name() == name {
			a := node.Explain(p, events, hits)
			a.Notes = append(a.Notes, notes...)
			return a, nil
		}
	}
	return node.Account{}, fmt.Errorf("%s: %q: %d Pods, and none of this name", f.podFile, name, len(pods))
}

// absolute is a path below the node's root; on this machine's own, one that is
// relative is of the working directory.
func absolute(path string, host node.Host) string {
	if dir, err := os.Getwd(); err == nil && host.Live() && !strings.HasPrefix(path, "/") {
		return dir + "/" + path
	}
	return "/" + strings.TrimPrefix(path, "/")
}

func (f *explainFlags) readFiles(ctx context.Context, _ string) (pod, events []byte, err error) {
	if pod, err = readConfiguration(ctx, f.podFile, nil); err != nil {
		return nil, nil, fmt.Errorf("--pod-file: %w", err)
	}
	if events, err = readConfiguration(ctx, f.eventsFile, nil); err != nil {
		return nil, nil, fmt.Errorf("--events-file: %w", err)
	}
	return pod, events, nil
}

// ask gets the Pod and its events, as the API server sends them.
func (f *explainFlags) ask(ctx context.Context, name string) (pod, events []byte, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.kubeContext}).ClientConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config = rest.AddUserAgent(config, "samepod/"+thisBuild().Version)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	namespace, podName, _ := strings.Cut(name, "/")
	get := client.CoreV1().RESTClient().Get().Namespace(namespace)
	if pod, err = get.Resource("pods").Name(podName).Do(ctx).Raw(); err != nil {
		return nil, nil, fmt.Errorf("get Pod %s: %w", name, err)
	}
	get = client.CoreV1().RESTClient().Get().Namespace(namespace)
	events, err = get.Resource("events").Param("fieldSelector", fields.OneTermEqualSelector("involvedObject.name", podName).String()).Do(ctx).Raw()
	if err != nil {
		return nil, nil, fmt.Errorf("list the events of Pod %s: %w", name, err)
	}
	return pod, events, nil
}

func printAccount(w io.Writer, a node.Account) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", plain(a.Pod), plain(a.Stage))
	if a.Node != "" {
		fmt.Fprintf(&b, ", node %s", plain(a.Node))
	}
	if a.RuntimeClass != "" {
		fmt.Fprintf(&b, ", runtime class %s", plain(a.RuntimeClass))
	}
	if !a.Started {
		fmt.Fprintf(&b, "\nclass  %s\ncause  %s\n", plain(a.Class), plain(a.Cause))
		if a.Meaning != "" {
			fmt.Fprintf(&b, "why    %s\n", plain(a.Meaning))
		}
	} else {
		b.WriteString("\n")
	}
	for _, e := range a.Evidence {
		fmt.Fprintf(&b, "seen   %s\n", plain(e))
	}
	for _, n := range a.Notes {
		fmt.Fprintf(&b, "note   %s\n", plain(n))
	}
	fmt.Fprintf(&b, "do     %s\n", plain(a.Remedy))
	_, err := io.WriteString(w, b.String())
	return err
}
