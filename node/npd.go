package node

// LogMonitor is the configuration of a system log monitor of node-problem-detector.
type LogMonitor struct {
	Plugin       string            `json:"plugin"`
	PluginConfig map[string]string `json:"pluginConfig"`
	LogPath      string            `json:"logPath"`
	Lookback     string            `json:"lookback"`
	BufferSize   int               `json:"bufferSize"`
	Source       string            `json:"source"`
	Conditions   []struct{}        `json:"conditions"`
	Rules        []LogRule         `json:"rules"`
}

// LogRule is one of its rules.
type LogRule struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Pattern string `json:"pattern"`
}

// LogRules are the causes among the signatures, as rules for the journal of
// containerd: an event on the Node for each line. node-problem-detector asks that a
// pattern reaches to the end of what it has read.
func LogRules() LogMonitor {
	m := LogMonitor{
		Plugin: "journald", PluginConfig: map[string]string{"source": "containerd"},
		LogPath: "/var/log/journal", Lookback: "5m", BufferSize: 10,
		Source: "samepod-doctor", Conditions: []struct{}{},
	}
	for _, s := range signatures {
		if s.Kind == Cause || s.Kind == Generic {
			m.Rules = append(m.Rules, LogRule{Type: "temporary", Reason: reasonOf(s.Class), Pattern: ".*(?:" + s.Pattern() + ").*"})
		}
	}
	return m
}

// reasonOf makes RunscSymlink of runsc-symlink: reasons of events are in camel case.
func reasonOf(class string) string {
	var b []byte
	upper := true
	for _, c := range []byte(class) {
		switch {
		case c == '-':
			upper = true
			continue
		case upper && c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		}
		upper = false
		b = append(b, c)
	}
	return string(b)
}
