package node

import (
	"strings"
	"testing"
)

// FuzzConfiguration: no file of containerd or of the shim breaks the doctor, and none
// makes a link on the way to the bundles right.
func FuzzConfiguration(f *testing.F) {
	f.Add(config3, "[runsc_config]\nplatform = 'kvm'\n")
	f.Add(handlers2, "debug = true\n")
	f.Add("imports = ['*', '/etc/containerd/config.toml', '']\nstate = '/var/run/x'\n"+config3, "")
	f.Add("version = 99999999999999999999", "runsc_config = []")
	f.Add("[plugins.cri.containerd.runtimes]\nx = 1\n", "\x00")
	h := healthy.grow(f)
	f.Fuzz(func(t *testing.T, config, shim string) {
		c := Containerd{State: Setting{Value: "/run/containerd"}}
		if parsed, err := parseTOML([]byte(config)); err == nil {
			c.merge("/etc/containerd/config.toml", parsed)
		} else {
			c.Unread = append(c.Unread, err.Error())
		}
		x := &examination{ctx: t.Context(), host: h, containerds: []Containerd{c}}
		for _, found := range checkState(x) {
			behind := strings.HasPrefix(c.State.Value, "/var/run/") && !strings.Contains(c.State.Value, "..")
			if found.Severity == OK && (behind || len(c.Unread) > 0) {
				t.Fatalf("%+v", found)
			}
		}
		s := shimConfig{path: "/x"}
		s.table, s.err = parseTOML([]byte(shim))
		_, _ = s.platform(), s.debugLog()
	})
}

// FuzzVersions: what is no release is not known, whatever it says.
func FuzzVersions(f *testing.F) {
	for _, text := range []string{"runsc version release-20260520.0-34-gabc", "0.0~20221219.0", "VERSION_MISSING", "containerd x v2.2.2 y"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := ParseRunscVersion(text)
		if v.Known() && !strings.Contains(text, v.String()) {
			t.Fatalf("%q is %v", text, v)
		}
		if _, pod := v.BehindLink(); pod == OK && v.Date >= 20260520 || !v.Known() && pod != Unknown {
			t.Fatalf("%q: %v behind a link", text, pod)
		}
		if c := ParseContainerdVersion(text); c.Known() && !strings.Contains(text, ".") {
			t.Fatalf("%q is %v", text, c)
		}
	})
}

// FuzzExplain: what is no Pod is an error, and no Pod without its sandbox has a cause
// that nobody said.
func FuzzExplain(f *testing.F) {
	f.Add("kind: Pod\nmetadata: {namespace: ns, name: p, uid: u}\n", "kind: EventList\nitems: [{reason: FailedCreatePodSandBox, message: "+symlink[:20]+"}]\n")
	f.Add(`{"kind":"List","items":[{"kind":"Pod"}]}`, "")
	f.Add("a: &a [*a]", "kind: Event\nfirstTimestamp: x\n")
	f.Fuzz(func(t *testing.T, podText, eventText string) {
		pods, err := ParsePods([]byte(podText))
		if err != nil && len(pods) > 0 {
			t.Fatal("Pods and an error")
		}
		events, _ := ParseEvents([]byte(eventText))
		for _, p := range pods {
			a := Explain(p, events, nil)
			if a.Cause != UnknownClass && len(a.Evidence) == 0 || a.Remedy == "" || a.Stage == "" {
				t.Fatalf("%+v", a)
			}
		}
	})
}
