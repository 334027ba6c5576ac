package kube

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/connrotation"

	"github.com/samepod/samepod/identity"
)

// Options say which Pods of which cluster are watched.
type Options struct {
	// Kubeconfig is a file; empty is the service account of the Pod that this runs
	// in. Nothing else is looked at: neither KUBECONFIG nor a home directory, which
	// could name another cluster without a word.
	Kubeconfig string
	// Context is a context of the kubeconfig; empty is its current one.
	Context string
	// Namespaces are watched; none is all of them. Watching some only hides every
	// holder of an address elsewhere.
	Namespaces []string
	// Bound is how old the last word of a watch may be (see [identity.Feed]).
	Bound time.Duration
	// Keep says what of Pods is kept.
	Keep      identity.Keep
	UserAgent string
	Log       *slog.Logger
}

// Source watches Pods into an index.
type Source struct {
	// Host is the API server's address.
	Host string

	watches []*watch
}

// proof is how the freshness of a watch is known; see the package comment.
const proof = "passive, unproven"

// New prepares the watches and registers one feed for each. It connects to
// nothing yet.
func New(o Options, index *identity.Index) (*Source, error) {
	config, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	namespaces := slices.Clone(o.Namespaces)
	for i, namespace := range namespaces {
		if _, err := identity.NewNamespacedName(namespace, "pod"); err != nil {
			return nil, fmt.Errorf("namespace %q: %w", namespace, err)
		}
		if slices.Contains(namespaces[:i], namespace) {
			return nil, fmt.Errorf("namespace %q: listed twice", namespace)
		}
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	s := &Source{Host: config.Host}
	for _, namespace := range namespaces {
		client, closeConnections, err := newClient(config)
		if err != nil {
			return nil, fmt.Errorf("client of %s: %w", config.Host, err)
		}
		name := "pods"
		if namespace != metav1.NamespaceAll {
			name += " in " + namespace
		}
		feed, log := index.NewFeed(name, proof, o.Bound), o.Log.With("feed", name)
		s.watches = append(s.watches, &watch{
			pods:             client.CoreV1().Pods(namespace),
			store:            &store{feed: feed, keep: o.Keep, log: log},
			feed:             feed,
			closeConnections: closeConnections,
			silence:          o.Bound * 5 / 6,
			initialSilence:   initialSilence,
			log:              log,
		})
	}
	return s, nil
}

func restConfig(o Options) (*rest.Config, error) {
	config, err := loadConfig(o)
	if err != nil {
		return nil, err
	}
	config.UserAgent = o.UserAgent
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config, nil
}

func loadConfig(o Options) (*rest.Config, error) {
	if o.Kubeconfig == "" {
		if o.Context != "" {
			return nil, fmt.Errorf("context %q: needs a kubeconfig", o.Context)
		}
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no kubeconfig is given, and this is no Pod with a service account: %w", err)
		}
		return config, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", o.Kubeconfig, err)
	}
	return config, nil
}

// newClient makes a client that shares its connections with no other: a watch
// that is ended because it is silent must not start again on the connection that
// is the cause.
func newClient(config *rest.Config) (client kubernetes.Interface, closeConnections func(), err error) {
	own := rest.CopyConfig(config)
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext)
	own.Dial = dialer.DialContext // a dial function of its own also keeps the transport out of client-go's cache
	own.QPS = -1                  // a list of many pages is one list; who asks too often is the Reflector, and it backs off
	client, err = kubernetes.NewForConfig(own)
	return client, dialer.CloseAll, err
}
