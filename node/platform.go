package node

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

func checkPlatform(x *examination) []Finding {
	return x.eachRunsc(func(c Containerd) []Finding {
		var all []Finding
		for _, h := range c.runsc() {
			s := x.shimConfig(h)
			switch platform := s.platform(); {
			case s.err != nil:
				all = append(all, Finding{Severity: Unknown, Found: fmt.Sprintf("runtime %s: its platform is not known, its runsc.toml was not read", h.Name), Evidence: []string{s.err.Error()}, Remedy: "See runsc-config."})
			case platform == "kvm":
				all = append(all, x.judgeKVM(h))
			case platform == "" || platform == "systrap" || platform == "ptrace":
				all = append(all, x.judgeSystrap(c, h, platform))
			default:
				all = append(all, Finding{Severity: Failure, Found: fmt.Sprintf("runtime %s: %q is no platform of runsc", h.Name, platform), Evidence: []string{s.path}})
			}
		}
		return all
	})
}

func (x *examination) judgeKVM(h Handler) Finding {
	info, err := x.host.stat("/dev/kvm")
	misc, unread := x.host.text("/proc/misc") // the kernel's list: a device may be there of a module that is not
	switch {
	case errors.Is(err, fs.ErrNotExist) && x.host.Live():
		return Finding{Severity: Failure, Found: fmt.Sprintf("runtime %s: platform kvm, and there is no /dev/kvm", h.Name), Evidence: []string{err.Error()}}
	case err != nil:
		return Finding{Severity: Unknown, Found: fmt.Sprintf("runtime %s: /dev/kvm could not be looked at", h.Name), Evidence: []string{err.Error()}}
	case info.Mode()&fs.ModeCharDevice == 0:
		return Finding{Severity: Failure, Found: fmt.Sprintf("runtime %s: /dev/kvm is no device", h.Name), Evidence: []string{"/dev/kvm: " + info.Mode().String()}}
	case !x.host.Live():
		return Finding{Severity: Unknown, Found: fmt.Sprintf("runtime %s: whether /dev/kvm can be opened is known on the node only", h.Name)}
	case unread != nil || !slices.Contains(strings.Fields(string(misc)), "kvm"):
		return Finding{Severity: Unknown, Found: fmt.Sprintf("runtime %s: /dev/kvm is there, and that the kernel has KVM was not seen", h.Name), Evidence: []string{"/proc/misc: has no kvm"}, Remedy: "Load kvm_intel or kvm_amd, or set platform to systrap."}
	}
	if err := unix.Access("/dev/kvm", unix.R_OK|unix.W_OK); err != nil {
		return Finding{Severity: Failure, Found: fmt.Sprintf("runtime %s: /dev/kvm cannot be opened", h.Name), Evidence: []string{"/dev/kvm: " + err.Error()}}
	}
	return Finding{Severity: Info, Found: fmt.Sprintf("runtime %s: /dev/kvm is there", h.Name), Consequence: "Where virtualization is nested badly, runsc hangs nevertheless.", Remedy: "Compare with platform systrap."}
}

// judgeSystrap asks what systrap and ptrace need: both attach to the processes of the
// sandbox by ptrace, and runsc filters system calls on each platform.
func (x *examination) judgeSystrap(c Containerd, h Handler, platform string) Finding {
	if platform == "" {
		platform = "the default"
	}
	worst := Finding{Severity: OK, Found: fmt.Sprintf("platform %s, and neither the kernel nor containerd's own confinement is in its way", platform)}
	for _, f := range []Finding{x.judgeYama(), x.judgeSeccomp(), x.judgeConfinement(c)} {
		if f.Severity.AtLeast(worst.Severity) && f.Severity != OK {
			worst = f
		}
	}
	worst.Found = fmt.Sprintf("runtime %s: %s", h.Name, worst.Found)
	return worst
}

// judgeYama asks the security module that can forbid ptrace (google/gvisor#10495,
// #9006). A kernel without it has no such file.
func (x *examination) judgeYama() Finding {
	const file = "/proc/sys/kernel/yama/ptrace_scope"
	text, err := x.host.text(file)
	scope := strings.TrimSpace(string(text))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !x.host.copied:
		return Finding{Severity: OK}
	case err != nil:
		return Finding{Severity: Unknown, Found: "whether ptrace is allowed is not known", Evidence: []string{err.Error()}, Remedy: "Run on the node."}
	case scope == "0" || scope == "1":
		return Finding{Severity: OK}
	case scope == "2":
		return Finding{Severity: Warning, Found: "ptrace needs CAP_SYS_PTRACE", Evidence: []string{file + ": 2"}, Consequence: "No Pod starts with directfs = \"false\", or with runsc before 20230522: unable to attach.", Remedy: "Set kernel.yama.ptrace_scope to 1, or leave directfs on."}
	case scope == "3":
		return Finding{Severity: Failure, Found: "the kernel allows no ptrace at all", Evidence: []string{file + ": 3"}, Consequence: "No Pod of this runtime starts: unable to attach: operation not permitted. The event says EOF.", Remedy: "Set kernel.yama.ptrace_scope to 1 where it is set at boot, and reboot: 3 cannot be undone. Or use platform kvm."}
	}
	return Finding{Severity: Unknown, Found: "whether ptrace is allowed is not known", Evidence: []string{fmt.Sprintf("%s: %q", file, scope)}, Remedy: "Compare with platform kvm."}
}

func (x *examination) judgeSeccomp() Finding {
	const file = "/proc/sys/kernel/seccomp/actions_avail"
	actions, err := x.host.text(file)
	switch {
	case err != nil:
		return Finding{Severity: Unknown, Found: "whether the kernel has seccomp is not known", Evidence: []string{err.Error()}, Remedy: "Run on the node."}
	case !slices.Contains(strings.Fields(string(actions)), "trap"):
		return Finding{Severity: Failure, Found: "the kernel has no seccomp traps", Evidence: []string{file + ": " + strings.TrimSpace(string(actions))}, Remedy: "Use a kernel with seccomp."}
	}
	return Finding{Severity: OK}
}

// judgeConfinement asks how containerd itself is confined: what it starts inherits its
// filter of system calls and its user namespace, and what those allow cannot be seen.
func (x *examination) judgeConfinement(c Containerd) Finding {
	f := Finding{Severity: Unknown, Found: "how containerd is confined, and with it runsc, is not known", Remedy: "Run on the node, where containerd runs."}
	if c.PID == 0 {
		f.Evidence = []string{"no process of containerd was seen"}
		return f
	}
	dir := fmt.Sprintf("/proc/%d", c.PID)
	ids, err := x.host.text(dir + "/uid_map")
	var status []byte
	if err == nil {
		status, err = x.host.text(dir + "/status")
	}
	if err != nil {
		f.Evidence = []string{err.Error()}
		return f
	}
	confined := false
	if got := strings.Fields(string(ids)); !slices.Equal(got, []string{"0", "0", "4294967295"}) {
		confined, f.Evidence = true, append(f.Evidence, dir+"/uid_map: a user namespace: "+strings.Join(got, " "))
	}
	for _, key := range []string{"Seccomp:", "NoNewPrivs:"} {
		switch value, ok := statusOf(status, key); {
		case !ok:
			f.Evidence = append(f.Evidence, dir+"/status: has no "+key)
		case value != "0":
			confined, f.Evidence = true, append(f.Evidence, dir+"/status: "+key+" "+value)
		}
	}
	if confined {
		f.Found, f.Remedy = "containerd is confined, and whether runsc works in that is not known", "Start one Pod to see, or run containerd without a seccomp filter and in the first user namespace."
	}
	if len(f.Evidence) == 0 {
		f.Severity = OK
	}
	return f
}

// statusOf is the value of a line of /proc/<pid>/status.
func statusOf(status []byte, key string) (string, bool) {
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}
