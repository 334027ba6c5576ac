package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Setting is a value, and where it was set.
type Setting struct {
	Value string `json:"value"`
	From  string `json:"from"`
}

// Handler is a runtime of the CRI plugin: what a RuntimeClass names.
type Handler struct {
	Name string `json:"name"`
	// From is the file and the plugin id under which it stands.
	File   string `json:"file"`
	Plugin string `json:"plugin"`
	// Ignored says that a file of this version does not look under this plugin id.
	Ignored bool `json:"ignored,omitempty"`

	RuntimeType string `json:"runtimeType"`
	RuntimePath string `json:"runtimePath,omitempty"`
	ConfigPath  string `json:"configPath,omitempty"`
	BinaryName  string `json:"binaryName,omitempty"`
	// SystemdCgroup is runc's option: "true", "false" or empty.
	SystemdCgroup string `json:"systemdCgroup,omitempty"`
}

// IsRunsc reports whether the handler starts gVisor.
func (h Handler) IsRunsc() bool {
	return strings.Contains(h.RuntimeType, "runsc") || strings.Contains(filepath.Base(h.RuntimePath), "runsc") || strings.Contains(filepath.Base(h.BinaryName), "runsc")
}

// Containerd is a containerd, as it is configured in effect: its command line over
// its file and the files that it imports, over its defaults.
type Containerd struct {
	// Distribution is who starts it so, such as k3s.
	Distribution string `json:"distribution"`
	// PID is its process, or 0 if none was seen.
	PID int `json:"pid,omitempty"`
	// Files are those that were read, each with its version.
	Files    []File    `json:"files"`
	State    Setting   `json:"state"`
	Root     Setting   `json:"root"`
	Handlers []Handler `json:"handlers"`
	CNI      CNI       `json:"cni"`
	// Unread is why the configuration may be another than this one.
	Unread []string `json:"unread,omitempty"`

	process *Process
}

// File is a file of configuration.
type File struct {
	Path    string `json:"path"`
	Version int64  `json:"version"`
}

// CNI is where the CRI plugin looks for network plugins.
type CNI struct {
	ConfDir string   `json:"confDir"`
	BinDirs []string `json:"binDirs"`
}

// name is how a containerd is told from others.
func (c *Containerd) name() string {
	name := "containerd"
	if c.PID != 0 {
		name = fmt.Sprintf("containerd %d", c.PID)
	}
	if c.Distribution != "containerd" {
		name += " of " + c.Distribution
	}
	return name
}

// runsc are the handlers that start gVisor. An ignored one starts nothing.
func (c *Containerd) runsc() []Handler {
	var all []Handler
	for _, h := range c.Handlers {
		if h.IsRunsc() && !h.Ignored {
			all = append(all, h)
		}
	}
	return all
}

const (
	oldCRI = "io.containerd.grpc.v1.cri"    // up to version 2
	newCRI = "io.containerd.cri.v1.runtime" // from version 3
)

// load reads a containerd: the file, what that imports, and its command line, in the
// way of containerd's own LoadConfig.
func (h Host) load(d distribution, process *Process) Containerd {
	c := Containerd{
		Distribution: d.name, process: process,
		State: Setting{"/run/containerd", "containerd's default"},
		Root:  Setting{"/var/lib/containerd", "containerd's default"},
		CNI:   CNI{ConfDir: "/etc/cni/net.d", BinDirs: []string{"/opt/cni/bin"}},
	}
	config := d.config
	if process != nil {
		c.PID = process.PID
		config = "/etc/containerd/config.toml"
		if path, ok := process.flag("config", "c"); ok {
			config = path
		}
	}
	h.loadFiles(&c, config)
	if c.Distribution == "dockerd" {
		h.loadDocker(&c)
	}
	if process == nil {
		c.Unread = append(c.Unread, "no process of containerd was seen, and its flags override the file; give them with --containerd-args")
		override(&c.State, d.state, "a flag of "+d.name)
		override(&c.Root, d.root, "a flag of "+d.name)
	} else {
		for _, flag := range []struct {
			name string
			to   *Setting
		}{{"state", &c.State}, {"root", &c.Root}} {
			if value, ok := process.flag(flag.name); ok {
				override(flag.to, value, "the flag --"+flag.name)
			}
		}
	}
	return c
}

func override(s *Setting, value, from string) {
	if value != "" {
		*s = Setting{value, from}
	}
}

// mostFiles bounds what is imported.
const mostFiles = 256

// loadFiles follows imports breadth first, each file once; the later one wins.
func (h Host) loadFiles(c *Containerd, config string) {
	pending, seen := []string{config}, map[string]bool{}
	for len(pending) > 0 {
		path := pending[0]
		pending = pending[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		if len(c.Files) == mostFiles {
			c.Unread = append(c.Unread, fmt.Sprintf("%s and others: more than %d files", path, mostFiles))
			return
		}
		text, err := h.text(path)
		if errors.Is(err, fs.ErrNotExist) && path == config {
			// containerd then has its defaults, which from 2.2 on import this.
			if h.copied {
				c.Unread = append(c.Unread, path+": "+notCopied)
			}
			pending = append(pending, h.imports(c, path, []string{"/etc/containerd/conf.d/*.toml"})...)
			continue
		}
		var t table
		if err == nil {
			if t, err = parseTOML(text); err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
		}
		if err != nil {
			c.Unread = append(c.Unread, err.Error())
			continue
		}
		c.merge(path, t)
		if err := h.changed(path, c.process); err != nil {
			c.Unread = append(c.Unread, err.Error())
		}
		pending = append(pending, h.imports(c, path, t.texts("imports"))...)
	}
}

func (h Host) imports(c *Containerd, parent string, patterns []string) []string {
	var all []string
	for _, p := range patterns {
		if !filepath.IsAbs(p) {
			p = filepath.Join(filepath.Dir(parent), p)
		}
		p = filepath.Clean(p)
		if !strings.Contains(p, "*") {
			all = append(all, p)
			continue
		}
		found, err := h.glob(p)
		if err != nil {
			c.Unread = append(c.Unread, "imports of "+parent+": "+err.Error())
		}
		all = append(all, found...)
	}
	return all
}

// merge puts a file over what is there. Empty values do not override.
func (c *Containerd) merge(path string, t table) {
	version, _ := t["version"].(int64)
	c.Files = append(c.Files, File{Path: path, Version: version})
	override(&c.State, t.text("state"), path)
	override(&c.Root, t.text("root"), path)
	plugins := t.at("plugins")
	for _, id := range []string{"cri", oldCRI, newCRI} {
		ignored := id != newCRI && version >= 3 || id == "cri" && version == 2
		runtimes := plugins.at(id, "containerd", "runtimes")
		for _, name := range slices.Sorted(maps.Keys(runtimes)) {
			c.addHandler(handler(path, id, name, runtimes.at(name), ignored))
		}
		if cni := plugins.at(id, "cni"); !ignored && cni != nil {
			c.CNI.ConfDir = cmp.Or(cni.text("conf_dir"), c.CNI.ConfDir)
			if dirs := cni.texts("bin_dirs"); len(dirs) > 0 {
				c.CNI.BinDirs = dirs
			} else if dir := cni.text("bin_dir"); dir != "" {
				c.CNI.BinDirs = []string{dir}
			}
		}
	}
}

func handler(path, plugin, name string, t table, ignored bool) Handler {
	options := t.at("options")
	h := Handler{
		Name: name, File: path, Plugin: plugin, Ignored: ignored,
		RuntimeType: t.text("runtime_type"), RuntimePath: t.text("runtime_path"),
		ConfigPath: options.text("ConfigPath"), BinaryName: options.text("BinaryName"),
	}
	if systemd, ok := options["SystemdCgroup"].(bool); ok {
		h.SystemdCgroup = fmt.Sprint(systemd)
	}
	return h
}

// addHandler puts a handler over one of the same name. One that is ignored replaces
// nothing and is not replaced: it is a mistake to be shown.
func (c *Containerd) addHandler(next Handler) {
	i := slices.IndexFunc(c.Handlers, func(h Handler) bool { return h.Name == next.Name && !h.Ignored && !next.Ignored })
	if i < 0 {
		c.Handlers = append(c.Handlers, next)
		return
	}
	was := c.Handlers[i]
	next.RuntimeType = cmp.Or(next.RuntimeType, was.RuntimeType)
	next.RuntimePath = cmp.Or(next.RuntimePath, was.RuntimePath)
	next.ConfigPath = cmp.Or(next.ConfigPath, was.ConfigPath)
	next.BinaryName = cmp.Or(next.BinaryName, was.BinaryName)
	next.SystemdCgroup = cmp.Or(next.SystemdCgroup, was.SystemdCgroup)
	c.Handlers[i] = next
}
