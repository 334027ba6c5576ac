package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
)

const dockerConfig = "/etc/docker/daemon.json"

// loadDocker adds the runtimes that dockerd has of its own: those are not in the
// configuration of the containerd that it manages.
func (h Host) loadDocker(c *Containerd) {
	text, err := h.text(dockerConfig)
	if errors.Is(err, fs.ErrNotExist) && !h.copied {
		return
	}
	var daemon struct {
		Runtimes map[string]struct {
			Path        string `json:"path"`
			RuntimeType string `json:"runtimeType"`
			Options     struct {
				ConfigPath string `json:"ConfigPath"`
			} `json:"options"`
		} `json:"runtimes"`
	}
	if err == nil {
		if err = json.Unmarshal(text, &daemon); err != nil {
			err = fmt.Errorf("%s: %w", dockerConfig, err)
		}
	}
	if err != nil {
		c.Unread = append(c.Unread, err.Error())
		return
	}
	for _, name := range slices.Sorted(maps.Keys(daemon.Runtimes)) {
		r := daemon.Runtimes[name]
		next := Handler{Name: name, File: dockerConfig, Plugin: "runtimes", RuntimeType: r.RuntimeType, ConfigPath: r.Options.ConfigPath}
		if r.Path != "" {
			next.RuntimeType, next.BinaryName = "io.containerd.runc.v2", r.Path // runc's shim starts it
		}
		c.addHandler(next)
	}
}
