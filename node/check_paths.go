package node

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
)

// bundles is where containerd makes the bundles of Pods: the rootfs of one is
// <state>/io.containerd.runtime.v2.task/k8s.io/<id>/rootfs.
func (c *Containerd) bundles() string {
	return filepath.Join(c.State.Value, "io.containerd.runtime.v2.task", "k8s.io")
}

// checkState follows every component of the way to a bundle.
func checkState(x *examination) []Finding {
	return x.eachRunsc(func(c Containerd) []Finding {
		walk, err := x.host.Walk(c.bundles())
		set := fmt.Sprintf("state = %q, from %s", c.State.Value, c.State.From)
		switch {
		case errors.Is(err, syscall.ELOOP):
			return []Finding{{Severity: Failure, Found: c.name() + ": the state directory leads into a loop of links", Evidence: []string{set, err.Error()}, Remedy: "Take one of the links away."}}
		case err != nil:
			return []Finding{{Severity: Unknown, Found: c.name() + ": the state directory could not be followed", Evidence: []string{set, err.Error()}}}
		case !walk.Straight():
			return []Finding{x.behindLink(c, walk, set)}
		case within(walk.Missing, c.State.Value):
			return []Finding{{Severity: Unknown, Found: fmt.Sprintf("%s: %s does not exist, so what it will be is not known", c.name(), walk.Missing), Evidence: []string{set}}}
		case x.host.copied:
			return []Finding{{Severity: Unknown, Found: c.name() + ": no link in this copy; scp and kubectl cp make directories of links", Evidence: []string{set}, Remedy: "Run on the node, or with its root directory mounted."}}
		case len(c.Unread) > 0:
			return []Finding{{Severity: Unknown, Found: c.name() + ": no link on the way, but the state directory may be another", Evidence: append([]string{set}, c.Unread...), Remedy: "See containerd."}}
		default:
			return []Finding{{Severity: OK, Found: fmt.Sprintf("%s: no link on the way to %s", c.name(), walk.Path), Evidence: []string{set}}}
		}
	})
}

// within reports whether what is missing is the directory, or on the way to it.
func within(missing, dir string) bool {
	return missing != "" && strings.HasPrefix(filepath.Clean(dir)+"/", strings.TrimSuffix(missing, "/")+"/")
}

// above reports whether a directory is a parent of another, near or far.
func above(parent, dir string) bool {
	dir = filepath.Clean(dir)
	return parent != dir && strings.HasPrefix(dir, strings.TrimSuffix(parent, "/")+"/")
}

// behindLink judges bundles behind a link by the version of runsc.
func (x *examination) behindLink(c Containerd, walk Walk, set string) Finding {
	version := worstBehindLink(x.runscReleases(c))
	f := Finding{Severity: Failure, Evidence: []string{set}}
	for _, l := range walk.Links {
		f.Evidence = append(f.Evidence, l.String())
	}
	f.Evidence = append(f.Evidence, "canonical: "+walk.Canonical, version.how)
	f.Found = fmt.Sprintf("%s: a link on the way to the bundles: %v", c.name(), walk.Links[0])
	canonical := walk.Canonical
	if state, err := x.host.Walk(c.State.Value); err == nil {
		canonical = state.Canonical
	}
	f.Remedy = remedyOfState(c.Distribution, canonical)
	if _, pod := version.BehindLink(); pod == OK {
		f.Severity = Warning
		f.Consequence = fmt.Sprintf("None with runsc %v. From release 20260520 on, runsc refuses every Pod behind a link.", version)
	} else if pod == Unknown {
		f.Consequence = "runsc refuses every Pod, in every release from 20260520 to 20260905; which one this is, is not known. It needs no hook and no GPU."
	}
	return f
}

// checkProof lets the kernel answer what [checkState] computed.
func checkProof(x *examination) []Finding {
	return x.eachRunsc(func(c Containerd) []Finding {
		proof, err := x.host.Prove(c.bundles())
		pair := fmt.Sprintf("opened %s, /proc/self/fd says %s", proof.Asked, proof.Opened)
		walk, walkErr := x.host.Walk(proof.Asked)
		switch {
		case err != nil:
			return []Finding{{Severity: Unknown, Found: c.name() + ": the kernel could not be asked", Evidence: []string{err.Error()}}}
		case walkErr != nil || walk.Canonical != proof.Opened:
			return []Finding{{Severity: Unknown, Found: fmt.Sprintf("%s: followed by hand the path leads to %q", c.name(), walk.Canonical), Evidence: []string{pair}}}
		case !proof.Holds():
			return []Finding{{Severity: Failure, Found: c.name() + ": the kernel opens another name than it was asked for", Evidence: []string{pair}}}
		case x.host.copied:
			return []Finding{{Severity: Unknown, Found: c.name() + ": of a copy nothing is proven", Evidence: []string{pair}, Remedy: "Run on the node, or with its root directory mounted."}}
		case above(proof.Asked, c.State.Value):
			return []Finding{{Severity: Unknown, Found: fmt.Sprintf("%s: only %s exists, so the rest of %s is not proven", c.name(), proof.Asked, c.State.Value), Evidence: []string{pair}}}
		default:
			return []Finding{{Severity: OK, Found: c.name() + ": the kernel opens what it is asked for", Evidence: []string{pair}}}
		}
	})
}

func checkTmp(x *examination) []Finding {
	return x.eachRunsc(func(Containerd) []Finding {
		walk, err := x.host.Walk("/tmp")
		switch {
		case err != nil:
			return []Finding{{Severity: Unknown, Found: "/tmp could not be looked at", Evidence: []string{err.Error()}}}
		case !walk.Straight():
			return []Finding{{Severity: Failure, Found: fmt.Sprintf("/tmp is a symbolic link, %v", walk.Links[0]), Evidence: []string{walk.Links[0].String(), "canonical: " + walk.Canonical}}}
		case walk.Missing != "" || x.host.copied:
			return []Finding{{Severity: Unknown, Found: "/tmp of the node is not here"}}
		default:
			return []Finding{{Severity: OK, Found: "/tmp is no link"}}
		}
	})
}

func checkRoot(x *examination) []Finding {
	return x.each(func(c Containerd) []Finding {
		walk, err := x.host.Walk(c.Root.Value)
		set := fmt.Sprintf("root = %q, from %s", c.Root.Value, c.Root.From)
		switch {
		case err != nil:
			return []Finding{{Severity: Unknown, Found: c.name() + ": the root could not be followed", Evidence: []string{set, err.Error()}}}
		case !walk.Straight():
			return []Finding{{Severity: Info, Found: fmt.Sprintf("%s: its root is behind a link, %v", c.name(), walk.Links[0]), Evidence: []string{set, "canonical: " + walk.Canonical}}}
		case x.host.copied:
			return []Finding{{Severity: Unknown, Found: c.name() + ": no link to its root in this copy"}}
		default:
			return []Finding{{Severity: OK, Found: fmt.Sprintf("%s: no link on the way to %s", c.name(), walk.Path)}}
		}
	})
}
