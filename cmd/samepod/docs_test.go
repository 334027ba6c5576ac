package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/samepod/samepod/authz"
	"github.com/samepod/samepod/creation"
	"github.com/samepod/samepod/creation/gate"
	"github.com/samepod/samepod/envoy"
	"github.com/samepod/samepod/envoy/hazard"
	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/podsfile"
	"github.com/samepod/samepod/lab"
	"github.com/samepod/samepod/node"
)

// The documentation is executed: what is generated is compared, YAML is loaded,
// and console blocks are run and print what they say.

var update = flag.Bool("update", false, "write the generated parts of the documents")

// docs is the root of the repository; tests change directory.
var docs = func() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return dir + "/"
}()

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(docs + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocsGenerated compares the parts between <!-- generated: x --> and <!-- end -->.
func TestDocsGenerated(t *testing.T) {
	for _, tc := range []struct {
		file, part string
		want       string
	}{
		{"docs/configuration.md", "config", configTables()},
		{"docs/configuration.md", "serve", flagTable(newServe())},
		{"docs/configuration.md", "envoy", flagTable(newEnvoy().Commands()[0])},
		{"docs/configuration.md", "audit", flagTable(newAudit())},
		{"docs/configuration.md", "pin", flagTable(newPin().Commands()[0])},
		{"docs/reasons.md", "samepod", reasonTable()},
		{"docs/reasons.md", "envoy", replyTable()},
		{"docs/envoy.md", "versions", versionTable()},
		{"docs/creation.md", "gate", flagTable(newGate())},
		{"docs/creation.md", "causes", causeTable()},
		{"docs/creation.md", "decide", decideTable()},
		{"docs/envoy-check.md", "check", flagTable(newCheck())},
		{"docs/envoy-check.md", "rules", ruleTable()},
		{"docs/doctor.md", "checks", checkTable()},
		{"docs/doctor.md", "signatures", signatureTable()},
		{"docs/doctor.md", "doctor", flagTable(newDoctor())},
		{"docs/doctor.md", "explain-start", flagTable(newExplainStart())},
	} {
		text := readDoc(t, tc.file)
		begin := "<!-- generated: " + tc.part + " -->\n"
		before, rest, ok := strings.Cut(text, begin)
		got, after, ok2 := strings.Cut(rest, "<!-- end -->")
		if !ok || !ok2 {
			t.Errorf("%s has no part %s", tc.file, tc.part)
			continue
		}
		if got == tc.want {
			continue
		}
		if !*update {
			t.Errorf("%s, %s, is not what the code says; go test ./cmd/samepod -run Docs -update\n got:\n%s\nwant:\n%s", tc.file, tc.part, got, tc.want)
			continue
		}
		if err := os.WriteFile(docs+tc.file, []byte(before+begin+tc.want+"<!-- end -->"+after), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// configTables has one table for each struct of the configuration file.
func configTables() string {
	var b strings.Builder
	places := map[reflect.Type][]string{}
	var order []reflect.Type
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		if places[t] == nil {
			order = append(order, t)
		}
		places[t] = append(places[t], path)
		if len(places[t]) > 1 {
			return
		}
		for _, k := range keysOf(t) {
			if s := structOf(k.field.Type); s != nil {
				walk(s, join(path, k.name))
			}
		}
	}
	walk(reflect.TypeFor[configFile](), "")
	for _, s := range order {
		if s != order[0] {
			fmt.Fprintf(&b, "\n### %s\n\n", code(places[s]...))
		}
		b.WriteString("| key | type | default | meaning |\n|---|---|---|---|\n")
		for _, k := range keysOf(s) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.name, typeName(k.field.Type), k.field.Tag.Get("default"), escape(k.field.Tag.Get("doc")))
		}
	}
	return b.String()
}

// structOf is the struct that a field holds, directly, by pointer or as elements.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct && t != reflect.TypeFor[portsConfig]() {
		return t
	}
	return nil
}

func typeName(t reflect.Type) string {
	switch {
	case t == durationType:
		return "duration"
	case t == reflect.TypeFor[*portsConfig]():
		return "ports"
	case t.Kind() == reflect.Pointer:
		return typeName(t.Elem())
	case t.Kind() == reflect.Slice:
		return "list of " + typeName(t.Elem()) + "s"
	case t.Kind() == reflect.Map:
		return "mapping of strings"
	case t.Kind() == reflect.Struct:
		return "mapping"
	case t.Kind() == reflect.Int:
		return "whole number"
	case t.Kind() == reflect.Bool:
		return "boolean"
	}
	return "string"
}

func flagTable(cmd *cobra.Command) string {
	var b strings.Builder
	b.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name, usage := pflag.UnquoteUsage(f)
		text := "--" + f.Name
		if name != "" {
			text += " " + name
		}
		value := strings.Trim(f.DefValue, "[]")
		if value != "" {
			value = code(value)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", text, value, escape(usage))
	})
	return b.String()
}

func reasonTable() string {
	var b strings.Builder
	b.WriteString("| reason | HTTP | meaning |\n|---|---|---|\n")
	all := authz.Reasons()
	slices.SortStableFunc(all, func(a, b authz.Reason) int { return statusOrder(a) - statusOrder(b) })
	for _, r := range all {
		status := fmt.Sprint(r.Status())
		if r == authz.SamePod {
			status = "the Pod's"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r, status, r.Title())
	}
	return b.String()
}

// statusOrder is how people look for a status: the allow, then evidence, then what
// was asked wrongly, then what cannot be known.
func statusOrder(r authz.Reason) int {
	return slices.Index([]int{0, 409, 404, 403, 401, 400, 503}, r.Status())
}

func replyTable() string {
	var b strings.Builder
	b.WriteString("| reason | HTTP | forwarded | meaning | when |\n|---|---|---|---|---|\n")
	for _, r := range envoyReplies() {
		when, status, forwarded := "response flags "+r.Flags, fmt.Sprint(r.Status), "false"
		if r.Condition != "" {
			when = code(r.Condition)
		}
		if r.Status == 0 {
			status = "Envoy's, 400 or 431"
		}
		if r.MayHaveRun {
			forwarded = `"unknown"`
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Reason, status, forwarded, r.Title, when)
	}
	return b.String()
}

// envoyReplies are those of every arrangement, each once.
func envoyReplies() []envoy.Reply {
	var all []envoy.Reply
	for _, u := range []envoy.Arrangement{envoy.Both, envoy.Assert} {
		p := envoy.DefaultParams()
		p.Upstream = u
		for _, r := range p.Replies() {
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}

func versionTable() string {
	var b strings.Builder
	b.WriteString("| Envoy | resolve | assert | both | connections to Pods | tested with |\n|---|---|---|---|---|---|\n")
	for v := envoy.MinVersion; v <= envoy.MaxVersion; v++ {
		p := envoy.DefaultParams()
		p.Version = v
		assert, both, kept := "refused, unless `--accept-unasserted`", "rendered as resolve", "one request each"
		if p.Asserts() {
			assert, both = "yes", "yes"
		}
		if p.Partitions() {
			kept = "kept, apart by Pod uid"
		}
		tested := "rendering only"
		for _, full := range lab.EnvoyVersions() {
			if strings.HasPrefix(full, v.String()+".") {
				tested = full
			}
		}
		fmt.Fprintf(&b, "| %v | yes | %s | %s | %s | %s |\n", v, assert, both, kept, tested)
	}
	return b.String()
}

func causeTable() string {
	var b strings.Builder
	b.WriteString("| cause | means | look at |\n|---|---|---|\n")
	for _, c := range creation.Causes() {
		means, look := c.Advice()
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c, escape(means), escape(look))
	}
	return b.String()
}

// decideTable is how many failures decide at the default target.
func decideTable() string {
	var b strings.Builder
	b.WriteString("| Pods | a FAIL takes | a PASS takes |\n|---|---|---|\n")
	r := gate.DefaultRule()
	for _, n := range []int{10, 100, 200, 1000, r.PodsToPass(0), r.PodsToPass(1), r.PodsToPass(5)} {
		pass := "more Pods"
		if most := r.PassAt(n); most >= 0 {
			pass = fmt.Sprintf("at most %d", most)
		}
		fmt.Fprintf(&b, "| %d | %d | %s |\n", n, r.FailAt(n), pass)
	}
	return b.String()
}

func ruleTable() string {
	var b strings.Builder
	b.WriteString("| rule | severity | why | fix |\n|---|---|---|---|\n")
	for _, r := range hazard.Rules() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.ID, r.Severity, escape(r.Why), escape(r.Fix))
	}
	return b.String()
}

func checkTable() string {
	var b strings.Builder
	b.WriteString("| check | asks |\n|---|---|\n")
	for _, c := range node.Checks() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.ID, escape(c.Asks))
	}
	return b.String()
}

func signatureTable() string {
	var b strings.Builder
	b.WriteString("| class | is | means | do | seen in |\n|---|---|---|---|---|\n")
	for _, s := range node.Signatures() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Class, s.Kind, escape(s.Meaning), escape(s.Remedy), s.Source)
	}
	return b.String()
}

func code(texts ...string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = "`" + strings.ReplaceAll(s, "|", `\|`) + "`"
	}
	return strings.Join(quoted, ", ")
}

// escape makes text of a table's cell.
func escape(s string) string { return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s) }

// TestDocsReasons: every reason has its advice, once.
func TestDocsReasons(t *testing.T) {
	text := readDoc(t, "docs/reasons.md")
	headings := regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(text, -1)
	advised := map[string]int{}
	for _, h := range headings {
		for _, word := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(h[1], -1) {
			advised[word[1]]++
		}
	}
	want := map[string]bool{}
	for _, r := range authz.Reasons() {
		want[r.String()] = r != authz.SamePod
	}
	for _, r := range envoyReplies() {
		want[r.Reason] = true
	}
	for word, needed := range want {
		if n := advised[word]; needed && n != 1 || !needed && n != 0 {
			t.Errorf("%s has %d sections", word, n)
		}
		delete(advised, word)
	}
	for word := range advised {
		t.Errorf("a section about %s, which is no reason", word)
	}
	if line := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(text); line == nil || !isProblem(line[1]) {
		t.Error("the JSON example is not what samepod sends")
	}
}

// TestDocsThreats: every line of the threats names a test that there is.
func TestDocsThreats(t *testing.T) {
	there := map[string]bool{}
	err := filepath.WalkDir(docs, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".cache" {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(readDoc(t, "docs/threats.md"), -1)
	for _, row := range rows {
		if strings.HasPrefix(row, "|---") || strings.HasSuffix(row, "| shown by |") {
			continue
		}
		cells := strings.Split(strings.Trim(row, "|"), "|")
		names := regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(names) == 0 {
			t.Errorf("no test: %s", row)
		}
		for _, n := range names {
			if !there[n[1]] {
				t.Errorf("%s is no test: %s", n[1], row)
			}
		}
	}
	if len(rows) < 20 {
		t.Errorf("%d lines of threats", len(rows))
	}
}

// isProblem compares an example with a real denial, but for its decision.
func isProblem(example string) bool {
	var got, want map[string]any
	if json.Unmarshal([]byte(example), &got) != nil {
		return false
	}
	r := authz.PodReplaced
	want = map[string]any{"type": "urn:samepod:reason:" + r.String(), "title": r.Title(), "status": float64(r.Status()), "detail": r.Detail(), "reason": r.String(), "decision": got["decision"], "forwarded": false, "code": r.String(), "message": r.String() + ": " + r.Detail()}
	return reflect.DeepEqual(got, want)
}

// TestContract: what Envoy's template spells out is what the service sends.
func TestContract(t *testing.T) {
	p := envoy.DefaultParams()
	for _, s := range authz.DefaultMapping().Sources() {
		p.ClaimHeaders = append(p.ClaimHeaders, s.Header)
	}
	text, err := envoy.Bootstrap(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"%DYNAMIC_METADATA(" + authz.MetadataNamespace + ":" + authz.UpstreamKey + ")%",
		"%DYNAMIC_METADATA(" + authz.MetadataNamespace + ":" + authz.UIDKey + ")%",
		"%DYNAMIC_METADATA(" + authz.MetadataNamespace + ":" + authz.DecisionKey + ")%",
		"metadata_key: { key: " + authz.MetadataNamespace + ", path: [ { key: " + authz.UpstreamKey + " } ] }",
		`allow_expression: { regex: "^` + authz.PodUIDHeader + `$" }`,
		"- remove: " + authz.PodUIDHeader,
		"response_headers_to_remove: [ " + authz.ReasonHeader + ", " + authz.DecisionHeader + ", " + authz.PodUIDHeader + " ]",
		"header: { key: " + authz.ReasonHeader + ",",
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the bootstrap lacks %s", want)
		}
	}
	removed := regexp.MustCompile(`request_headers_to_remove: \[ (.*) \]`).FindSubmatch(text)
	for _, s := range authz.DefaultMapping().Sources() {
		if !bytes.Contains(removed[1], []byte(`"`+s.Header+`"`)) {
			t.Errorf("the claim's header %s reaches the Pod", s.Header)
		}
	}
}

// block is a fenced block of a document.
type block struct{ info, text string }

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func blocks(t *testing.T, name string) []block {
	t.Helper()
	var all []block
	for _, m := range fence.FindAllStringSubmatch(readDoc(t, name), -1) {
		all = append(all, block{m[1], m[2]})
	}
	return all
}

// TestDocsExecuted runs every block of every document, by its language.
func TestDocsExecuted(t *testing.T) {
	for _, name := range []string{"README.md", "docs/configuration.md", "docs/opensandbox.md", "docs/agent-sandbox.md", "docs/reasons.md", "docs/envoy.md", "docs/envoy-check.md", "docs/creation.md", "docs/doctor.md", "docs/operations.md", "docs/threats.md", "docs/renew.md", "CONTRIBUTING.md"} {
		var script strings.Builder
		files := ""
		for _, b := range blocks(t, name) {
			switch language, rest, _ := strings.Cut(b.info, " "); {
			case b.info == "yaml config":
				if _, err := load(t, b.text); err != nil {
					t.Errorf("%s: %v\n%s", name, err, b.text)
				}
			case b.info == "yaml pods":
				if _, err := podsfile.Parse([]byte(b.text), identity.Keep{}); err != nil {
					t.Errorf("%s: %v\n%s", name, err, b.text)
				}
			case language != "" && strings.HasPrefix(rest, "file="):
				files += "-- " + strings.TrimPrefix(rest, "file=") + " --\n" + b.text
			case b.info == "console":
				console(&script, b.text)
			case b.info == "sh":
				checkMake(t, name, b.text)
			case b.info == "yaml alerts": // read by TestOperations
			case b.info == "json", b.info == "": // compared by TestDocsReasons; a picture
			default:
				t.Errorf("%s: a block of %q, which nobody runs", name, b.info)
			}
		}
		if script.Len() > 0 {
			requireFree(t, "127.0.0.1:9191", "127.0.0.1:9192", "127.0.0.1:9193")
			runScript(t, name, script.String()+"\n"+files)
		}
	}
}

// console translates a console block: $ lines are run, the lines below them are
// what they print, with ... for what differs.
func console(script *strings.Builder, text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		background := strings.HasSuffix(command, " &")
		switch {
		case isCommand && background:
			fmt.Fprintf(script, "exec %s\nawait http://127.0.0.1:9192/readyz\n", command)
		case isCommand:
			fmt.Fprintf(script, "exec sh -c '%s'\n", command)
		default:
			fmt.Fprintf(script, "stdout '^%s$'\n", strings.NewReplacer(`\.\.\.`, ".*", "'", "''").Replace(regexp.QuoteMeta(line)))
		}
	}
}

// checkMake: make lines name targets; CI runs them.
func checkMake(t *testing.T, name, text string) {
	t.Helper()
	makefile := readDoc(t, "Makefile")
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "make" || !regexp.MustCompile(`(?m)^`+fields[1]+`:`).MatchString(makefile) {
			t.Errorf("%s: %q is no target of the Makefile", name, strings.TrimSpace(line))
		}
	}
}

// requireFree: the documents use the default ports, and must not be answered by
// somebody else's samepod.
func requireFree(t *testing.T, addresses ...string) {
	t.Helper()
	for _, a := range addresses {
		l, err := net.Listen("tcp", a)
		if err != nil {
			t.Fatalf("the documents' commands need %s: %v", a, err)
		}
		l.Close()
	}
}

func runScript(t *testing.T, name, text string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+".txtar")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Files: []string{file}, Cmds: map[string]func(*testscript.TestScript, bool, []string){
		"await": func(ts *testscript.TestScript, _ bool, args []string) {
			if err := await(args[0]); err != nil {
				ts.Fatalf("%v", err)
			}
		},
	}})
}

// await waits until a URL answers 200.
func await(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", url, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
