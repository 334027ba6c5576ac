package kube

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Source watches Pods into an index, and whatever else [Watch] adds.
type Source struct {
	// Host is the API server's address.
	Host string

	config     *rest.Config
	namespaces []string
	bound      time.Duration
	log        *slog.Logger
	watches    []*watch
}

// proof is how the freshness of a watch is known; see the package comment.
const proof = "passive, unproven"

// New prepares the watches of Pods, one for each namespace, and registers a feed for
// each. It connects to nothing yet.
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
	s := &Source{Host: config.Host, config: config, namespaces: namespaces, bound: o.Bound, log: o.Log}
	return s, s.add("pods", podsIn, func(name string) sink {
		return decoded[identity.Pod]{index.NewFeed(name, proof, o.Bound), podDecoder(o.Keep, o.Log.With("feed", name))}
	})
}

// add prepares a watch for each namespace.
func (s *Source) add(what string, in func(config *rest.Config, namespace string) (kind, error), feed func(name string) sink) error {
	for _, namespace := range s.namespaces {
		config, closeConnections := ownConnections(s.config)
		objects, err := in(config, namespace)
		if err != nil {
			return fmt.Errorf("client of %s: %w", s.Host, err)
		}
		name := what
		if namespace != metav1.NamespaceAll {
			name += " in " + namespace
		}
		into := feed(name)
		s.watches = append(s.watches, &watch{
			kind:             objects,
			store:            &store{kind: objects, feed: into},
			feed:             into,
			closeConnections: closeConnections,
			silence:          s.bound * 5 / 6,
			initialSilence:   initialSilence,
			pauses:           pauses,
			log:              s.log.With("feed", name),
		})
	}
	return nil
}

func restConfig(o Options) (*rest.Config, error) {
	config, err := loadConfig(o)
	if err != nil {
		return nil, err
	}
	config.UserAgent = o.UserAgent
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

// ownConnections is the config of clients that share their connections with no others:
// a watch that is ended because it is silent must not start again on the connection
// that is the cause, and a read must not wait behind a watch.
func ownConnections(config *rest.Config) (own *rest.Config, closeConnections func()) {
	own = rest.CopyConfig(config)
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext)
	own.Dial = dialer.DialContext // a dial function of its own also keeps the transport out of client-go's cache
	own.QPS = -1                  // a list of many pages is one list; the Reflector backs off, and package sandbox bounds live reads
	return own, dialer.CloseAll
}
