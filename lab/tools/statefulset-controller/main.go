// Command statefulset-controller runs the upstream StatefulSet controller and
// garbage collector alone: a Pod that is deleted is built again under its name,
// with a new uid.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/statefulset"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts both controllers and waits for ctx to end.
func run(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	typed := informers.NewSharedInformerFactory(client, 0)
	sets := statefulset.NewStatefulSetController(ctx, typed.Core().V1().Pods(), typed.Apps().V1().StatefulSets(),
		typed.Core().V1().PersistentVolumeClaims(), typed.Apps().V1().ControllerRevisions(), client)
	started := make(chan struct{})
	discovery := memory.NewMemCacheClient(client.Discovery())
	garbage, err := garbagecollector.NewGarbageCollector(ctx, client, meta, restmapper.NewDeferredDiscoveryRESTMapper(discovery),
		map[schema.GroupResource]struct{}{{Resource: "events"}: {}, {Group: "events.k8s.io", Resource: "events"}: {}},
		informerfactory.NewInformerFactory(typed, metadatainformer.NewSharedInformerFactory(meta, 0)), started)
	if err != nil {
		return err
	}
	typed.Start(ctx.Done())
	close(started)
	go sets.Run(ctx, 2)
	go garbage.Run(ctx, 2, 30*time.Second)
	go garbage.Sync(ctx, client.Discovery(), 30*time.Second)
	<-ctx.Done()
	return nil
}
