// Package lab is the proving ground: real Envoys, a real etcd and kube-apiserver,
// and Pods that are HTTP servers on loopback addresses of their own, which behave
// like execd where it matters and remember what they executed.
//
// Where it matters what a kernel does, netns.go gives Pods network namespaces of
// their own, on a bridge: an interface can vanish without a FIN, and the next Pod has
// the address while the last one's connections are still open. [RunOnNode] starts a
// program, which is a test's own binary again, in a network namespace that is the
// node: samepod and Envoy run there as they do on loopback, and Pods are plugged in
// with [Lab.StartBridge]. Nothing of the host's network is touched, nothing has a
// name that could be left behind, and it all ends with that process. It needs root,
// or a user namespace; where both are forbidden such tests are skipped and say so,
// and fail with SAMEPOD_LAB_NETNS=required. What is not modelled is netfilter, such
// as kube-proxy's conntrack.
//
// Of the sandbox engines, OpenSandbox and agent-sandbox, the servers and SDKs are the
// real ones, locked by hash in testdata/engines. Their controllers are Go, which nobody
// may import and no cluster runs here: [OpenSandbox] and [AgentSandbox] take their steps
// on the API server one at a time, so that a test can stop between two writes. Their
// kinds are in testdata/crds. In route mode wildcard a caller must resolve names, which
// the lab has no server for; a Host header does.
//
//	addrs := lab.NewAddresses(lab.ExecdPort)
//	kube.InstallCRDs(ctx, lab.CRDBatchSandboxes, lab.CRDPools)
//	engine := l.NewOpenSandbox(kube, namespace)
//	server := l.StartOpenSandboxServer(ctx, kube, lab.OpenSandboxConfig{Namespace: namespace, Gateway: envoy.Addr.String()})
//	pod := engine.Start(ctx, id, addrs.Take())
//	client := l.StartOpenSandboxClient(ctx)
//	client.Do(lab.ClientStep{Do: "connect", Server: server.Addr, Sandbox: id})
//	client.Command("hostname") // and pod.Executed()
//	engine.Exit(ctx, id+"-0", corev1.PodFailed)
//
// cache.go and install.go get the binaries; process.go runs them; envoy.go,
// samepod.go, authzserver.go and kube.go are the parts by name; pod.go, addresses.go
// and netns.go are the Pods, who gives them addresses, and their networks;
// invariant.go holds what must be true of every request. engines.go gets the engines'
// programs; opensandboxserver.go and engineclient.go run them; node.go does what a
// kubelet does, opensandbox*.go and agentsandbox*.go what the controllers do.
//
// It is used by tests and by the demo. Nothing of the service imports it.
// Linux is assumed: all of 127.0.0.0/8 is loopback.
package lab
