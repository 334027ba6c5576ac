package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Check is one thing that is looked at. Its ID never changes its meaning.
type Check struct {
	ID string
	// Asks is the question.
	Asks string
	// Consequence and Remedy are those of its findings that have none of their own.
	Consequence, Remedy string

	// alone says that it looks at something without a containerd, too.
	alone bool
	run   func(x *examination) []Finding
}

var checks = []Check{
	{"containerd", "Is containerd there, and was all of its configuration read?", "What was not read may set another state directory or another runtime.", "Run on the node as root, or with the node's root directory mounted; give what cannot be seen by flags.", true, checkContainerd},
	{"state-symlink", "Is the directory of the bundles reached without a symbolic link?", "runsc compares the bundle's path with what the kernel opened, as strings, and refuses every Pod. It needs no hook and no GPU.", "", false, checkState},
	{"state-proof", "Does the kernel open the directory of the bundles under the same name?", "It is the very test at which runsc refuses every Pod.", "See state-symlink.", false, checkProof},
	{"tmp-symlink", "Is /tmp no symbolic link?", "runsc builds its chroot in /tmp, and refuses a link there.", "Make /tmp a directory, or a bind mount.", false, checkTmp},
	{"root-symlink", "Is containerd's root reached without a symbolic link?", "None for runsc: links to the sources of mounts are harmless.", "", false, checkRoot},
	{"versions", "Are the versions of runsc and containerd known, and known to work?", "", "", false, checkVersions},
	{"binaries", "Are the shim and runsc where containerd looks, and executable?", "No Pod of this runtime starts.", "Install it in a directory of containerd's PATH, or name it in runtime_path.", false, checkBinaries},
	{"handlers", "Does containerd see the runtimes that its configuration names, and has it those that RuntimeClasses name (--runtimeclasses-file)?", "Pods with this RuntimeClass fail: no runtime is configured for the handler.", "Put the runtimes under the plugin id of the file's version: " + oldCRI + " up to 2, " + newCRI + " from 3.", false, checkHandlers},
	{"runsc-config", "Is runsc.toml what the shim understands?", "", "", false, checkShimConfig},
	{"platform", "Can the platform of runsc work here?", "No Pod of this runtime starts, or each hangs until its time is out.", "Set platform to systrap.", false, checkPlatform},
	{"capabilities", "May containerd set OOM scores (CAP_SYS_RESOURCE)?", "The shim of runsc fails: failed to set OOM Score on shim.", "Run containerd with CAP_SYS_RESOURCE; nested in a container it has none.", false, checkCapabilities},
	{"cni", "Is there a network configuration, with its plugins and free addresses?", "No Pod with a network of its own starts.", "Look at the CNI DaemonSet's Pod on this node.", false, checkCNI},
	{"cgroup-driver", "Do the kubelet and runc agree on the cgroup driver?", "Pods fail with expected cgroupsPath, unless the kubelet asks containerd for the driver.", "Make SystemdCgroup and the kubelet's cgroupDriver the same.", false, checkCgroupDriver},
	{"logs", "What do the logs of runsc and of the node say?", "", "", true, checkLogs},
}

// Checks are all of them, in their order.
func Checks() []Check { return slices.Clone(checks) }

// Options say what is not to be found by looking.
type Options struct {
	Source
	// RunscVersion and ContainerdVersion are what they print with --version, where
	// they cannot be asked.
	RunscVersion, ContainerdVersion string
	// Logs are files and directories of the node to be classified, besides those that
	// are found.
	Logs []string
	// RuntimeClasses are those of the cluster, and an error is why they are not known.
	// Nil where they are not to be compared.
	RuntimeClasses func() ([]RuntimeClass, error)
	// Ignore are the IDs of checks to be left out.
	Ignore []string
	// Ask runs a binary with --version, by its path for this process. Nil where none
	// must be run: see [Host.MayRun].
	Ask func(ctx context.Context, binary string) (string, error)
	// Now is the time by which a log of the future is known.
	Now time.Time
}

// examination is a node that is being examined.
type examination struct {
	ctx         context.Context //nolint:containedctx // it ends with the examination
	host        Host
	options     Options
	containerds []Containerd
	unseen      error // why processes could not be seen
}

// Examine runs every check on a node. Each says something: one that says nothing is
// reported as unknown.
func Examine(ctx context.Context, host Host, o Options) (Report, error) {
	for _, id := range o.Ignore {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.ID == id }) {
			return Report{}, fmt.Errorf("%q is no check; allowed: %s", id, strings.Join(ids(), ", "))
		}
	}
	x := &examination{ctx: ctx, host: host, options: o}
	x.containerds, x.unseen = host.Containerds(o.Source)
	r := Report{Containerds: x.containerds}
	for _, c := range checks {
		if slices.Contains(o.Ignore, c.ID) || len(x.containerds) == 0 && !c.alone {
			continue
		}
		found := c.run(x)
		if len(found) == 0 {
			found = []Finding{{Severity: Unknown, Found: "the check came to no answer"}}
		}
		for _, f := range found {
			r.Findings = append(r.Findings, c.complete(f))
		}
	}
	return r, nil
}

func ids() []string {
	var all []string
	for _, c := range checks {
		all = append(all, c.ID)
	}
	return all
}

// complete gives a finding the words of its check. What is right has no consequence,
// and what is unknown has none that is known.
func (c Check) complete(f Finding) Finding {
	f.Check = c.ID
	if f.Severity == OK || f.Severity == Skipped {
		f.Consequence, f.Remedy = "", ""
		return f
	}
	if f.Consequence == "" && f.Severity != Unknown {
		f.Consequence = c.Consequence
	}
	switch {
	case f.Remedy != "":
	case f.Severity == Unknown:
		f.Remedy = "Run as root on the node, or with its root directory mounted."
	default:
		f.Remedy = c.Remedy
	}
	return f
}

// each asks a question of every containerd that has the paths of this disk.
func (x *examination) each(f func(c Containerd) []Finding) []Finding {
	var all []Finding
	for _, c := range x.here() {
		all = append(all, f(c)...)
	}
	if len(all) == 0 && len(x.containerds) > 0 {
		all = []Finding{{Severity: Unknown, Found: "no containerd has the paths of this disk", Remedy: "See containerd."}}
	}
	return all
}

// here are the containerds whose paths are those of this disk.
func (x *examination) here() []Containerd {
	return slices.DeleteFunc(slices.Clone(x.containerds), func(c Containerd) bool { return c.process != nil && c.process.Elsewhere != "" })
}

// eachRunsc asks a question of every containerd that starts gVisor.
func (x *examination) eachRunsc(f func(c Containerd) []Finding) []Finding {
	return x.each(func(c Containerd) []Finding {
		switch {
		case len(c.runsc()) > 0:
			return f(c)
		case len(c.Unread) > 0:
			return []Finding{{Severity: Unknown, Found: c.name() + ": what was read names no runsc, and not all was read", Evidence: c.Unread, Remedy: "See containerd."}}
		default:
			return []Finding{{Severity: Skipped, Found: c.name() + " has no runtime that is runsc"}}
		}
	})
}

func checkContainerd(x *examination) []Finding {
	if len(x.containerds) == 0 {
		found := Finding{Severity: Unknown, Found: "no containerd was found: no process, and no configuration where distributions have it; nothing that needs one was checked"}
		if x.unseen != nil {
			found.Evidence = []string{x.unseen.Error()}
		}
		return []Finding{found}
	}
	var all []Finding
	for _, c := range x.containerds {
		if c.process != nil && c.process.Elsewhere != "" {
			all = append(all, Finding{Severity: Unknown, Found: c.name() + " was not judged by this disk", Evidence: []string{c.process.Elsewhere}, Remedy: "Look at it by its own root directory; reading that takes root and CAP_SYS_PTRACE."})
		}
	}
	for _, c := range x.here() {
		all = append(all, x.judgeFiles(c))
	}
	return all
}

// judgeFiles says what the configuration was read from, and whether that was all.
func (x *examination) judgeFiles(c Containerd) Finding {
	var files []string
	for _, f := range c.Files {
		files = append(files, fmt.Sprintf("%s (version %d)", f.Path, f.Version))
	}
	if len(files) == 0 {
		files = []string{"no file: containerd has its defaults"}
	}
	if len(c.Unread) > 0 {
		f := Finding{Severity: Unknown, Found: c.name() + ": not all of its configuration is known", Evidence: append(slices.Clone(c.Unread), files...)}
		if x.unseen != nil {
			f.Evidence = append(f.Evidence, x.unseen.Error())
		}
		return f
	}
	return Finding{Severity: OK, Found: fmt.Sprintf("%s: state %s (%s), root %s (%s)", c.name(), c.State.Value, c.State.From, c.Root.Value, c.Root.From), Evidence: files}
}
