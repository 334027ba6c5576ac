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
	RunscConfig:          {"runsc-config", regexp.MustCompile(`decode config file "[^"]+": `)},
	RunscPlatform:        {"runsc-platform", regexp.MustCompile(`cannot look up platform: `)},
	ShimOOMScore:         {"shim-oom-score", regexp.MustCompile(`failed to set OOM Score on shim: .*permission denied`)},
	ShimProtocol:         {"shim-protocol", regexp.MustCompile(`dial unix (?:\\x00|\x00)?\{"version":\d+,"address":"[^"]*","protocol":"\w+"\}`)},
	ShimMissing:          {"shim-missing", regexp.MustCompile(`runtime "[^"]+" binary not installed "[^"]+"`)},
	HandlerMissing:       {"handler-missing", regexp.MustCompile(`no runtime for "[^"]+" is configured`)},
	RuntimeBinaryMissing: {"runtime-binary-missing", regexp.MustCompile(`fork/exec \S+: no such file or directory`)},
	RuntimeCrash:         {"runtime-crash-noreport", regexp.MustCompile(`did not terminate succ?ess?fully.*unable to retrieve OCI runtime error`)},
	CgroupDriver:         {"runc-cgroup-driver", regexp.MustCompile(`expected cgroupsPath to be of format "slice:prefix:name"|cgroup-parent for systemd cgroup should be a valid slice`)},
	CgroupNoSpace:        {"runc-cgroup-enospc", regexp.MustCompile(`/sys/fs/cgroup/\S+: no space left on device`)},
	MemoryTooSmall:       {"runc-mem-too-small", regexp.MustCompile(`unable to set memory limit to \d+`)},
	InitDied:             {"runc-init-died", regexp.MustCompile(`can't get final child's PID from pipe|getting the final child's pid from pipe`)},
	CNIExhausted:         {"cni-ip-exhausted", regexp.MustCompile(`no IP addresses available in range set|postIpamFailure\s+range is full|failed to assign an IP address to container`)},
	CNIAuth:              {"cni-auth", regexp.MustCompile(`(?:plugin type="[^"]+"|networkPlugin cni|failed to set ?up).*[Uu]nauthorized`)},
	CNINotReady:          {"cni-not-ready", regexp.MustCompile(`cni plugin not initialized|cni config uninitialized|stat /var/lib/calico/nodename: no such file`)},
	CNIPluginMissing:     {"cni-plugin-missing", regexp.MustCompile(`failed to find plugin "[^"]+" in path`)},
	PauseImage:           {"pause-image", regexp.MustCompile(`failed to get sandbox image "[^"]+"`)},
	CNIOther:             {"cni-other", regexp.MustCompile(`failed to set ?up (?:network for sandbox|sandbox container ".*" network)|plugin type="[^"]+".* failed \(add\)`)},
	NameReserved:         {"name-reserved", regexp.MustCompile(`failed to reserve sandbox name|error reserving pod name|name "[^"]+" is reserved for`)},
	BootEOF:              {"runsc-boot-eof", regexp.MustCompile(`cannot read client sync file: waiting for sandbox to start: EOF`)},
	RuntimeDown:          {"runtime-down", regexp.MustCompile(`code = Unavailable .*(?:connection refused|no such file or directory|connection reset)`)},
	Timeout:              {"timeout", regexp.MustCompile(`code = DeadlineExceeded|context deadline exceeded|operation timeout`)},
}

func (c Cause) String() string {
	if int(c) >= len(signatures) {
		return signatures[UnknownCause].name
	}
	return signatures[c].name
}

// Causes are all of them, UnknownCause first.
func Causes() []Cause {
	values := make([]Cause, len(signatures))
	for i := range values {
		values[i] = Cause(i) //nolint:gosec // an index of a short list
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
			return Cause(c) //nolint:gosec // an index of a short list
		}
	}
	return UnknownCause
}
