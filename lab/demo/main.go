// Command demo plays the incident that samepod exists for, on a real Envoy: a
// container exits, its address goes to somebody else's Pod, and a request for the
// one is executed in the other.
//
//	go run ./lab/demo           the story, in under a minute
//	go run ./lab/demo -up       the same, and leaves it running for a curl by hand
//	go run ./lab/demo -kube     the same, on a real etcd and kube-apiserver
//	go run ./lab/demo -dialect opensandbox|agent-sandbox
//	                            the same there, with the objects of an engine
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/samepod/samepod/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	up := flag.Bool("up", false, "leave it running until Ctrl-C")
	kube := flag.Bool("kube", false, "use a real etcd and kube-apiserver instead of a file of Pods")
	dialect := flag.String("dialect", "claim", "claim, or an engine's: opensandbox or agent-sandbox")
	flag.Parse()
	err := run(ctx, *up, *kube, *dialect)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, up, kube bool, dialect string) error {
	dir, err := os.MkdirTemp("", "samepod-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l := lab.New(dir)
	defer l.Close()
	s, err := newStage(ctx, l, kube, dialect)
	if err != nil {
		return err
	}
	if err := s.play(ctx); err != nil {
		return err
	}
	if up {
		if err := s.explain(ctx); err != nil {
			return err
		}
		<-ctx.Done()
	}
	return nil
}
