package kube

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/connrotation"

	"github.com/samepod/samepod/identity"
)

// Options say which Pods of which cluster are watched.
type Options struct {
	// Kubeconfig is a file; empty is the Pod's own service account, or where
	// there is none, what kubectl would use.
	Kubeconfig string
	// Context is a context of the kubeconfig; empty is its current one.
	Context string
	// Namespaces are watched; none is all of them. Watching some only hides every
	// holder of an address elsewhere.
	Namespaces []string
	// Bound is how old the last word of a watch may be (see [identity.Feed]).
	Bound time.Duration
	// Selected is the operator's selector.
	Selected  func(labels map[string]string) bool
	UserAgent string
	Log       *slog.Logger
}

// Source watches Pods into an index.
type Source struct {
	watches []*watch
}

// New prepares the watches and registers one feed for each. It connects to
// nothing yet.
func New(o Options, index *identity.Index) (*Source, error) {
	config, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	namespaces := slices.Clone(o.Namespaces)
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	s := &Source{}
	for i, namespace := range namespaces {
		if slices.Contains(namespaces[:i], namespace) {
			return nil, fmt.Errorf("namespace %q: listed twice", namespace)
		}
		client, closeConnections, err := newClient(config)
		if err != nil {
			return nil, fmt.Errorf("client of %s: %w", config.Host, err)
		}
		name := "pods"
		if namespace != "" {
			name += " in " + namespace
		}
		s.watches = append(s.watches, &watch{
			pods:             client.CoreV1().Pods(namespace),
			feed:             index.NewFeed(name, "passive, unproven", o.Bound),
			selected:         o.Selected,
			closeConnections: closeConnections,
			silence:          o.Bound * 5 / 6,
			initialSilence:   initialSilence,
			log:              o.Log.With("feed", name),
		})
	}
	return s, nil
}

func restConfig(o Options) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if config.Host == "" {
		return nil, errors.New("kubeconfig: no cluster is named")
	}
	config.UserAgent = o.UserAgent
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config, nil
}

// newClient makes a client that shares its connections with no other: a watch
// that is ended because it is silent must not start again on the connection that
// is the cause.
func newClient(config *rest.Config) (client kubernetes.Interface, closeConnections func(), err error) {
	own := rest.CopyConfig(config)
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext)
	own.Dial = dialer.DialContext // a dial function of its own also keeps the transport out of client-go's cache
	client, err = kubernetes.NewForConfig(own)
	return client, dialer.CloseAll, err
}
