package lab

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedServer: what docs/opensandbox.md says of the server's configuration is
// what the real server is started with in TestOpenSandbox.
func TestDocumentedServer(t *testing.T) {
	text, err := os.ReadFile("../docs/opensandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```toml file=server.toml\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("the page has no server.toml")
	}
	started := settings(OpenSandboxConfig{Gateway: "gateway.example.org", ProxyThroughGateway: true}.toml(1, "", ""))
	for key, value := range settings(string(block[1])) {
		if started[key] != value {
			t.Errorf("%s = %s, the server was started with %q", key, value, started[key])
		}
	}
}

// settings are the values of a TOML file without arrays, by table and key.
func settings(text string) map[string]string {
	all, table := map[string]string{}, ""
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "[") {
			table = line
		} else if key, value, ok := strings.Cut(line, "="); ok {
			all[table+strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return all
}
