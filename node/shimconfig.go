package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// shimConfig is the configuration of containerd-shim-runsc-v1, runsc.toml.
type shimConfig struct {
	path   string
	table  table
	absent bool  // the handler names none, and none is where the shim looks
	err    error // why it could not be read or understood
	named  bool  // the handler names it: an error is then fatal
}

// shimConfigs are where the shim looks if ConfigPath is not set.
var shimConfigs = []string{"/run/containerd/runsc/config.toml", "/etc/containerd/runsc/config.toml"}

func (x *examination) shimConfig(h Handler) shimConfig {
	paths := shimConfigs
	s := shimConfig{named: h.ConfigPath != ""}
	if s.named {
		paths = []string{h.ConfigPath}
	}
	for _, path := range paths {
		text, err := x.host.text(path)
		if errors.Is(err, fs.ErrNotExist) && !s.named {
			continue
		}
		s.path = path
		if err == nil {
			s.table, err = parseTOML(text)
		}
		s.err = err
		return s
	}
	s.absent = true
	return s
}

// runscBinary is what the shim starts.
func (x *examination) runscBinary(h Handler) string {
	if h.BinaryName != "" {
		return h.BinaryName
	}
	if s := x.shimConfig(h); s.err == nil && s.table.text("binary_name") != "" {
		return s.table.text("binary_name")
	}
	return "runsc"
}

// platform is what runsc is configured with; empty is its default.
func (s shimConfig) platform() string { return s.table.at("runsc_config").text("platform") }

// debugLog is the directory of runsc's debug logs, or empty: the path up to the first
// component with a pattern such as %ID%.
func (s shimConfig) debugLog() string {
	path := s.table.at("runsc_config").text("debug-log")
	before, _, _ := strings.Cut(path, "%")
	if i := strings.LastIndexByte(before, '/'); i > 0 {
		return before[:i]
	}
	return ""
}

// shimKeys are the keys that the shim has at top level. It ignores all others,
// silently. (gvisor, pkg/shim/v1/runsccmd and runsc.Options.)
var shimKeys = []string{"shim_cgroup", "io_uid", "io_gid", "binary_name", "root", "log_level", "log_path", "grouping", "enable_hibernate_server", "runsc_config"}

func checkShimConfig(x *examination) []Finding {
	return x.eachRunsc(func(c Containerd) []Finding {
		var all []Finding
		for _, h := range c.runsc() {
			all = append(all, x.judge(h)...)
		}
		return all
	})
}

func (x *examination) judge(h Handler) []Finding {
	if h.BinaryName != "" {
		return []Finding{{Severity: Skipped, Found: fmt.Sprintf("runtime %s: runc's shim starts runsc, and reads no runsc.toml", h.Name)}}
	}
	s := x.shimConfig(h)
	switch {
	case s.absent && x.host.copied:
		return []Finding{{Severity: Unknown, Found: fmt.Sprintf("runtime %s: no runsc.toml; %s", h.Name, notCopied), Evidence: shimConfigs, Remedy: "Copy it, or run on the node."}}
	case s.absent:
		return []Finding{{Severity: OK, Found: fmt.Sprintf("runtime %s: no runsc.toml, runsc has its defaults", h.Name)}}
	case s.err != nil && s.named && errors.Is(s.err, fs.ErrPermission):
		return []Finding{{Severity: Unknown, Found: fmt.Sprintf("runtime %s: its runsc.toml may not be read", h.Name), Evidence: []string{s.err.Error()}}}
	case s.err != nil && s.named:
		return []Finding{{Severity: Failure, Found: fmt.Sprintf("runtime %s: its runsc.toml cannot be read", h.Name), Evidence: []string{s.path + ": " + s.err.Error()}, Consequence: "The shim fails for every Pod: decode config file.", Remedy: "Mend the file that ConfigPath names."}}
	case s.err != nil:
		return []Finding{{Severity: Warning, Found: fmt.Sprintf("runtime %s: the shim ignores %s", h.Name, s.path), Evidence: []string{s.err.Error()}, Consequence: "What it sets is not in effect.", Remedy: "Mend it, and name it in ConfigPath, so that an error is seen."}}
	}
	var all []Finding
	for _, key := range slices.Sorted(maps.Keys(s.table)) {
		if slices.Contains(shimKeys, key) {
			continue
		}
		all = append(all, Finding{Severity: Warning, Found: fmt.Sprintf("runtime %s: %s at top level of %s is ignored", h.Name, key, s.path), Evidence: []string{fmt.Sprintf("%s: %s = %s", s.path, key, shown(s.table[key]))}, Consequence: "It is not in effect, and nothing says so: with debug keys here no log is written.", Remedy: fmt.Sprintf("Put it under [runsc_config], as a string: %s = %q.", strings.ReplaceAll(key, "_", "-"), shown(s.table[key]))})
	}
	config := s.table.at("runsc_config")
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if _, ok := config[key].(string); !ok {
			all = append(all, Finding{Severity: Failure, Found: fmt.Sprintf("runtime %s: runsc_config.%s is not a string", h.Name, key), Evidence: []string{fmt.Sprintf("%s: %s = %s", s.path, key, shown(config[key]))}, Consequence: "The shim fails for every Pod: incompatible types.", Remedy: fmt.Sprintf("%s = %q", key, shown(config[key]))})
		}
	}
	if _, ok := s.table["runsc_config"]; ok && config == nil {
		all = append(all, Finding{Severity: Failure, Found: fmt.Sprintf("runtime %s: runsc_config is not a table", h.Name), Evidence: []string{s.path}, Consequence: "The shim fails for every Pod.", Remedy: "Write [runsc_config], and its keys below it."})
	}
	if len(all) == 0 {
		all = []Finding{{Severity: OK, Found: fmt.Sprintf("runtime %s: %s is understood", h.Name, s.path)}}
	}
	return all
}
