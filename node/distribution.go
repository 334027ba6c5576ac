package node

import (
	"fmt"
	"path/filepath"
	"strings"
)

// distribution is how a Kubernetes distribution starts containerd.
type distribution struct {
	name   string
	config string
	// state and root are its flags, where it has some. They are taken only if no
	// process is seen.
	state, root string
}

// distributions are those that are known, in the order in which they are looked for.
var distributions = []distribution{
	{"k3s", "/var/lib/rancher/k3s/agent/etc/containerd/config.toml", "/run/k3s/containerd", "/var/lib/rancher/k3s/agent/containerd"},
	{"RKE2", "/var/lib/rancher/rke2/agent/etc/containerd/config.toml", "/run/k3s/containerd", "/var/lib/rancher/rke2/agent/containerd"},
	{"k0s", "/etc/k0s/containerd.toml", "/var/lib/k0s/run/containerd", "/var/lib/k0s/containerd"},
	{"microk8s", "/var/snap/microk8s/current/args/containerd.toml", "/var/snap/microk8s/common/run/containerd", "/var/snap/microk8s/common/var/lib/containerd"},
	{"dockerd", "/var/run/docker/containerd/containerd.toml", "", ""},
	{"containerd", "/etc/containerd/config.toml", "", ""},
}

// remedyOfState says where the state directory of a distribution is set.
func remedyOfState(distribution, canonical string) string {
	const then = "; drain the node and restart it. Upgrading runsc does not help Pods"
	switch distribution {
	case "dockerd":
		return fmt.Sprintf("start dockerd with --exec-root %s, or exec-root in daemon.json%s", strings.TrimSuffix(strings.TrimSuffix(canonical, "/daemon"), "/containerd"), then)
	case "k3s", "RKE2", "k0s", "microk8s":
		return fmt.Sprintf("take the link away, or make it a bind mount: %s itself chooses the path%s", distribution, then)
	default:
		return fmt.Sprintf("set state to %q in containerd's configuration, or its flag --state%s", canonical, then)
	}
}

// of tells the distribution of a process by the paths in its command line.
func distributionOf(p Process) distribution {
	config, _ := p.flag("config", "c")
	for _, d := range distributions {
		if filepath.Clean(config) == d.config {
			return d
		}
	}
	line := strings.Join(p.Args, " ")
	for _, mark := range []struct{ in, name string }{
		{"/rke2/", "RKE2"}, {"/k3s/", "k3s"}, {"/k0s/", "k0s"}, {"/microk8s/", "microk8s"}, {"/docker/", "dockerd"},
	} {
		if strings.Contains(line, mark.in) {
			return distribution{name: mark.name}
		}
	}
	return distribution{name: "containerd"}
}

// Source says how to find containerd.
type Source struct {
	// Config is a file of configuration that is to be judged; empty is what is found.
	Config string
	// Args is containerd's command line where no process can be seen, such as on files
	// that were copied off. Nil is not known, which is said.
	Args *string
}

// Containerds finds every containerd of the node: its processes, else the files of
// the distributions that are known. An error says why processes could not be seen.
func (h Host) Containerds(s Source) ([]Containerd, error) {
	if s.Args != nil {
		p := Process{Args: strings.Fields(*s.Args)}
		if s.Config != "" {
			p.Args = append(p.Args, "--config", s.Config)
		}
		return []Containerd{h.load(distributionOf(p), &p)}, nil
	}
	if s.Config != "" {
		return []Containerd{h.load(distribution{name: "containerd", config: s.Config}, nil)}, nil
	}
	processes, err := h.processes()
	var all []Containerd
	for _, p := range processes {
		all = append(all, h.load(distributionOf(p), &p))
	}
	if len(all) > 0 {
		return all, err
	}
	for _, d := range distributions {
		if there, unseen := h.exists(d.config); there || unseen != nil {
			all = append(all, h.load(d, nil))
		}
	}
	return all, err
}
