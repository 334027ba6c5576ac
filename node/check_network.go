package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// network is a CNI configuration: a list of plugins, or one plugin.
type network struct {
	Name    string   `json:"name"`
	Plugins []plugin `json:"plugins"`
	plugin
}

type plugin struct {
	Type string `json:"type"`
	IPAM struct {
		Type   string     `json:"type"`
		Subnet string     `json:"subnet"`
		Ranges [][]subnet `json:"ranges"`
	} `json:"ipam"`
}

// subnet is a range of host-local, whose rangeStart and rangeEnd are not read.
type subnet struct {
	Subnet string `json:"subnet"`
}

func (n network) all() []plugin {
	if len(n.Plugins) > 0 {
		return n.Plugins
	}
	return []plugin{n.plugin}
}

func checkCNI(x *examination) []Finding {
	return x.each(func(c Containerd) []Finding {
		entries, err := x.host.list(c.CNI.ConfDir)
		if err != nil && x.host.copied {
			return []Finding{{Severity: Unknown, Found: c.name() + ": no network configuration; " + notCopied, Evidence: []string{err.Error()}}}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return []Finding{{Severity: Failure, Found: c.name() + ": no network configuration, not even its directory", Evidence: []string{err.Error()}, Consequence: "Pods fail: cni plugin not initialized."}}
		}
		if err != nil {
			return []Finding{{Severity: Unknown, Found: c.name() + ": the network configuration could not be listed", Evidence: []string{err.Error()}}}
		}
		for _, e := range entries { // sorted by name: the first is the one that counts
			if slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name())) {
				return x.judgeNetwork(c, filepath.Join(c.CNI.ConfDir, e.Name()))
			}
		}
		return []Finding{{Severity: Failure, Found: fmt.Sprintf("%s: no network configuration in %s", c.name(), c.CNI.ConfDir), Consequence: "Pods fail: cni plugin not initialized."}}
	})
}

func (x *examination) judgeNetwork(c Containerd, path string) []Finding {
	text, err := x.host.text(path)
	if err != nil {
		return []Finding{{Severity: Unknown, Found: path + " could not be read", Evidence: []string{err.Error()}}}
	}
	var n network
	if err := json.Unmarshal(text, &n); err != nil {
		return []Finding{{Severity: Failure, Found: path + " is no network configuration", Evidence: []string{err.Error()}, Consequence: "Pods fail: cni plugin not initialized."}}
	}
	var all []Finding
	for _, p := range n.all() {
		if p.Type == "" {
			all = append(all, Finding{Severity: Failure, Found: path + " is no network configuration: a plugin has no type", Consequence: "Pods fail: cni plugin not initialized."})
		}
		for _, name := range []string{p.Type, p.IPAM.Type} {
			if name != "" {
				all = append(all, x.judgePlugin(c, path, name)...)
			}
		}
		if p.IPAM.Type == "host-local" {
			all = append(all, x.judgeLeases(n.Name, p)...)
		}
	}
	if len(all) == 0 {
		all = []Finding{{Severity: OK, Found: fmt.Sprintf("%s: network %s of %s, and its plugins are there", c.name(), n.Name, path)}}
	}
	return all
}

func (x *examination) judgePlugin(c Containerd, file, name string) []Finding {
	if strings.Contains(name, "/") {
		return []Finding{{Severity: Failure, Found: fmt.Sprintf("%s: %q is no name of a plugin", file, name)}}
	}
	for _, dir := range c.CNI.BinDirs {
		err := x.executable(filepath.Join(dir, name))
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotExecutable) {
			return []Finding{{Severity: Unknown, Found: "the CNI plugin " + name + " could not be looked for", Evidence: []string{err.Error()}}}
		}
	}
	if x.host.copied {
		return []Finding{{Severity: Unknown, Found: "no CNI plugin " + name + "; " + notCopied}}
	}
	return []Finding{{Severity: Failure, Found: fmt.Sprintf("the CNI plugin %s is missing or not executable", name), Evidence: []string{fmt.Sprintf("%s names it; it is not in %s", file, strings.Join(c.CNI.BinDirs, ":"))}, Consequence: fmt.Sprintf("Pods fail: failed to find plugin %q.", name), Remedy: "Install the CNI binaries again."}}
}

// fullEnough is from where a range of addresses is said to be nearly full.
const fullEnough = 0.9

// judgeLeases counts the addresses that host-local has given away. Of each set a Pod
// has one, so each is judged alone: the addresses of IPv6 do not run out, and a Pod
// without one of IPv4 does not start all the same.
func (x *examination) judgeLeases(name string, p plugin) []Finding {
	sets := p.IPAM.Ranges
	if p.IPAM.Subnet != "" {
		sets = append(slices.Clone(sets), []subnet{{p.IPAM.Subnet}})
	}
	dir := filepath.Join("/var/lib/cni/networks", name)
	entries, err := x.host.list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // none given yet
	}
	if err != nil {
		return []Finding{{Severity: Unknown, Found: "the leases of host-local could not be counted", Evidence: []string{err.Error()}}}
	}
	var all []Finding
	for _, set := range sets {
		total, used := 0.0, 0.0
		for _, r := range set {
			prefix, err := netip.ParsePrefix(r.Subnet)
			if err != nil {
				all = append(all, Finding{Severity: Unknown, Found: fmt.Sprintf("the subnet %q of host-local could not be read", r.Subnet), Evidence: []string{err.Error()}})
				continue
			}
			total += size(prefix)
			for _, e := range entries {
				if addr, err := netip.ParseAddr(e.Name()); err == nil && prefix.Contains(addr) {
					used++
				}
			}
		}
		if total == 0 || used < fullEnough*total {
			continue
		}
		f := Finding{Severity: Warning, Found: fmt.Sprintf("%.0f of %.0f addresses are given away", used, total), Evidence: []string{dir}, Consequence: "Pods fail: no IP addresses available in range set.", Remedy: "A bigger range, or fewer Pods; take leases away that no Pod has."}
		if used >= total {
			f.Severity = Failure
		}
		all = append(all, f)
	}
	return all
}

// size is how many addresses host-local has to give in a subnet: not the first, the
// gateway and the last.
func size(prefix netip.Prefix) float64 {
	return max(math.Exp2(float64(prefix.Addr().BitLen()-prefix.Bits()))-3, 1)
}

const kubeletConfig = "/var/lib/kubelet/config.yaml"

func checkCgroupDriver(x *examination) []Finding {
	text, err := x.host.text(kubeletConfig)
	if err != nil {
		return []Finding{{Severity: Unknown, Found: "the kubelet's cgroup driver is not known", Evidence: []string{err.Error()}, Remedy: "Compare cgroupDriver of the kubelet with SystemdCgroup of runc by hand."}}
	}
	var kubelet struct {
		CgroupDriver string `yaml:"cgroupDriver"`
	}
	if err := yaml.Unmarshal(text, &kubelet); err != nil {
		return []Finding{{Severity: Unknown, Found: "the kubelet's configuration is no YAML", Evidence: []string{kubeletConfig + ": " + err.Error()}}}
	}
	systemd := kubelet.CgroupDriver == "systemd" // its default is cgroupfs
	return x.each(func(c Containerd) []Finding {
		var all []Finding
		for _, h := range c.runc() {
			if (h.SystemdCgroup == "true") != systemd {
				all = append(all, Finding{Severity: Warning, Found: fmt.Sprintf("runtime %s and the kubelet have different cgroup drivers", h.Name), Evidence: []string{fmt.Sprintf("%s: SystemdCgroup = %s", h.File, orDefault(h.SystemdCgroup)), fmt.Sprintf("%s: cgroupDriver: %s", kubeletConfig, orDefault(kubelet.CgroupDriver))}})
			}
		}
		switch {
		case len(all) > 0:
			return all
		case len(c.Unread) > 0:
			return []Finding{{Severity: Unknown, Found: c.name() + ": what runc is configured with is not known", Evidence: c.Unread, Remedy: "See containerd."}}
		default:
			return []Finding{{Severity: OK, Found: c.name() + ": the cgroup drivers agree"}}
		}
	})
}

// runc are the handlers that start runc. Where no file has one, containerd has its own.
func (c *Containerd) runc() []Handler {
	var all []Handler
	for _, h := range c.Handlers {
		if !h.Ignored && h.File != dockerConfig && strings.Contains(h.RuntimeType, "runc") {
			all = append(all, h)
		}
	}
	if len(all) == 0 && c.Distribution != "dockerd" { // whose runc is dockerd's own
		all = []Handler{{Name: "runc", File: "containerd's default"}}
	}
	return all
}

func orDefault(s string) string {
	if s == "" {
		return "(not set)"
	}
	return s
}
