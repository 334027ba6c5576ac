package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// TestDockerfile reads the Dockerfile as BuildKit does, and runs the command with
// which it builds.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Warnings) > 0 {
		t.Errorf("%v", file.Warnings)
	}
	stages, _, err := instructions.Parse(file.AST, linter.New(&linter.Config{Warn: func(rule, what, _, message string, _ []parser.Range) { t.Errorf("%s: %s: %s", rule, what, message) }}))
	if err != nil {
		t.Fatal(err)
	}
	final := stages[len(stages)-1]
	var user, entrypoint string
	for _, c := range final.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.EntrypointCommand:
			entrypoint = strings.Join(c.CmdLine, " ")
		case *instructions.RunCommand, *instructions.AddCommand:
			t.Errorf("%s: the image is more than the binary", c.Name())
		}
	}
	if final.BaseName != "scratch" || user != "65532:65532" || entrypoint != "/samepod" {
		t.Errorf("from %s, user %q, entrypoint %q", final.BaseName, user, entrypoint)
	}
	runBuild(t, stages[0])
}

// runBuild runs the RUN of a stage that builds, in this checkout in place of the
// stage's directory.
func runBuild(t *testing.T, stage instructions.Stage) {
	t.Helper()
	var line string
	for _, c := range stage.Commands {
		if run, ok := c.(*instructions.RunCommand); ok && strings.Contains(run.CmdLine[0], "go build") {
			line = run.CmdLine[0]
		}
	}
	binary := filepath.Join(t.TempDir(), "samepod")
	if !strings.Contains(line, "-o /out/samepod ") {
		t.Fatalf("it builds with %q", line)
	}
	cmd := exec.Command("sh", "-c", strings.ReplaceAll(line, "/out/samepod", binary))
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH, "VERSION=v9.8.7", "REVISION=c0ffee")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(binary, "version").Output()
	if want := []string{"version:  v9.8.7", "revision: c0ffee", "dirty:    false"}; err != nil || !slices.Equal(strings.Split(string(out), "\n")[:3], want) {
		t.Errorf("the binary says %q, %v", out, err)
	}
}

// TestDockerignore: every package that the binary is made of gets into the build.
func TestDockerignore(t *testing.T) {
	text, err := os.ReadFile("Dockerfile.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "list", "-deps", "-f", `{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}`, "./cmd/samepod")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		top, _, _ := strings.Cut(strings.TrimPrefix(pkg, "github.com/samepod/samepod/"), "/")
		if !slices.Contains(strings.Split(string(text), "\n"), "!"+top) {
			t.Errorf("%s is left out", pkg)
		}
	}
}
