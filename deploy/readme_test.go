package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

// TestReadme runs the README's commands with the real helm on a real API server.
// Each line below a command must be among what it prints, and ! expects an error.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	files := ""
	for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
		info, body := block[1], block[2]
		name, isFile := strings.CutPrefix(info, "yaml file=")
		switch {
		case isFile:
			files += "-- " + name + " --\n" + body
		case info == "console":
			console(&script, body)
		case info == "sh": // make release, which release/release_test.go runs the program of
		default:
			t.Errorf("a block of %q, which nobody runs", info)
		}
	}
	c := newCluster(t)
	c.installCRDs()
	if err := c.CreateNamespace(t.Context(), "sandboxes"); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := c.Kubeconfig("admin", c.URL)
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin+"/", "helm.sh/helm/v4/cmd/helm").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "readme.txtar")
	if err := os.WriteFile(file, []byte(script.String()+files), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Files: []string{file}, Setup: func(e *testscript.Env) error {
		e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
		e.Setenv("KUBECONFIG", kubeconfig)
		e.Setenv("HOME", e.WorkDir)
		return os.Symlink(here, filepath.Join(e.WorkDir, "deploy"))
	}})
}

func console(script *strings.Builder, text string) {
	stream := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		fails, mustFail := strings.CutPrefix(command, "! ")
		switch {
		case isCommand && mustFail:
			stream = "stderr"
			fmt.Fprintf(script, "! exec sh -c '%s'\n", fails)
		case isCommand:
			stream = "stdout"
			fmt.Fprintf(script, "exec sh -c '%s'\n", command)
		case line != "" && line != "...":
			fmt.Fprintf(script, "%s '%s'\n", stream, strings.ReplaceAll(regexp.QuoteMeta(line), "'", "''"))
		}
	}
}
