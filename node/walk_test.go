package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestWalk: every link on the way is named, and followed inside the node's root.
func TestWalk(t *testing.T) {
	h := tree{
		"/run/containerd": "dir",
		"/var/run":        "-> /run",
		"/var/relative":   "-> ../run",
		"/var/lib/data":   "-> /mnt/disk/data",
		"/mnt/disk":       "-> disk1",
		"/mnt/disk1/data": "dir",
		"/out":            "-> /../../../../run",
		"/up":             "-> ../../../../../run",
		"/dangling":       "-> /nowhere/at/all",
		"/a":              "-> /b",
		"/b":              "-> a",
		"/self":           "-> self",
		"/file":           "x",
		"/link-to-file":   "-> file",
		"/run/back":       "-> .",
		"/var/run2":       "-> run",
	}.grow(t)
	for _, tc := range []struct {
		path, canonical string
		links           string
		missing         string
	}{
		{"/run/containerd", "/run/containerd", "[]", ""},
		{"/run//containerd/.", "/run/containerd", "[]", ""},
		{"/var/run/containerd", "/run/containerd", "[/var/run -> /run]", ""},
		{"/var/run2/containerd", "/run/containerd", "[/var/run2 -> run /var/run -> /run]", ""},
		{"/var/relative/containerd", "/run/containerd", "[/var/relative -> ../run]", ""},
		{"/var/lib/data/x", "/mnt/disk1/data/x", "[/var/lib/data -> /mnt/disk/data /mnt/disk -> disk1]", "/mnt/disk1/data/x"},
		{"/out/containerd", "/run/containerd", "[/out -> /../../../../run]", ""},
		{"/up/containerd", "/run/containerd", "[/up -> ../../../../../run]", ""},
		{"/dangling/x", "/nowhere/at/all/x", "[/dangling -> /nowhere/at/all]", "/nowhere"},
		{"/file/x", "/file/x", "[]", "/file/x"},
		{"/link-to-file", "/file", "[/link-to-file -> file]", ""},
		{"/run/back/containerd", "/run/containerd", "[/run/back -> .]", ""},
		{"/new/dir", "/new/dir", "[]", "/new"},
		{"/", "/", "[]", ""},
	} {
		w, err := h.Walk(tc.path)
		if err != nil {
			t.Errorf("%s: %v", tc.path, err)
			continue
		}
		if w.Canonical != tc.canonical || fmt.Sprint(w.Links) != tc.links || w.Missing != tc.missing || w.Straight() != (tc.links == "[]") {
			t.Errorf("%s: %+v, straight %v", tc.path, w, w.Straight())
		}
	}
	for _, path := range []string{"/a/x", "/self"} {
		if w, err := h.Walk(path); !errors.Is(err, syscall.ELOOP) || w.Straight() {
			t.Errorf("%s: %+v, %v", path, w, err)
		}
	}
	for _, path := range []string{"", "relative", "./x", "/run/\x00/x"} {
		if _, err := h.Walk(path); err == nil {
			t.Errorf("%q is a path", path)
		}
	}
}

// TestWalkIsTheKernels: on random trees of links the walk leads where the kernel
// does, and it is straight only if the kernel opens the same name.
func TestWalkIsTheKernels(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(rt *rapid.T) {
		root := t.TempDir()
		path := rapid.Map(rapid.SliceOfN(rapid.SampledFrom(append(names, "..", ".")), 1, 5), func(parts []string) string { return filepath.Join(parts...) })
		absolute := rapid.Map(rapid.SliceOfN(rapid.SampledFrom(names), 1, 4), func(parts []string) string { return "/" + filepath.Join(parts...) })
		for range rapid.IntRange(0, 8).Draw(rt, "entries") {
			at := filepath.Join(root, absolute.Draw(rt, "entry"))
			_ = os.MkdirAll(filepath.Dir(at), 0o700) // through links that are there; what fails is not there
			switch rapid.IntRange(0, 2).Draw(rt, "kind") {
			case 0:
				_ = os.Mkdir(at, 0o700)
			case 1:
				_ = os.Symlink(absolute.Draw(rt, "target"), at)
			case 2:
				_ = os.Symlink(path.Draw(rt, "target"), at)
			}
		}
		h, err := NewHost(root)
		if err != nil {
			rt.Fatal(err)
		}
		asked := absolute.Draw(rt, "path")
		walk, err := h.Walk(asked)
		fd, kernelErr := h.openPath(asked)
		switch {
		case kernelErr == nil:
			defer func() { _ = unix.Close(fd) }()
			opened, fdErr := fdPath(fd)
			if fdErr != nil || err != nil || walk.Canonical != h.onNode(opened) || walk.Missing != "" {
				rt.Fatalf("%s: %+v, %v; the kernel opens %s", asked, walk, err, opened)
			}
		case errors.Is(kernelErr, unix.ELOOP):
			if err == nil && walk.Missing == "" {
				rt.Fatalf("%s: %+v; the kernel finds a loop", asked, walk)
			}
		case errors.Is(kernelErr, unix.EAGAIN), errors.Is(kernelErr, unix.ENOSYS):
			return
		default:
			if err == nil && walk.Missing == "" {
				rt.Fatalf("%s: %+v; the kernel says %v", asked, walk, kernelErr)
			}
		}
		if err == nil && walk.Straight() != (len(walk.Links) == 0) {
			rt.Fatalf("%s: %+v", asked, walk)
		}
	})
}

// TestProof: the kernel answers what gVisor would ask, on this disk and inside a
// root of another.
func TestProof(t *testing.T) {
	h := tree{"/run/containerd": "dir", "/var/run": "-> /run"}.grow(t)
	live, err := NewHost("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		host          Host
		path          string
		asked, opened string
	}{
		{h, "/run/containerd", "/run/containerd", "/run/containerd"},
		{h, "/run/containerd/not/yet", "/run/containerd", "/run/containerd"},
		{h, "/var/run/containerd", "/var/run/containerd", "/run/containerd"},
		{h, "/var/run/containerd/not/yet", "/var/run/containerd", "/run/containerd"},
		{live, h.Root() + "/run", h.Root() + "/run", h.Root() + "/run"},
	} {
		p, err := tc.host.Prove(tc.path)
		if err != nil || p != (Proof{tc.asked, tc.opened}) || p.Holds() != (tc.asked == tc.opened) {
			t.Errorf("%s: %+v, %v", tc.path, p, err)
		}
	}
	on := h.Root() + "/direct"
	if err := os.Symlink(h.Root()+"/run", on); err != nil {
		t.Fatal(err)
	}
	if p, err := live.Prove(on + "/containerd"); err != nil || p.Holds() || p.Opened != h.Root()+"/run/containerd" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := h.Prove("relative"); err == nil || p.Holds() {
		t.Errorf("%+v", p)
	}
	if (Proof{}).Holds() {
		t.Error("nothing is proven")
	}
	if _, err := fdPath(-1); err == nil {
		t.Error("/proc knows a file that is not open")
	}
}

// TestHost: what is no regular file is not read, and nothing outside of the root is.
func TestHost(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := tree{"/dir": "dir", "/out": "-> " + secret, "/up": "-> ../../../../../../../.." + secret, "/big": string(make([]byte, mostText+1))}.grow(t)
	if err := unix.Mkfifo(filepath.Join(h.Root(), "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dir", "/pipe", "/out", "/up", "/big", "/none"} {
		if text, err := h.text(path); err == nil {
			t.Errorf("%s: %d bytes", path, len(text))
		}
	}
	for _, root := range []string{secret, secret + "/none", ""} {
		if _, err := NewHost(root); root != "" && err == nil {
			t.Errorf("%q is a root", root)
		}
	}
}

// TestCopyPlaysNode: whoever sends files makes them no node by a /proc among them; or
// the doctor would run what else they have sent.
func TestCopyPlaysNode(t *testing.T) {
	for name, disk := range map[string]tree{
		"files":           {"/proc/1/comm": "systemd\n"},
		"a link":          {"/proc": "-> /proc"},
		"a link far up":   {"/proc": "-> ../../../../../../../../../proc"},
		"a link below it": {"/proc/1": "-> /proc/1"},
		"nothing":         {"/etc": "dir"},
	} {
		h, err := NewHost(disk.grow(t).Root())
		if err != nil || h.MayRun() || !h.copied {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	if h, err := NewHost("/"); err != nil || !h.MayRun() {
		t.Errorf("%+v, %v", h, err)
	}
}
