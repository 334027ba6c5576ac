package node

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const handlers2 = `version = 2
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runsc]
  runtime_type = "io.containerd.runsc.v1"
`

// TestEffective: the command line counts over the files, the later file over the
// earlier, and all over the defaults.
func TestEffective(t *testing.T) {
	process := func(args string) tree {
		return tree{"/proc/1/comm": "systemd\n", "/proc/9/comm": "containerd\n", "/proc/9/cmdline": strings.ReplaceAll(args, " ", "\x00") + "\x00"}
	}
	for name, tc := range map[string]struct {
		disk                      tree
		distribution, state, root string
		runsc                     string
		unread                    bool
	}{
		"defaults":               {process("containerd"), "containerd", "/run/containerd", "/var/lib/containerd", "[]", false},
		"file":                   {process("containerd").with(tree{"/etc/containerd/config.toml": "version = 3\nstate = '/s'\nroot = '/r'\n"}), "containerd", "/s", "/r", "[]", false},
		"flag over file":         {process("containerd --state /f").with(tree{"/etc/containerd/config.toml": "state = '/s'\n"}), "containerd", "/f", "/var/lib/containerd", "[]", false},
		"flag with =":            {process("containerd -state=/f --root=/g"), "containerd", "/f", "/g", "[]", false},
		"the last flag":          {process("containerd --state /f --state /g"), "containerd", "/g", "/var/lib/containerd", "[]", false},
		"a flag without a value": {process("containerd --state"), "containerd", "/run/containerd", "/var/lib/containerd", "[]", false},
		"another file":           {process("containerd -c /x.toml").with(tree{"/x.toml": "state = '/s'\n"}), "containerd", "/s", "/var/lib/containerd", "[]", false},
		"imports": {process("containerd").with(tree{
			"/etc/containerd/config.toml": "state = '/s'\nimports = ['conf.d/*.toml', '/more.toml']\n", "/etc/containerd/conf.d/a.toml": "state = '/a'\n",
			"/etc/containerd/conf.d/b.toml": "state = '/b'\nroot = '/rb'\n", "/more.toml": "state = ''\nimports = ['/etc/containerd/config.toml']\n",
		}), "containerd", "/b", "/rb", "[]", false},
		"imports of the default": {process("containerd").with(tree{"/etc/containerd/conf.d/a.toml": "state = '/a'\n"}), "containerd", "/a", "/var/lib/containerd", "[]", false},
		"version 1":              {process("containerd").with(tree{"/etc/containerd/config.toml": "[plugins.cri.containerd.runtimes.g]\nruntime_type = 'io.containerd.runsc.v1'\n"}), "containerd", "/run/containerd", "/var/lib/containerd", "[g]", false},
		"version 2":              {process("containerd").with(tree{"/etc/containerd/config.toml": handlers2}), "containerd", "/run/containerd", "/var/lib/containerd", "[runsc]", false},
		"version 3":              {process("containerd").with(tree{"/etc/containerd/config.toml": config3}), "containerd", "/run/containerd", "/var/lib/containerd", "[runsc]", false},
		"version 4":              {process("containerd").with(tree{"/etc/containerd/config.toml": strings.Replace(config3, "version = 3", "version = 4", 1)}), "containerd", "/run/containerd", "/var/lib/containerd", "[runsc]", false},
		"2 in a file of 3":       {process("containerd").with(tree{"/etc/containerd/config.toml": strings.Replace(handlers2, "version = 2", "version = 3", 1)}), "containerd", "/run/containerd", "/var/lib/containerd", "[]", false},
		"a drop-in of 2":         {process("containerd").with(tree{"/etc/containerd/config.toml": "version = 3\nimports = ['/d.toml']\n", "/d.toml": handlers2}), "containerd", "/run/containerd", "/var/lib/containerd", "[runsc]", false},
		"runsc by its binary":    {process("containerd").with(tree{"/etc/containerd/config.toml": "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.x]\nruntime_type='io.containerd.runc.v2'\noptions={BinaryName='/opt/runsc'}\n"}), "containerd", "/run/containerd", "/var/lib/containerd", "[x]", false},
		"k3s":                    {process("containerd -c /var/lib/rancher/k3s/agent/etc/containerd/config.toml --state /run/k3s/containerd --root /var/lib/rancher/k3s/agent/containerd"), "k3s", "/run/k3s/containerd", "/var/lib/rancher/k3s/agent/containerd", "[]", false},
		"RKE2":                   {process("containerd -c /var/lib/rancher/rke2/agent/etc/containerd/config.toml --state /run/k3s/containerd"), "RKE2", "/run/k3s/containerd", "/var/lib/containerd", "[]", false},
		"k0s":                    {process("/var/lib/k0s/bin/containerd --root=/var/lib/k0s/containerd --state=/var/lib/k0s/run/containerd --config=/etc/k0s/containerd.toml"), "k0s", "/var/lib/k0s/run/containerd", "/var/lib/k0s/containerd", "[]", false},
		"microk8s":               {process("containerd --config /var/snap/microk8s/7000/args/containerd.toml --state /var/snap/microk8s/common/run/containerd"), "microk8s", "/var/snap/microk8s/common/run/containerd", "/var/lib/containerd", "[]", false},
		"dockerd": {process("containerd --config /var/run/docker/containerd/containerd.toml").with(tree{
			"/var/run": "-> /run", "/run/docker/containerd/containerd.toml": "state = '/var/run/docker/containerd/daemon'\nroot = '/var/lib/docker/containerd/daemon'\n",
			"/etc/docker/daemon.json": `{"runtimes": {"g": {"path": "/usr/local/bin/runsc"}, "h": {"runtimeType": "io.containerd.runsc.v1", "options": {"ConfigPath": "/x"}}, "k": {"runtimeType": "io.containerd.kata.v2"}}}`,
		}), "dockerd", "/var/run/docker/containerd/daemon", "/var/lib/docker/containerd/daemon", "[g h]", false},
		"no process, k3s": {tree{"/proc/1/comm": "systemd\n", "/var/lib/rancher/k3s/agent/etc/containerd/config.toml": "version = 3\n"}, "k3s", "/run/k3s/containerd", "/var/lib/rancher/k3s/agent/containerd", "[]", true},
		"no /proc":        {tree{"/etc/containerd/config.toml": "state = '/s'\n"}, "containerd", "/s", "/var/lib/containerd", "[]", true},
		"no TOML":         {process("containerd").with(tree{"/etc/containerd/config.toml": "state = '/s\n"}), "containerd", "/run/containerd", "/var/lib/containerd", "[]", true},
		"binary":          {process("containerd").with(tree{"/etc/containerd/config.toml": "\x00\xff\x00"}), "containerd", "/run/containerd", "/var/lib/containerd", "[]", true},
		"a directory":     {process("containerd").with(tree{"/etc/containerd/config.toml": "dir"}), "containerd", "/run/containerd", "/var/lib/containerd", "[]", true},
		"a loop of links": {process("containerd").with(tree{"/etc/containerd/config.toml": "-> config.toml"}), "containerd", "/run/containerd", "/var/lib/containerd", "[]", true},
		"no such import":  {process("containerd").with(tree{"/etc/containerd/config.toml": "imports = ['/none.toml']\n"}), "containerd", "/run/containerd", "/var/lib/containerd", "[]", true},
		"a bad pattern":   {process("containerd").with(tree{"/etc/containerd/config.toml": "imports = ['/etc/*/x*.toml', '/etc/[*']\n", "/etc/x": "dir"}), "containerd", "/run/containerd", "/var/lib/containerd", "[]", true},
		"wrong types":     {process("containerd").with(tree{"/etc/containerd/config.toml": "version = 'x'\nstate = 1\nimports = 'x'\nplugins = []\n"}), "containerd", "/run/containerd", "/var/lib/containerd", "[]", false},
	} {
		all, _ := tc.disk.grow(t).Containerds(Source{})
		if len(all) != 1 {
			t.Errorf("%s: %d of them", name, len(all))
			continue
		}
		c := all[0]
		var runsc []string
		for _, h := range c.runsc() {
			runsc = append(runsc, h.Name)
		}
		got := fmt.Sprintln(c.Distribution, c.State.Value, c.Root.Value, runsc, len(c.Unread) > 0)
		want := fmt.Sprintln(tc.distribution, tc.state, tc.root, tc.runsc, tc.unread)
		if got != want {
			t.Errorf("%s:\n got %swant %s%q", name, got, want, c.Unread)
		}
	}
}

// TestSeveral: each containerd is judged for itself, and its shims are not it.
func TestSeveral(t *testing.T) {
	h := tree{
		"/proc/1/comm": "systemd\n", "/proc/5/comm": "containerd\n", "/proc/5/cmdline": "containerd\x00",
		"/proc/6/comm": "containerd\n", "/proc/6/cmdline": "containerd\x00--config\x00/var/run/docker/containerd/containerd.toml\x00",
		"/proc/7/comm": "containerd-shim\n", "/proc/7/cmdline": "x\x00", "/proc/8/comm": "containerd\n",
	}.grow(t)
	if os.Geteuid() == 0 { // anybody may call a process containerd
		if err := os.MkdirAll(h.Root()+"/proc/9", 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"comm": "containerd\n", "cmdline": "containerd\x00--state\x00/evil\x00"} {
			if err := os.WriteFile(h.Root()+"/proc/9/"+name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(h.Root()+"/proc/9", 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	all, err := h.Containerds(Source{})
	if err != nil || len(all) != 2 || all[0].PID != 5 || all[1].Distribution != "dockerd" {
		t.Errorf("%+v, %v", all, err)
	}
	none := ""
	given := "--state /given"
	for _, tc := range []struct {
		source Source
		state  string
		unread bool
	}{
		{Source{Args: &none}, "/run/containerd", false},
		{Source{Args: &given}, "/given", false},
		{Source{Args: &given, Config: "/none.toml"}, "/given", false},
		{Source{Config: "/none.toml"}, "/run/containerd", true},
	} {
		all, err := h.Containerds(tc.source)
		if err != nil || len(all) != 1 || all[0].State.Value != tc.state || (len(all[0].Unread) > 0) != tc.unread {
			t.Errorf("%+v: %+v, %v", tc.source, all, err)
		}
	}
}

// TestHandlers: what is ignored replaces nothing, and options add up.
func TestHandlers(t *testing.T) {
	var c Containerd
	for i, text := range []string{config3, "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runsc]\nruntime_path = '/x/shim'\n", strings.Replace(handlers2, "version = 2", "version = 3", 1)} {
		parsed, err := parseTOML([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c.merge(fmt.Sprint("file", i), parsed)
	}
	if len(c.Handlers) != 3 || len(c.runsc()) != 1 {
		t.Fatalf("%+v", c.Handlers)
	}
	h := c.runsc()[0]
	if h.RuntimePath != "/x/shim" || h.RuntimeType != "io.containerd.runsc.v1" || h.ConfigPath != "/etc/containerd/runsc.toml" || h.File != "file1" {
		t.Errorf("%+v", h)
	}
	if i := slices.IndexFunc(c.Handlers, func(h Handler) bool { return h.Ignored }); i != 2 || c.Handlers[i].Plugin != oldCRI {
		t.Errorf("%+v", c.Handlers)
	}
}
