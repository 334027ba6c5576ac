package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func examine(t *testing.T, disk tree, change ...func(*Options)) Report {
	t.Helper()
	o := Options{ContainerdVersion: "containerd github.com/containerd/containerd/v2 v2.2.2 x", Now: time.Now(), Ask: prints}
	for _, f := range change {
		f(&o)
	}
	r, err := Examine(t.Context(), disk.grow(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// prints is what a binary of a tree prints: its text.
func prints(_ context.Context, binary string) (string, error) {
	text, err := os.ReadFile(binary)
	return string(text), err
}

// worst is the worst finding of a check.
func (r Report) worst(check string) Finding {
	var worst Finding
	for _, f := range r.Findings {
		if f.Check == check && (worst.Check == "" || f.Severity.AtLeast(worst.Severity)) {
			worst = f
		}
	}
	return worst
}

// TestHealthy: on a node where Pods start nothing is wrong and nothing unknown.
func TestHealthy(t *testing.T) {
	r := examine(t, healthy)
	for _, f := range r.Findings {
		if f.Severity != OK && f.Check != "versions" {
			t.Errorf("%+v", f)
		}
	}
	if r.Exit(Failure) != ExitOK || r.Exit(Warning) != ExitOK || r.worst("versions").Severity != Info {
		t.Errorf("%d, %+v", r.Exit(Failure), r.worst("versions"))
	}
}

// TestChecks: each line breaks one thing of a healthy node.
func TestChecks(t *testing.T) {
	config := func(old, replaced string) tree {
		return tree{"/etc/containerd/config.toml": strings.Replace(config3, old, replaced, 1)}
	}
	state := func(path string) tree { return tree{"/proc/700/cmdline": "containerd\x00--state\x00" + path + "\x00"} }
	runsc := func(release string) tree {
		return tree{"/usr/bin/runsc": "runsc version " + release, "/usr/bin/containerd-shim-runsc-v1": "runsc version " + release}
	}
	two := tree{"/usr/bin/runsc-b": "runsc version release-20260817.0", "/b.toml": "binary_name = 'runsc-b'\n"}
	two["/etc/containerd/config.toml"] = config3 + "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runsc-b]\n  runtime_type = 'io.containerd.runsc.v1'\n  options = { ConfigPath = '/b.toml' }\n"
	started := func(ticks string) tree {
		return tree{"/proc/stat": "cpu 1 2\nbtime 1700000000\n", "/proc/700/stat": "700 (a) b) S 1 700 700 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 " + ticks + " 1 1\n"}
	}
	yama := func(scope string) tree { return tree{"/proc/sys/kernel/yama/ptrace_scope": scope + "\n"} }
	toml := func(text string) tree { return tree{"/etc/containerd/runsc.toml": text} }
	for name, tc := range map[string]struct {
		disk     tree
		check    string
		severity Severity
		says     string // found, evidence, consequence or remedy has it
	}{
		"state behind /var/run":     {state("/var/run/containerd"), "state-symlink", Failure, "/var/run -> /run"},
		"and how to mend it":        {state("/var/run/containerd"), "state-symlink", Failure, `set state to "/run/containerd"`},
		"upgrading does not help":   {state("/var/run/containerd"), "state-symlink", Failure, "Upgrading runsc does not help Pods"},
		"hooks are not needed":      {state("/var/run/containerd"), "state-symlink", Failure, "needs no hook"},
		"the kernel agrees":         {state("/var/run/containerd"), "state-proof", Failure, "/proc/self/fd says " + bundles},
		"a link below state":        {tree{bundles: "absent", "/run/containerd/io.containerd.runtime.v2.task": "-> /data", "/data/k8s.io": "dir"}, "state-symlink", Failure, "io.containerd.runtime.v2.task -> /data"},
		"an old runsc":              {state("/var/run/containerd").with(runsc("release-20260511.0")), "state-symlink", Warning, "None with runsc 20260511"},
		"an old and a new runsc":    {state("/var/run/containerd").with(runsc("release-20260511.0")).with(two), "state-symlink", Failure, "runsc-b 20260817"},
		"both are judged":           {runsc("release-20260511.0").with(two), "versions", Info, "runsc-b 20260817"},
		"a runsc of no release":     {state("/var/run/containerd").with(runsc("VERSION_MISSING")), "state-symlink", Failure, "which one this is, is not known"},
		"a newer runsc":             {state("/var/run/containerd").with(runsc("release-20261101.0")), "state-symlink", Failure, "is not known"},
		"a loop":                    {state("/a/containerd").with(tree{"/a": "-> b", "/b": "-> a"}), "state-symlink", Failure, "loop"},
		"no state directory":        {state("/later"), "state-symlink", Unknown, "/later does not exist"},
		"nothing is proven":         {state("/later"), "state-proof", Unknown, "only / exists"},
		"a relative state":          {state("run/containerd"), "state-symlink", Unknown, "not an absolute path"},
		"dockerd":                   {tree{"/proc/700/cmdline": "containerd\x00--config\x00/var/run/docker/containerd/containerd.toml\x00", "/run/docker/containerd/containerd.toml": "state = '/var/run/docker/containerd/daemon'\n" + config3, "/run/docker/containerd/daemon": "dir"}, "state-symlink", Failure, "dockerd with --exec-root /run/docker"},
		"docker's own runtimes":     {tree{"/proc/700/cmdline": "containerd\x00--config\x00/var/run/docker/containerd/containerd.toml\x00", "/run/docker/containerd/containerd.toml": "state = '/var/run/docker/containerd/daemon'\n", "/run/docker/containerd/daemon": "dir", "/etc/docker/daemon.json": `{"runtimes": {"g": {"path": "/usr/bin/runsc"}}}`}, "state-symlink", Failure, "/var/run -> /run"},
		"an unread daemon.json":     {tree{"/proc/700/cmdline": "containerd\x00--config\x00/var/run/docker/containerd/containerd.toml\x00", "/run/docker/containerd/containerd.toml": "", "/etc/docker/daemon.json": "{"}, "state-symlink", Unknown, "daemon.json"},
		"k0s":                       {tree{"/proc/700/cmdline": "containerd\x00--config\x00/etc/k0s/containerd.toml\x00--state\x00/var/lib/k0s/run/containerd\x00", "/etc/k0s/containerd.toml": config3, "/var/lib/k0s": "-> /data/k0s", "/data/k0s/run/containerd": "dir"}, "state-symlink", Failure, "/var/lib/k0s -> /data/k0s"},
		"no runsc":                  {tree{"/etc/containerd/config.toml": "version = 3\n"}, "state-symlink", Skipped, "no runtime"},
		"an unread configuration":   {tree{"/etc/containerd/config.toml": "version = \n"}, "state-symlink", Unknown, "not all was read"},
		"an unread import":          {config("version = 3", "version = 3\nimports = ['/none.toml']"), "state-symlink", Unknown, "/none.toml"},
		"edited, not restarted":     {started("500"), "state-symlink", Unknown, "/etc/containerd/config.toml: changed at"},
		"restarted since":           {started("999999999999"), "state-symlink", OK, ""},
		"when it began is unknown":  {started("x"), "state-symlink", OK, ""},
		"it is said":                {config("version = 3", "version = 3\nimports = ['/none.toml']"), "containerd", Unknown, "/none.toml"},
		"containerd in a container": {tree{"/proc/700/ns/mnt": "-> mnt:[4026532000]"}, "containerd", Unknown, "--rootfs /proc/700/root"},
		"containerd in a chroot":    {tree{"/proc/700/root": "-> /chroot"}, "state-symlink", Unknown, "See containerd"},
		"nothing is said of it":     {tree{"/proc/700/ns/mnt": "-> mnt:[4026532000]"}.with(state("/var/run/containerd")), "state-symlink", Unknown, "See containerd"},
		"where it is, is not known": {tree{"/proc/700/ns/mnt": "absent"}, "state-symlink", Unknown, "See containerd"},
		"/tmp is a link":            {tree{"/tmp": "-> /private/tmp", "/private/tmp": "dir"}, "tmp-symlink", Failure, "/tmp -> /private/tmp"},
		"no /tmp":                   {tree{"/tmp": "absent"}, "tmp-symlink", Unknown, ""},
		"root behind a link":        {tree{"/var/lib/containerd": "-> /data", "/data": "dir"}, "root-symlink", Info, "harmless"},
		"root in a loop":            {tree{"/var/lib/containerd": "-> containerd"}, "root-symlink", Unknown, ""},
		"the fix is no fix":         {nil, "versions", Info, "its fix is for bundles without mounts"},
		"the broken release":        {runsc("release-20260520.0"), "versions", Warning, "EROFS"},
		"no release":                {runsc("VERSION_MISSING"), "versions", Unknown, "it prints \"runsc version VERSION_MISSING\""},
		"no shim":                   {tree{"/usr/bin/containerd-shim-runsc-v1": "absent"}, "binaries", Failure, "containerd-shim-runsc-v1 is missing"},
		"runsc is a directory":      {tree{"/usr/bin/runsc": "dir"}, "binaries", Failure, "not an executable file"},
		"PATH is not known":         {tree{"/usr/bin/runsc": "absent", "/proc/700/environ": ""}, "binaries", Unknown, "which PATH containerd has is not known"},
		"shim and runsc":            {tree{"/usr/bin/runsc": "runsc version release-20260706.0"}, "binaries", Warning, "the shim is of 20260817, runsc of 20260706"},
		"runtime_path":              {config("runtime_type = 'io.containerd.runsc.v1'", "runtime_type = 'io.containerd.runsc.v1'\n  runtime_path = '/opt/shim'"), "binaries", Failure, "/opt/shim"},
		"the old plugin id":         {tree{"/etc/containerd/config.toml": strings.Replace(handlers2, "version = 2", "version = 3", 1)}, "handlers", Failure, oldCRI},
		"debug at top level":        {toml("debug = true\n"), "runsc-config", Warning, `debug = "true"`},
		"a bool":                    {toml("[runsc_config]\ndebug = true\n"), "runsc-config", Failure, "runsc_config.debug is not a string"},
		"a bomb of keys":            {toml(strings.Repeat("a.", 1000) + "a = 1\n"), "runsc-config", Warning, "a = a table"},
		"a bomb of lists":           {toml("x = " + strings.Repeat("[", 999) + strings.Repeat("]", 999) + "\n"), "runsc-config", Warning, "x = a list"},
		"runsc_config is a string":  {toml("runsc_config = 'x'\n"), "runsc-config", Failure, "not a table"},
		"no TOML":                   {toml("[runsc_config\n"), "runsc-config", Failure, "line 1"},
		"binary TOML":               {toml("\x00\x01\xff"), "runsc-config", Failure, ""},
		"no runsc.toml":             {tree{"/etc/containerd/runsc.toml": "absent"}, "runsc-config", Failure, "no such file"},
		"one that is ignored":       {config("ConfigPath", "Other").with(tree{"/etc/containerd/runsc/config.toml": "x"}), "runsc-config", Warning, "the shim ignores"},
		"none is needed":            {config("ConfigPath", "Other"), "runsc-config", OK, "defaults"},
		"no platform":               {toml("[runsc_config]\nplatform = 'nope'\n"), "platform", Failure, `"nope" is no platform`},
		"kvm from outside":          {toml("[runsc_config]\nplatform = 'kvm'\n"), "platform", Unknown, "/dev/kvm"},
		"kvm is a file":             {toml("[runsc_config]\nplatform = 'kvm'\n").with(tree{"/dev/kvm": "x"}), "platform", Failure, "no device"},
		"no seccomp":                {tree{"/proc/sys/kernel/seccomp/actions_avail": "errno\n"}, "platform", Failure, "no seccomp traps"},
		"seccomp is not known":      {tree{"/proc/sys/kernel/seccomp/actions_avail": "absent"}, "platform", Unknown, ""},
		"kvm needs no ptrace":       {toml("[runsc_config]\nplatform = 'kvm'\n").with(tree{"/proc/sys/kernel/yama/ptrace_scope": "3\n"}), "platform", Unknown, "/dev/kvm"},
		"no ptrace at all":          {yama("3"), "platform", Failure, "3 cannot be undone"},
		"ptrace of the admin":       {yama("2"), "platform", Warning, "directfs"},
		"ptrace of descendants":     {yama("1"), "platform", OK, ""},
		"ptrace of the future":      {yama("4"), "platform", Unknown, "ptrace_scope"},
		"ptrace cannot be read":     {tree{"/proc/sys/kernel/yama/ptrace_scope": "dir"}, "platform", Unknown, "ptrace_scope"},
		"containerd is filtered":    {tree{"/proc/700/status": "NoNewPrivs:\t0\nSeccomp:\t2\n"}, "platform", Unknown, "Seccomp: 2"},
		"no new privileges":         {tree{"/proc/700/status": "NoNewPrivs:\t1\nSeccomp:\t0\n"}, "platform", Unknown, "NoNewPrivs: 1"},
		"status without seccomp":    {tree{"/proc/700/status": "NoNewPrivs:\t0\n"}, "platform", Unknown, "has no Seccomp:"},
		"in a user namespace":       {tree{"/proc/700/uid_map": "0 100000 65536\n"}, "platform", Unknown, "a user namespace: 0 100000 65536"},
		"whose users are not known": {tree{"/proc/700/uid_map": "absent"}, "platform", Unknown, "uid_map"},
		"its platform is not known": {toml("[\n"), "platform", Unknown, ""},
		"no capability":             {tree{"/proc/700/status": "CapEff:\t00000000a80425fb\n"}, "capabilities", Warning, "no CAP_SYS_RESOURCE"},
		"no CapEff":                 {tree{"/proc/700/status": "Name:\tx\n"}, "capabilities", Unknown, ""},
		"a strange CapEff":          {tree{"/proc/700/status": "CapEff:\tzz\n"}, "capabilities", Unknown, ""},
		"no status":                 {tree{"/proc/700/status": "absent"}, "capabilities", Unknown, ""},
		"no CNI":                    {tree{"/etc/cni/net.d/10-pods.conflist": "absent", "/etc/cni/net.d": "dir"}, "cni", Failure, "cni plugin not initialized"},
		"no directory of CNI":       {tree{"/etc/cni/net.d/10-pods.conflist": "absent"}, "cni", Failure, "cni plugin not initialized"},
		"a CNI of no JSON":          {tree{"/etc/cni/net.d/10-pods.conflist": "{"}, "cni", Failure, ""},
		"a plugin is missing":       {tree{"/opt/cni/bin/ptp": "absent"}, "cni", Failure, "CNI plugin ptp"},
		"a plugin with a path":      {tree{"/etc/cni/net.d/10-pods.conflist": `{"type":"../../bin/sh"}`}, "cni", Failure, "no name of a plugin"},
		"addresses nearly gone":     {leases(12), "cni", Warning, "12 of 13"},
		"gone beside IPv6":          {leases(13).with(tree{"/etc/cni/net.d/10-pods.conflist": `{"name":"pods","plugins":[{"type":"ptp","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/28"}],[{"subnet":"fd00::/64"}]]}}]}`}), "cni", Failure, "13 of 13"},
		"a subnet of no address":    {leases(1).with(tree{"/etc/cni/net.d/10-pods.conflist": `{"name":"pods","plugins":[{"type":"ptp","ipam":{"type":"host-local","subnet":"usePodCidr"}}]}`}), "cni", Unknown, "usePodCidr"},
		"a network of nothing":      {tree{"/etc/cni/net.d/10-pods.conflist": "{}"}, "cni", Failure, "no type"},
		"addresses gone":            {leases(13), "cni", Failure, "13 of 13"},
		"runc by default":           {config("  runtime_type = 'io.containerd.runc.v2'", ""), "cgroup-driver", Warning, "containerd's default: SystemdCgroup = (not set)"},
		"cgroup drivers":            {tree{"/var/lib/kubelet/config.yaml": "cgroupDriver: cgroupfs\n"}, "cgroup-driver", Warning, "SystemdCgroup = true"},
		"no kubelet":                {tree{"/var/lib/kubelet/config.yaml": "absent"}, "cgroup-driver", Unknown, ""},
		"a kubelet of no YAML":      {tree{"/var/lib/kubelet/config.yaml": "\t"}, "cgroup-driver", Unknown, ""},
	} {
		f := examine(t, healthy.with(tc.disk)).worst(tc.check)
		all := strings.Join(append(slices.Clone(f.Evidence), f.Found, f.Consequence, f.Remedy), "\n")
		if f.Severity != tc.severity || !strings.Contains(all, tc.says) {
			t.Errorf("%s: %+v, want %s and %q", name, f, tc.severity, tc.says)
		}
		if f.Severity.AtLeast(Warning) && (f.Found == "" || f.Remedy == "" || f.Severity != Unknown && f.Consequence == "") {
			t.Errorf("%s: not a whole finding: %+v", name, f)
		}
	}
}

// TestContainerdVersion2: a containerd that runs with a configuration of version 3 is
// not older than 2.0, whatever it prints; a file that nobody runs with says nothing.
func TestContainerdVersion2(t *testing.T) {
	silent := func(o *Options) { o.ContainerdVersion = "" }
	if f := examine(t, healthy, silent).worst("versions"); f.Severity != Info {
		t.Errorf("%+v", f)
	}
	for name, disk := range map[string]tree{
		"version 2":  {"/etc/containerd/config.toml": handlers2},
		"no process": {"/proc/700/comm": "sleep\n"},
	} {
		if f := examine(t, healthy.with(disk), silent).worst("versions"); f.Severity != Unknown {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func leases(n int) tree {
	t := tree{"/var/lib/cni/networks/pods/last_reserved_ip.0": "x", "/var/lib/cni/networks/pods/lock": ""}
	for i := range n {
		t[fmt.Sprintf("/var/lib/cni/networks/pods/10.1.0.%d", i+2)] = id
	}
	return t
}

// TestCopy: of files that were copied off a node nothing is right, whatever is
// missing, and what is wrong is found.
func TestCopy(t *testing.T) {
	none := ""
	args := func(o *Options) { o.Args = &none }
	disk := healthy.with(tree{"/proc/1/comm": "absent"})
	r := examine(t, disk, args)
	for _, check := range []string{"state-symlink", "state-proof", "tmp-symlink", "root-symlink"} {
		if f := r.worst(check); f.Severity != Unknown {
			t.Errorf("%+v", f)
		}
	}
	if r.Exit(Failure) != ExitUnknown {
		t.Errorf("exit %d", r.Exit(Failure))
	}
	r = examine(t, disk.with(tree{"/etc/containerd/config.toml": "state = '/var/run/containerd'\n" + config3}), args)
	if f := r.worst("state-symlink"); f.Severity != Failure {
		t.Errorf("%+v", f)
	}
	for _, gone := range []string{"/etc/containerd/runsc.toml", "/etc/cni/net.d/10-pods.conflist", "/opt/cni/bin/ptp", "/etc/containerd/config.toml", "/usr/bin/runsc"} {
		without := healthy.with(tree{"/proc/1/comm": "absent", gone: "absent", "/etc/cni/net.d": "dir"})
		if strings.Contains(gone, "net.d") {
			delete(without, "/etc/cni/net.d")
		}
		if r := examine(t, without, args); r.Exit(Failure) == ExitOK {
			t.Errorf("without %s all is right", gone)
		}
	}
}

// TestNothing: an empty disk is unknown, and so is one of which nothing was asked.
func TestNothing(t *testing.T) {
	r := examine(t, tree{})
	if r.Exit(Failure) != ExitUnknown || r.worst("containerd").Severity != Unknown || len(r.Findings) != 2 {
		t.Errorf("%+v", r.Findings)
	}
	if r := examine(t, tree{}, func(o *Options) { o.Ignore = []string{"containerd"} }); r.Exit(Failure) != ExitUnknown {
		t.Errorf("%+v", r.Findings)
	}
	if (Report{}).Exit(Failure) != ExitUnknown {
		t.Error("nothing at all is right")
	}
	if _, err := Examine(t.Context(), tree{}.grow(t), Options{Ignore: []string{"state"}}); err == nil || !strings.Contains(err.Error(), "allowed: containerd, state-symlink") {
		t.Error(err)
	}
}

// TestExit: a failure counts more than what is unknown, and that more than what is right.
func TestExit(t *testing.T) {
	for _, tc := range []struct {
		severities []Severity
		threshold  Severity
		code       int
	}{
		{[]Severity{OK, Skipped, Info}, Failure, 0},
		{[]Severity{OK, Warning}, Failure, 0},
		{[]Severity{OK, Warning}, Warning, 1},
		{[]Severity{OK, Unknown}, Failure, 2},
		{[]Severity{Unknown, Failure}, Failure, 1},
		{[]Severity{Failure, Unknown}, Failure, 1},
		{[]Severity{Warning, Unknown}, Warning, 1},
		{[]Severity{Warning, Unknown}, Failure, 2},
		{[]Severity{Skipped}, Failure, 2},
		{[]Severity{"nonsense"}, Failure, 1},
		{nil, Failure, 2},
	} {
		var r Report
		for _, s := range tc.severities {
			r.Findings = append(r.Findings, Finding{Severity: s})
		}
		if got := r.Exit(tc.threshold); got != tc.code {
			t.Errorf("%v by %s: %d, want %d", tc.severities, tc.threshold, got, tc.code)
		}
	}
}

// TestSilentCheck: a check that says nothing is not taken for one that found nothing.
func TestSilentCheck(t *testing.T) {
	defer func(all []Check) { checks = all }(checks)
	checks = []Check{
		{ID: "silent", run: func(*examination) []Finding { return nil }},
		{ID: "right", run: func(*examination) []Finding { return []Finding{{Severity: OK}} }},
	}
	if r := examine(t, healthy); r.Exit(Failure) != ExitUnknown {
		t.Errorf("%+v", r.Findings)
	}
}

// TestAsk: a binary that may be run is asked; one that does not answer, or that others
// may have put there, is unknown.
func TestAsk(t *testing.T) {
	h := tree{"/usr/bin/runsc": "x", "/open/bin/runsc": "x", "/bin/runsc": "x"}.grow(t)
	for path, mode := range map[string]os.FileMode{"/open": 0o777, "/bin/runsc": 0o775} {
		if err := os.Chmod(h.Root()+path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		path, answer string
		err          error
		want, how    string
	}{
		{"/usr/bin/runsc", "runsc version release-20260511.0\nspec: 1.2.1\n", nil, "20260511", "it prints"},
		{"/usr/bin/runsc", "runsc version VERSION_MISSING\n", nil, "unknown", "it prints"},
		{"/usr/bin/runsc", "", errors.New("killed"), "unknown", "killed"},
		{"/open/bin/runsc", "runsc version release-20260511.0\n", nil, "unknown", "others may write /open"},
		{"/bin/runsc", "runsc version release-20260511.0\n", nil, "unknown", "others may write /bin/runsc"},
		{"/none", "runsc version release-20260511.0\n", nil, "unknown", "no such file"},
	} {
		x := &examination{ctx: t.Context(), host: h, options: Options{Ask: func(_ context.Context, binary string) (string, error) {
			if binary != h.Root()+"/usr/bin/runsc" {
				t.Errorf("%s was run", binary)
			}
			return tc.answer, tc.err
		}}}
		if v, how := x.versionOf(tc.path); v.String() != tc.want || !strings.Contains(how, tc.how) {
			t.Errorf("%+v: %v, %s", tc, v, how)
		}
	}
	x := &examination{host: h}
	if v, how := x.versionOf("/usr/bin/runsc"); v.Known() || !strings.Contains(how, "was not run") {
		t.Errorf("%v, %s", v, how)
	}
	if h.MayRun() {
		t.Error("binaries of a copy may be run")
	}
}

// TestRootOnly: what may not be read is unknown. Root may read everything.
func TestRootOnly(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	h := healthy.grow(t)
	if err := os.Chmod(h.Root()+"/etc/containerd", 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(h.Root()+"/etc/containerd", 0o700) }()
	r, err := Examine(t.Context(), h, Options{Now: time.Now()})
	if err != nil || r.Exit(Failure) != ExitUnknown {
		t.Errorf("%+v, %v", r.Findings, err)
	}
}
