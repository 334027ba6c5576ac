package node

import (
	"fmt"
	"regexp"
	"strconv"
)

// RunscVersion is a release of runsc. The zero value is one that is not known.
type RunscVersion struct {
	// Date is that of the release, as a number: 20260520.
	Date int
	// Text is what runsc said.
	Text string
}

var runscRelease = regexp.MustCompile(`\brelease-(\d{8})\.\d+(?:-\d+-g[0-9a-f]+)?|\b0\.0~(\d{8})\.\d+`)

// ParseRunscVersion reads what runsc --version prints: release-20260520.0, with
// -34-gHASH behind it for commits after it, or Debian's 0.0~20221219.0. A build that
// says VERSION_MISSING, and anything else, is not known.
func ParseRunscVersion(text string) RunscVersion {
	v := RunscVersion{Text: text}
	m := runscRelease.FindStringSubmatch(text)
	if m == nil {
		return v
	}
	date, err := strconv.Atoi(m[1] + m[2])
	if err != nil || date < 20180501 || date%10000 < 101 || date%10000 > 1231 || date%100 == 0 || date%100 > 31 {
		return v
	}
	v.Date = date
	return v
}

// Known reports whether the version is known.
func (v RunscVersion) Known() bool { return v.Date != 0 }

// String is the release, or that it is not known.
func (v RunscVersion) String() string {
	if !v.Known() {
		return "unknown"
	}
	return strconv.Itoa(v.Date)
}

// The releases of runsc at which what it does with links changes. (gvisor, pull
// request 13034; commit a7d0e52f; pull request 13530. Tried up to 20260905.)
const (
	runscMountsOnItself = 20260520 // SafeMount on the root file system
	runscPartlyMended   = 20260525 // its root no more, its bind mounts still
	runscTakesEROFS     = 20260622
	runscLastTried      = 20260905
)

// Verdict is what is known of something: [OK], [Failure] or [Unknown].
type Verdict = Severity

// BehindLink is what happens to a bundle behind a symbolic link: to one without a
// bind mount, and to one with, as every Pod's has.
func (v RunscVersion) BehindLink() (bare, pod Verdict) {
	switch {
	case !v.Known() || v.Date > runscLastTried:
		return Unknown, Unknown
	case v.Date < runscMountsOnItself:
		return OK, OK
	case v.Date < runscPartlyMended:
		return Failure, Failure
	default:
		return OK, Failure
	}
}

// OnEROFS is what happens to a root file system that is EROFS.
func (v RunscVersion) OnEROFS() Verdict {
	switch {
	case !v.Known() || v.Date > runscLastTried:
		return Unknown
	case v.Date >= runscMountsOnItself && v.Date < runscTakesEROFS:
		return Failure
	default:
		return OK
	}
}

// ContainerdVersion is a version of containerd. The zero value is not known.
type ContainerdVersion struct{ Major, Minor, Patch int }

var containerdRelease = regexp.MustCompile(`(?:^|[\sv/])v?(\d{1,3})\.(\d{1,3})\.(\d{1,4})(?:\s|$|[-+~])`)

// ParseContainerdVersion reads what containerd --version prints, such as
// containerd github.com/containerd/containerd/v2 v2.2.2 <commit>.
func ParseContainerdVersion(text string) ContainerdVersion {
	m := containerdRelease.FindStringSubmatch(text)
	if m == nil {
		return ContainerdVersion{}
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(m[i+1]) // digits, few
	}
	return ContainerdVersion{n[0], n[1], n[2]}
}

// Known reports whether the version is known.
func (v ContainerdVersion) Known() bool { return v != ContainerdVersion{} }

// Before reports whether v is older than major.minor. What is not known is not.
func (v ContainerdVersion) Before(major, minor int) bool {
	return v.Known() && (v.Major < major || v.Major == major && v.Minor < minor)
}

// String is 2.2.2, or that it is not known.
func (v ContainerdVersion) String() string {
	if !v.Known() {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}
