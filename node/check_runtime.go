package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func checkVersions(x *examination) []Finding {
	return x.eachRunsc(func(c Containerd) []Finding {
		var all []Finding
		var newest RunscVersion
		for _, runsc := range x.runscReleases(c) {
			all = append(all, judgeRunsc(runsc.RunscVersion, runsc.how))
			if runsc.OnEROFS() == Failure {
				all = append(all, Finding{Severity: Warning, Found: fmt.Sprintf("runsc %v cannot start images on EROFS", runsc), Evidence: []string{runsc.how}, Consequence: "Pods whose snapshotter gives EROFS fail: self-bind-mounting rootfs: invalid argument.", Remedy: "Use runsc 20260622 or newer."})
			}
			if runsc.Date >= newest.Date {
				newest = runsc.RunscVersion
			}
		}
		return append(all, x.judgeContainerd(c, newest))
	})
}

// judgeRunsc says what is known of a release, and what its notes may be taken to say
// and do not.
func judgeRunsc(v RunscVersion, how string) Finding {
	f := Finding{Evidence: []string{how}}
	switch bare, pod := v.BehindLink(); {
	case !v.Known():
		f.Severity, f.Found = Unknown, "the release of runsc is not known"
		f.Consequence = "Whether a link in the bundle's path is fatal cannot be told by it; take it to be."
		f.Remedy = "Give what it prints by --runsc-version, or install a release."
	case pod == Unknown:
		f.Severity, f.Found = Unknown, fmt.Sprintf("runsc %v is newer than what was tried, which ends at %d", v, runscLastTried)
		f.Consequence = "Every release from 20260520 to then fails behind a link; this one may not."
		f.Remedy = "Have no link in the bundle's path, and it makes no difference."
	case pod == Failure && bare == Failure:
		f.Severity, f.Found = Info, fmt.Sprintf("runsc %v refuses every bundle behind a link, with or without hooks", v)
		f.Consequence = "None without a link; see state-symlink."
		f.Remedy = "Have no link in the bundle's path. A newer release does not help Pods."
	case pod == Failure:
		f.Severity, f.Found = Info, fmt.Sprintf("runsc %v still refuses every Pod behind a link: its fix is for bundles without mounts, and each Pod has one", v)
		f.Consequence = "None without a link; see state-symlink."
		f.Remedy = "Have no link in the bundle's path. A newer release does not help Pods."
	default:
		f.Severity, f.Found = OK, fmt.Sprintf("runsc %v takes bundles behind links", v)
	}
	return f
}

func (x *examination) judgeContainerd(c Containerd, runsc RunscVersion) Finding {
	line, err := x.options.ContainerdVersion, error(nil)
	if line == "" {
		var path string
		if path, err = x.look(c, "containerd"); err == nil {
			line, err = x.ask(path)
		}
	}
	v := ParseContainerdVersion(line)
	evidence := []string{fmt.Sprintf("containerd %v: %q", v, line)}
	if err != nil {
		evidence = []string{err.Error()}
	}
	i := slices.IndexFunc(c.Files, func(f File) bool { return f.Version >= 3 })
	switch {
	case !v.Known() && i >= 0 && c.PID != 0:
		return Finding{Severity: OK, Found: "containerd 2.0 or newer: it runs with a configuration of version 3 or newer", Evidence: []string{c.Files[i].Path}}
	case !v.Known():
		return Finding{Severity: Unknown, Found: "the version of containerd is not known", Evidence: evidence, Consequence: "Whether it speaks the protocol of the shim, and which plugin ids it knows, cannot be told.", Remedy: "Give what it prints by --containerd-version."}
	case v.Before(1, 7) && runsc.Date >= 20260101:
		return Finding{Severity: Warning, Found: fmt.Sprintf("containerd %v is too old for the shim of runsc %v", v, runsc), Evidence: evidence, Consequence: "Pods fail: dial unix {\"version\":2,…}: invalid argument.", Remedy: "Use containerd 1.7 or newer."}
	default:
		return Finding{Severity: OK, Found: "containerd " + v.String(), Evidence: evidence}
	}
}

// shimOf is the name of the shim's binary: io.containerd.runsc.v1 is
// containerd-shim-runsc-v1.
func shimOf(h Handler) string {
	if h.RuntimePath != "" {
		return h.RuntimePath
	}
	if filepath.IsAbs(h.RuntimeType) {
		return h.RuntimeType
	}
	parts := strings.Split(h.RuntimeType, ".")
	if len(parts) < 2 {
		return "containerd-shim-" + h.RuntimeType
	}
	return "containerd-shim-" + strings.Join(parts[len(parts)-2:], "-")
}

func checkBinaries(x *examination) []Finding {
	return x.eachRunsc(func(c Containerd) []Finding {
		var all []Finding
		for _, h := range c.runsc() {
			var paths []string
			for _, name := range []string{shimOf(h), x.runscBinary(h)} {
				path, err := x.look(c, name)
				switch {
				case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotExecutable):
					all = append(all, Finding{Severity: Failure, Found: fmt.Sprintf("runtime %s: %s is missing or not executable", h.Name, name), Evidence: []string{err.Error()}})
				case err != nil:
					all = append(all, Finding{Severity: Unknown, Found: fmt.Sprintf("runtime %s: %s was not found", h.Name, name), Evidence: []string{err.Error()}, Remedy: "Run on the node, where containerd runs."})
				default:
					paths = append(paths, path)
				}
			}
			if len(paths) == 2 {
				all = append(all, x.compare(h, paths[0], paths[1]))
			}
		}
		return all
	})
}

// compare says whether the shim and runsc are of one release, as they are released.
func (x *examination) compare(h Handler, shim, runsc string) Finding {
	shimVersion, shimHow := x.versionOf(shim)
	version, how := x.versionOf(runsc)
	f := Finding{Severity: OK, Found: fmt.Sprintf("runtime %s: %s and %s", h.Name, shim, runsc), Evidence: []string{shimHow, how}}
	if shimVersion.Known() && version.Known() && shimVersion.Date != version.Date {
		f.Severity, f.Found = Warning, fmt.Sprintf("runtime %s: the shim is of %v, runsc of %v", h.Name, shimVersion, version)
		f.Consequence, f.Remedy = "They are tested together only.", "Install both of one release."
	}
	return f
}

func checkHandlers(x *examination) []Finding {
	all := x.each(func(c Containerd) []Finding {
		var all []Finding
		var names []string
		effective := map[string]bool{}
		for _, h := range c.Handlers {
			if !h.Ignored {
				effective[h.Name] = true
				names = append(names, h.Name)
			}
		}
		for _, h := range c.Handlers {
			if h.Ignored && !effective[h.Name] {
				all = append(all, Finding{Severity: Failure, Found: fmt.Sprintf("%s: the runtime %s stands where its file's version does not look", c.name(), h.Name), Evidence: []string{h.File + ": plugins." + strconv.Quote(h.Plugin) + ".containerd.runtimes." + h.Name}})
			}
		}
		switch {
		case len(all) > 0:
		case len(c.Unread) > 0:
			all = []Finding{{Severity: Unknown, Found: fmt.Sprintf("%s: runtimes %s, as far as was read", c.name(), strings.Join(names, ", ")), Evidence: c.Unread, Remedy: "See containerd."}}
		default:
			all = []Finding{{Severity: OK, Found: fmt.Sprintf("%s: runtimes %s; a RuntimeClass names one of them", c.name(), strings.Join(names, ", "))}}
		}
		return all
	})
	if x.options.RuntimeClasses != nil {
		all = append(all, x.judgeClasses()...)
	}
	return all
}

// capSysResource is CAP_SYS_RESOURCE's bit.
const capSysResource = 24

func checkCapabilities(x *examination) []Finding {
	return x.eachRunsc(func(c Containerd) []Finding {
		if c.PID == 0 {
			return []Finding{{Severity: Unknown, Found: "what containerd may do is not known: no process was seen", Remedy: "Run on the node, where containerd runs."}}
		}
		file := fmt.Sprintf("/proc/%d/status", c.PID)
		text, err := x.host.text(file)
		if err != nil {
			return []Finding{{Severity: Unknown, Found: c.name() + ": what it may do could not be read", Evidence: []string{err.Error()}}}
		}
		value, _ := statusOf(text, "CapEff:")
		bits, err := strconv.ParseUint(value, 16, 64)
		switch {
		case err != nil:
			return []Finding{{Severity: Unknown, Found: c.name() + ": its status has no CapEff", Evidence: []string{file}}}
		case bits>>capSysResource&1 == 0:
			return []Finding{{Severity: Warning, Found: c.name() + " has no CAP_SYS_RESOURCE", Evidence: []string{file + ": CapEff: " + value}}}
		default:
			return []Finding{{Severity: OK, Found: c.name() + " has CAP_SYS_RESOURCE"}}
		}
	})
}
