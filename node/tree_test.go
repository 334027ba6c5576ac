package node

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// tree is a node's disk: path to text, "-> target" is a link, "dir" a directory, "pipe" one, and
// "absent" takes the path of another tree away. One with /proc/1/comm plays a node that
// runs, which [NewHost] believes of no directory.
type tree map[string]string

// with is the tree with another over it.
func (t tree) with(over tree) tree {
	both := maps.Clone(t)
	maps.Copy(both, over)
	return both
}

// grow makes the tree on this disk.
func (t tree) grow(tb testing.TB) Host {
	tb.Helper()
	root := tb.TempDir()
	for _, path := range slices.Sorted(maps.Keys(t)) {
		on, text := filepath.Join(root, path), t[path]
		if text == "absent" {
			continue
		}
		err := os.MkdirAll(filepath.Dir(on), 0o755)
		target, isLink := strings.CutPrefix(text, "-> ")
		switch {
		case err != nil:
		case isLink:
			err = os.Symlink(target, on)
		case text == "pipe":
			err = syscall.Mkfifo(on, 0o600)
		case text == "dir":
			err = os.MkdirAll(on, 0o755)
		default:
			mode := os.FileMode(0o600)
			if strings.Contains(path, "/bin/") {
				mode = 0o755
			}
			err = os.WriteFile(on, []byte(text), mode)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	h, err := NewHost(root)
	if err != nil {
		tb.Fatal(err)
	}
	h.copied = t["/proc/1/comm"] == "" || t["/proc/1/comm"] == "absent" // else it plays a node
	return h
}

const bundles = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"

// healthy is a node on which Pods with runsc start.
var healthy = tree{
	"/proc/1/ns/mnt":                         "-> mnt:[4026531841]",
	"/proc/700/ns/mnt":                       "-> mnt:[4026531841]",
	"/proc/1/comm":                           "systemd\n",
	"/proc/700/comm":                         "containerd\n",
	"/proc/700/cmdline":                      "/usr/bin/containerd\x00",
	"/proc/700/environ":                      "PATH=/usr/bin:/usr/local/bin\x00HOME=/\x00",
	"/proc/700/status":                       "Name:\tcontainerd\nCapEff:\t000001ffffffffff\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n",
	"/proc/700/uid_map":                      "         0          0 4294967295\n",
	"/proc/sys/kernel/seccomp/actions_avail": "kill_process kill_thread trap errno user_notif trace log allow\n",
	"/run":                                   "dir",
	bundles:                                  "dir",
	"/tmp":                                   "dir",
	"/var/run":                               "-> /run",
	"/var/lib/containerd":                    "dir",
	"/usr/bin/containerd-shim-runsc-v1":      "runsc version release-20260817.0\nspec: 1.2.1\n",
	"/usr/bin/runsc":                         "runsc version release-20260817.0\nspec: 1.2.1\n",
	"/opt/cni/bin/ptp":                       "\x7fELF",
	"/opt/cni/bin/host-local":                "\x7fELF",
	"/etc/cni/net.d/10-pods.conflist":        `{"name":"pods","plugins":[{"type":"ptp","ipam":{"type":"host-local","subnet":"10.1.0.0/28"}}]}`,
	"/var/lib/cni/networks/pods/10.1.0.2":    "x",
	"/var/lib/kubelet/config.yaml":           "cgroupDriver: systemd\n",
	"/etc/containerd/config.toml":            config3,
	"/etc/containerd/runsc.toml":             "[runsc_config]\nplatform = \"systrap\"\n",
	"/var/log/runsc/" + id + "/boot.log":     "I1130 11:29:02.250198       1 cli.go:271] **************** gVisor ****************\n",
}

const id = "735aa570a29556b150444a1a112813b584379c306761e20a5a9a0bfd9a2b1557"

const config3 = `version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
  options = { SystemdCgroup = true }
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runsc]
  runtime_type = 'io.containerd.runsc.v1'
  options = { TypeUrl = 'io.containerd.runsc.v1.options', ConfigPath = '/etc/containerd/runsc.toml' }
`
