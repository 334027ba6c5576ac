package creation

import (
	"regexp"
	"strings"
)

// Cause is why a sandbox could not be created, as far as an Event tells. It is a
// closed set, since it is a label; messages are none, as each has another sandbox id
// in it. Of most causes inside runsc the Event tells only [BootEOF]: the rest
// stands in the node's logs.
type Cause uint8

// The causes. Each is documented with its remedy in docs/creation.md.
const (
	UnknownCause Cause = iota
	RunscConfig
	RunscPlatform
	ShimOOMScore
	ShimProtocol
	ShimMissing
	HandlerMissing
	RuntimeBinaryMissing
	RuntimeCrash
	CgroupDriver
	CgroupNoSpace
	MemoryTooSmall
	InitDied
	CNIExhausted
	CNIAuth
	CNINotReady
	CNIPluginMissing
	PauseImage
	CNIOther
	NameReserved
	BootEOF
	RuntimeDown
	Timeout
)

// signatures are in the order in which they are asked: a cause before its symptoms.
var signatures = [...]struct {
	name    string
	pattern *regexp.Regexp
}{
	UnknownCause:         {"unknown", nil},
	RunscConfig:          {"runsc-config", message(`decode config file ~[^"\\]+~: `)},
	RunscPlatform:        {"runsc-platform", message(`cannot look up platform: `)},
	ShimOOMScore:         {"shim-oom-score", message(`failed to set OOM Score on shim: .*permission denied`)},
	ShimProtocol:         {"shim-protocol", message(`dial unix (?:\\x00|\x00)?\{~version~:\d+,~address~:~[^"\\]*~,~protocol~:~\w+~\}`)},
	ShimMissing:          {"shim-missing", message(`runtime ~[^"\\]+~ binary not installed ~[^"\\]+~`)},
	HandlerMissing:       {"handler-missing", message(`no runtime for ~[^"\\]+~ is configured`)},
	RuntimeBinaryMissing: {"runtime-binary-missing", message(`fork/exec \S+: no such file or directory`)},
	RuntimeCrash:         {"runtime-crash-noreport", message(`did not terminate succ?ess?fully.*unable to retrieve OCI runtime error`)},
	CgroupDriver:         {"runc-cgroup-driver", message(`expected cgroupsPath to be of format ~slice:prefix:name~|cgroup-parent for systemd cgroup should be a valid slice|did not receive slice as parent`)},
	CgroupNoSpace:        {"runc-cgroup-enospc", message(`/sys/fs/cgroup/\S+: no space left on device`)},
	MemoryTooSmall:       {"runc-mem-too-small", message(`unable to set memory limit to \d+`)},
	InitDied:             {"runc-init-died", message(`can't get final child's PID from pipe|getting the final child's pid from pipe|write init-p: broken pipe`)},
	CNIExhausted:         {"cni-ip-exhausted", message(`no IP addresses available in range set|postIpamFailure\s+range is full|failed to assign an IP address to container`)},
	CNIAuth:              {"cni-auth", message(`(?:plugin type=~[^"\\]+~|[nN]etworkPlugin cni|failed to set ?up).*[Uu]nauthorized`)},
	CNINotReady:          {"cni-not-ready", message(`cni plugin not initialized|cni config uninitialized|stat /var/lib/calico/nodename: no such file`)},
	CNIPluginMissing:     {"cni-plugin-missing", message(`failed to find plugin ~[^"\\]+~ in path`)},
	PauseImage:           {"pause-image", message(`failed to (?:get|inspect) sandbox image ~|failed pulling image ~[^"]*pause|failed to get image from containerd`)},
	CNIOther:             {"cni-other", message(`failed to set ?up (?:network for sandbox|sandbox container ~.*~ network)|failed to create pod network sandbox|plugin type=~[^"\\]+~.* failed \(add\)|[nN]etworkPlugin cni failed to set up pod`)},
	NameReserved:         {"name-reserved", message(`failed to reserve sandbox name|error reserving pod name|name ~[^"\\]+~ is reserved for`)},
	BootEOF:              {"runsc-boot-eof", message(`cannot read client sync file: waiting for sandbox to start: EOF`)},
	RuntimeDown:          {"runtime-down", message(`code = Unavailable .*(?:connection refused|no such file or directory|connection reset)`)},
	Timeout:              {"timeout", message(`code = DeadlineExceeded|context deadline exceeded|operation timeout`)},
}

// message is a pattern in which a tilde is a quotation mark, however often it was
// escaped on its way into the Event.
func message(pattern string) *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(pattern, "~", `\\*"`))
}

func (c Cause) String() string {
	if int(c) >= len(signatures) {
		return signatures[UnknownCause].name
	}
	return signatures[c].name
}

// Advice says what a cause means and what to look at, for people.
func (c Cause) Advice() (means, look string) {
	if int(c) >= len(advice) {
		c = UnknownCause
	}
	return advice[c].means, advice[c].look
}

var advice = [...]struct{ means, look string }{
	UnknownCause:         {"no Event was seen, or none that is known", "the Events of the Pod, the kubelet's log"},
	RunscConfig:          {"runsc.toml is missing or cannot be read", "its path; values under [runsc_config] are strings"},
	RunscPlatform:        {"runsc.toml names a platform that there is not", "platform: systrap or kvm"},
	ShimOOMScore:         {"containerd runs without CAP_SYS_RESOURCE, as in a container", "the privileges of containerd"},
	ShimProtocol:         {"the shim is newer than containerd", "the versions of both"},
	ShimMissing:          {"containerd-shim-runsc-v1 is not where containerd looks", "containerd's PATH, runtime_path"},
	HandlerMissing:       {"the RuntimeClass names a handler that containerd does not have", "the handler; version of containerd's configuration against the plugin ids in it"},
	RuntimeBinaryMissing: {"runsc or runc is not there", "binary_name, BinaryName"},
	RuntimeCrash:         {"the runtime ended before its log was open", "flags in runsc.toml; run the binary by hand"},
	CgroupDriver:         {"kubelet and runtime have different cgroup drivers", "SystemdCgroup, cgroupDriver"},
	CgroupNoSpace:        {"the kernel has no more cgroups", "leaked cgroups; a reboot"},
	MemoryTooSmall:       {"the limit is below what the start needs", "the Pod's memory limit"},
	InitDied:             {"runc's init was killed", "the memory limit; CAP_SYS_RESOURCE"},
	CNIExhausted:         {"the node has no more addresses", "the Pod CIDR, leaked leases, Pods per node"},
	CNIAuth:              {"the network plugin may not ask the API server", "its token; the node's clock"},
	CNINotReady:          {"the network plugin is not installed yet", "its DaemonSet"},
	CNIPluginMissing:     {"a plugin's program is gone", "the plugins' directory, after an upgrade of the node"},
	PauseImage:           {"the pause image cannot be had", "its registry; pin the image"},
	CNIOther:             {"the network plugin failed otherwise", "its log"},
	NameReserved:         {"an echo: an attempt before timed out and still runs", "why that one was slow; restart containerd"},
	BootEOF:              {"gVisor's sentry or gofer died at boot; the Event cannot tell why", "gofer.log and boot.log on the node: [doctor](doctor.md)"},
	RuntimeDown:          {"containerd does not answer", "the node"},
	Timeout:              {"the runtime was too slow", "its slow step: I/O, network plugin, kvm"},
}

// Causes are all of them, UnknownCause first.
func Causes() []Cause {
	values := make([]Cause, len(signatures))
	for i := range values {
		values[i] = Cause(i)
	}
	return values
}

// mostMessage is how much of a message is read, in bytes. The API bounds one at 1 KiB;
// whoever may write Events must not have it another way.
const mostMessage = 4 << 10

// ParseCause reads the message of a FailedCreatePodSandBox Event.
func ParseCause(message string) Cause {
	if len(message) > mostMessage {
		message = message[:mostMessage]
	}
	message = strings.TrimPrefix(message, "(combined from similar events): ")
	for c, s := range signatures {
		if s.pattern != nil && s.pattern.MatchString(message) {
			return Cause(c)
		}
	}
	return UnknownCause
}
