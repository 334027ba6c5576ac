package deploy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestPodSecurity: the Pod is what Kubernetes calls restricted, and writes nowhere.
func TestPodSecurity(t *testing.T) {
	spec := find[appsv1.StatefulSet](t, mustRender(t, "gateway", least), "StatefulSet").Spec.Template.Spec
	pod, c := spec.SecurityContext, spec.Containers[0].SecurityContext
	for what, ok := range map[string]bool{
		"one container":            len(spec.Containers) == 1 && len(spec.InitContainers) == 0,
		"no root":                  *pod.RunAsNonRoot && *pod.RunAsUser == 65532 && *pod.RunAsGroup == 65532,
		"seccomp":                  pod.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"no capability":            slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(c.Capabilities.Add) == 0,
		"no escalation":            !*c.AllowPrivilegeEscalation && c.Privileged == nil,
		"nothing to write to":      *c.ReadOnlyRootFilesystem,
		"nothing of the node":      !spec.HostNetwork && !spec.HostPID && !spec.HostIPC,
		"read-only mounts":         !slices.ContainsFunc(spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return !m.ReadOnly }),
		"the key is the group's":   *spec.Volumes[1].Projected.DefaultMode == 0o440 && *pod.FSGroup == 65532,
		"a memory limit":           !spec.Containers[0].Resources.Limits.Memory().IsZero() && spec.Containers[0].Resources.Limits.Cpu().IsZero(),
		"two constraints":          len(spec.TopologySpreadConstraints) == 2,
		"no environment of others": !*spec.EnableServiceLinks && len(spec.Containers[0].Env) == 0,
	} {
		if !ok {
			t.Errorf("not so: %s", what)
		}
	}
}

// TestGrace: the kubelet waits for longer than the drain lasts.
func TestGrace(t *testing.T) {
	for _, values := range []string{"", "drain: {delaySeconds: 0, timeoutSeconds: 1}", "drain: {delaySeconds: 20, timeoutSeconds: 300}"} {
		spec := find[appsv1.StatefulSet](t, mustRender(t, "gateway", least, values), "StatefulSet").Spec.Template.Spec
		var drain time.Duration
		for _, arg := range spec.Containers[0].Args {
			for _, flag := range []string{"--drain-delay=", "--drain-timeout="} {
				if text, ok := strings.CutPrefix(arg, flag); ok {
					d, err := time.ParseDuration(text)
					if err != nil {
						t.Fatal(err)
					}
					drain += d
				}
			}
		}
		if grace := time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second; grace < drain+5*time.Second || drain == 0 {
			t.Errorf("%q: the drain takes up to %v, the kubelet waits %v", values, drain, grace)
		}
	}
}

// TestSelectors: whatever selects the Pods of the StatefulSet selects them, and not
// those of another release.
func TestSelectors(t *testing.T) {
	objects := mustRender(t, "gateway", least, "podLabels: {app.kubernetes.io/component: x}")
	set := find[appsv1.StatefulSet](t, objects, "StatefulSet")
	service := find[corev1.Service](t, objects, "Service")
	for what, selector := range map[string]map[string]string{
		"StatefulSet":         set.Spec.Selector.MatchLabels,
		"Service":             service.Spec.Selector,
		"NetworkPolicy":       find[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy").Spec.PodSelector.MatchLabels,
		"PodDisruptionBudget": find[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget").Spec.Selector.MatchLabels,
		"spread":              set.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
	} {
		s := labels.SelectorFromSet(selector)
		if other := labels.Set(set.Spec.Template.Labels); len(selector) == 0 || !s.Matches(other) {
			t.Errorf("%s selects %v, the Pods have %v", what, selector, other)
		}
		if s.Matches(labels.Set{"app.kubernetes.io/name": "samepod", "app.kubernetes.io/instance": "another"}) {
			t.Errorf("%s selects the Pods of another release", what)
		}
	}
	if set.Spec.ServiceName != service.Name || service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
		t.Errorf("the Service of the StatefulSet %s is %s, %q", set.Spec.ServiceName, service.Name, service.Spec.ClusterIP)
	}
}

// TestConfigChange: another configuration makes new Pods, another label of theirs
// does not count as one.
func TestConfigChange(t *testing.T) {
	sum := func(values string) string {
		return find[appsv1.StatefulSet](t, mustRender(t, "gateway", least, values), "StatefulSet").Spec.Template.Annotations["checksum/config"]
	}
	if a, b := sum(""), sum("config: {ports: [1]}"); a == b || a == "" {
		t.Errorf("the checksum stays %q", a)
	}
	if a, b := sum(""), sum("replicas: 3"); a != b {
		t.Errorf("the checksum is %q, then %q", a, b)
	}
}

// TestSandboxPolicy: the ports that are dialled are the Envoys' alone, whatever is
// done with the others; every port is in exactly one of both.
func TestSandboxPolicy(t *testing.T) {
	for _, ports := range []string{"[44772]", `[44772, "8000-8010", 80]`, `[1, 65535]`, `["1-65535"]`, `["8000-8010", "8005-9000", 8001]`} {
		objects := mustRender(t, "gateway", least, "config: {ports: "+ports+"}\nnetworkPolicy: {sandboxes: {namespaces: [sandboxes], otherPorts: open}}")
		policies := findAll[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy")
		p := policies[1]
		if p.Namespace != "sandboxes" || len(p.Spec.Ingress) != 2 || len(p.Spec.Ingress[0].From) != 1 || len(p.Spec.Ingress[1].From) != 0 {
			t.Fatalf("%s: %+v", ports, p.Spec)
		}
		envoys, all := covered(p.Spec.Ingress[0].Ports), covered(p.Spec.Ingress[1].Ports)
		for port := 1; port <= 65535; port++ {
			if envoys[port] == all[port] {
				t.Fatalf("%s: port %d is the Envoys' (%v) and everybody's (%v)", ports, port, envoys[port], all[port])
			}
		}
	}
	closed := findAll[networkingv1.NetworkPolicy](t, mustRender(t, "gateway", least, "config: {ports: any}\nnetworkPolicy: {sandboxes: {namespaces: [a, b]}}"), "NetworkPolicy")
	if len(closed) != 3 || len(closed[1].Spec.Ingress) != 1 || len(closed[1].Spec.Ingress[0].From) != 1 || closed[1].Spec.Ingress[0].Ports != nil {
		t.Errorf("any port, closed: %+v", closed)
	}
}

// covered are the TCP ports of a rule.
func covered(ports []networkingv1.NetworkPolicyPort) map[int]bool {
	all := map[int]bool{}
	for _, p := range ports {
		if *p.Protocol != corev1.ProtocolTCP {
			continue
		}
		last := p.Port.IntVal
		if p.EndPort != nil {
			last = *p.EndPort
		}
		for n := p.Port.IntVal; n <= last; n++ {
			all[int(n)] = true
		}
	}
	return all
}
