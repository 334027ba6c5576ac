package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"
)

// TestRecorded: the logs of runsc that failed have the cause, and what follows from
// it is not taken for it. (They were recorded with containerd 2.2.2.)
func TestRecorded(t *testing.T) {
	for _, version := range []string{"affected-20260519", "newest-20260905"} {
		disk := tree{"/proc/1/comm": "systemd\n"}
		files, err := filepath.Glob("testdata/runsc/" + version + "/*.log")
		if err != nil || len(files) != 4 {
			t.Fatalf("%v, %v", files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			disk["/logs/"+id+"/"+filepath.Base(file)] = string(text)
		}
		hits, notes := disk.grow(t).Logs([]string{"/logs"})
		reasons := Reasons(hits)
		if len(reasons) == 0 || len(notes) > 0 {
			t.Fatalf("%s: %v, %v", version, reasons, notes)
		}
		r := reasons[0]
		link, ok := r.LinkOf()
		if r.Class != "runsc-symlink" || filepath.Base(r.File) != "gofer.log" || r.Sandbox != id || !ok || link.String() != "/var/run -> /run" || r.Time == "" {
			t.Errorf("%s: %+v, %v", version, r, link)
		}
		if hidden := fmt.Sprint(r.Hidden); !strings.Contains(hidden, "runsc-secondary") || !strings.Contains(hidden, "runsc-boot-eof") {
			t.Errorf("%s: %s", version, hidden)
		}
		if f := r.finding(); f.Severity != Failure || !strings.Contains(fmt.Sprint(f.Evidence), "/var/run -> /run") {
			t.Errorf("%+v", f)
		}
	}
}

const symlink = `failed to safely mount: expected to open /var/run/x/rootfs, but found /run/x/rootfs`

// TestScanLog: what is broken in a log hides nothing else in it.
func TestScanLog(t *testing.T) {
	long := strings.Repeat("x", mostLine+10)
	for name, tc := range map[string]struct {
		text  string
		hits  string // class:line
		notes int
	}{
		"empty":                    {"", "", 0},
		"one":                      {symlink + "\n", "runsc-symlink:1", 0},
		"without a newline":        {"a\n" + symlink, "runsc-symlink:2", 0},
		"cut off":                  {"a\n" + symlink[:30], "", 0},
		"Windows":                  {"a\r\n" + symlink + "\r\n", "runsc-symlink:2", 0},
		"binary before":            {"\x00\x01\xff\n" + symlink + "\n", "runsc-symlink:2", 1},
		"binary in the line":       {"\x00\xff" + symlink + "\x00\n", "runsc-symlink:1", 1},
		"a long line before":       {long + "\n" + symlink + "\n", "runsc-symlink:2", 1},
		"at the begin of a long":   {symlink + long + "\n", "runsc-symlink:1", 1},
		"JSON without newlines":    {`{"msg":"` + symlink + `"}{"msg":"Error reading mounts file: error unmarshaling mounts"}`, "runsc-symlink:1 runsc-secondary:1", 0},
		"JSON that is cut off":     {`{"msg":"a"}{"msg":"` + symlink, "runsc-symlink:1", 0},
		"JSON a line":              {"{\"msg\":\"a\"}\n{\"msg\":\"" + symlink + "\"}\n", "runsc-symlink:2", 0},
		"one line of many objects": {strings.Repeat(`{"msg":"a"}`, 1000) + `{"msg":"` + symlink + `"}`, "runsc-symlink:1", 0},
	} {
		s, err := ScanLog("f", strings.NewReader(tc.text))
		var hits []string
		for _, h := range s.Hits {
			hits = append(hits, fmt.Sprintf("%s:%d", h.Class, h.Line))
		}
		if got := strings.Join(hits, " "); err != nil || got != tc.hits || len(s.Notes) != tc.notes {
			t.Errorf("%s: %s, %q, %v", name, got, s.Notes, err)
		}
	}
	broken := errors.New("disk")
	s, err := ScanLog("f", io.MultiReader(strings.NewReader(symlink+"\n"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || len(s.Hits) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = ScanLog("f", strings.NewReader(strings.Repeat(symlink+"\n", mostHits+5)))
	if err != nil || len(s.Hits) != 1 || len(s.Notes) > 0 {
		t.Errorf("%d, %v, %v", len(s.Hits), s.Notes, err)
	}
	// A container that crashes for ever does not crowd out why others do not start.
	s, err = ScanLog("f", strings.NewReader(strings.Repeat("executable file not found in $PATH\n", mostHits+5)+symlink+"\n"))
	if err != nil || len(s.Hits) != 2 || s.Hits[1].Class != "runsc-symlink" {
		t.Errorf("%d, %v", len(s.Hits), err)
	}
	var many strings.Builder
	for i := range mostHits + 5 {
		fmt.Fprintf(&many, "%064x %s\n", i, symlink)
	}
	s, err = ScanLog("f", strings.NewReader(many.String()))
	if err != nil || len(s.Hits) != mostHits || len(s.Notes) != 1 {
		t.Errorf("%d, %v, %v", len(s.Hits), s.Notes, err)
	}
}

// TestPrintable: what a container wrote into a log cannot change a terminal.
func TestPrintable(t *testing.T) {
	got := printable([]byte("a\x1b[31mb\x07\u009bc\xff\td " + strings.Repeat("x", 2*textShown)))
	if strings.ContainsAny(got, "\x1b\x07\u009b") || !utf8.ValidString(got) || !strings.HasPrefix(got, "a[31mbc?\td ") || len(got) > textShown+3 {
		t.Errorf("%q", got)
	}
}

// TestSecrets: what is evidence in a ticket gives nothing away.
func TestSecrets(t *testing.T) {
	for line, want := range map[string]string{
		`failed to pull: Authorization: Bearer abcdefgh123456.x`:                        `failed to pull: Authorization: Bearer <hidden>`,
		`get "https://robot:s3cr3t-x@registry.example/v2/": Unauthorized`:               `get "https://robot:<hidden>registry.example/v2/": Unauthorized`,
		`token eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.sig-nature is rejected`: `token <hidden> is rejected`,
		`GET /x?access_token=abc&token=abcdef&y=1 password: "hunter2"`:                  `GET /x?access_token=<hidden>&token=<hidden>&y=1 password: "<hidden>"`,
		`{\"password\":\"hunter2\"}`:                                                    `{\"password\":\"<hidden>\"}`,
		symlink:                                                                         symlink,
	} {
		if got := printable([]byte(line)); got != want {
			t.Errorf("%s\n%s", got, want)
		}
	}
	long := strings.Repeat("x", textShown-4) + " Bearer abcdefghijklmnop"
	if got := printable([]byte(long)); strings.Contains(got, "abc") {
		t.Error(got)
	}
}

// TestReasons: of each sandbox the cause is named, whichever line came first, and a
// symptom is never one.
func TestReasons(t *testing.T) {
	other := strings.Repeat("b", 64)
	hit := func(class, file, sandbox string) Hit {
		for _, s := range signatures {
			if s.Class == class {
				return Hit{Match: Match{Signature: s}, File: "/log/" + sandbox + "/" + file, Line: 1, Sandbox: sandbox}
			}
		}
		t.Fatal(class)
		return Hit{}
	}
	for name, tc := range map[string]struct {
		hits     []Hit
		want     string
		severity Severity
	}{
		"the cause is last":         {[]Hit{hit("runsc-boot-eof", "create.log", id), hit("runsc-secondary", "boot.log", id), hit("runsc-symlink", "gofer.log", id)}, "runsc-symlink 1", Failure},
		"the cause is first":        {[]Hit{hit("runsc-symlink", "gofer.log", id), hit("runsc-secondary", "boot.log", id)}, "runsc-symlink 1", Failure},
		"the gofer knows best":      {[]Hit{hit("runsc-platform", "boot.log", id), hit("runsc-hook", "gofer.log", id)}, "runsc-hook 1", Failure},
		"a symptom in its log":      {[]Hit{hit("runsc-secondary", "gofer.log", id), hit("runsc-platform", "boot.log", id)}, "runsc-platform 1", Failure},
		"two sandboxes":             {[]Hit{hit("runsc-symlink", "gofer.log", id), hit("runsc-symlink", "gofer.log", other)}, "runsc-symlink 2", Failure},
		"two causes":                {[]Hit{hit("timeout", "x.log", other), hit("runsc-symlink", "gofer.log", id)}, "runsc-symlink 1 timeout 1", Failure},
		"only what follows":         {[]Hit{hit("runsc-secondary", "boot.log", id)}, "runsc-secondary 1", Unknown},
		"only what is generic":      {[]Hit{hit("runsc-boot-eof", "create.log", id)}, "runsc-boot-eof 1", Unknown},
		"generic before a symptom":  {[]Hit{hit("runsc-secondary", "boot.log", id), hit("runsc-boot-eof", "create.log", id)}, "runsc-boot-eof 1", Unknown},
		"after the sandbox's start": {[]Hit{hit("start-not-found", "x.log", id)}, "start-not-found 1", Info},
	} {
		var got []string
		for _, r := range Reasons(tc.hits) {
			got = append(got, fmt.Sprintf("%s %d", r.Class, r.Sandboxes))
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%s: %s, want %s", name, s, tc.want)
		}
		if f := Reasons(tc.hits)[0].finding(); f.Severity != tc.severity {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestLogsCheck: logs of the node are classified wherever they are, and what could
// not be read is said.
func TestLogsCheck(t *testing.T) {
	logs := func(paths ...string) func(*Options) { return func(o *Options) { o.Logs = paths } }
	late := func(o *Options) { o.Now = o.Now.Add(-time.Hour) }
	line := "W1130 11:29:02.253699       1 util.go:107] FATAL ERROR: " + symlink + "\n"
	for name, tc := range map[string]struct {
		disk     tree
		change   func(*Options)
		severity Severity
		says     string
	}{
		"nothing":                 {nil, logs(), OK, "no signature"},
		"in the usual place":      {tree{"/var/log/runsc/" + id + "/gofer.log": line}, logs(), Failure, "gofer.log:1"},
		"where runsc.toml says":   {tree{"/etc/containerd/runsc.toml": "[runsc_config]\ndebug-log = '/data/logs/%ID%/%COMMAND%.log'\n", "/data/logs/" + id + "/gofer.log": line}, logs(), Failure, "/data/logs"},
		"of a bundle":             {tree{bundles + "/" + id + "/log.json": `{"msg":"` + symlink + `"}`}, logs(), Failure, "log.json:1"},
		"where one is told":       {tree{"/x/journal.txt": line}, logs("/x/journal.txt"), Failure, "/x/journal.txt:1"},
		"what is told is missing": {nil, logs("/x/none"), Unknown, "/x/none"},
		"a link to a log":         {tree{"/var/log/runsc/" + id + "/gofer.log": "-> /etc/passwd", "/etc/passwd": line}, logs(), Unknown, "/var/log/runsc: 1 symbolic links in it were not followed"},
		"links as of kubelet":     {tree{"/x/a.log": "-> /p/a.log", "/x/y/b.log": "-> /p/b.log", "/p/a.log": line}, logs("/x"), Unknown, "/x: 2 symbolic links"},
		"only what follows":       {tree{"/var/log/runsc/" + id + "/boot.log": "Error reading mounts file: error unmarshaling mounts\n"}, logs(), Unknown, "Read gofer.log"},
		"a log from the future":   {nil, late, Warning, "clock"},
		"no logs":                 {tree{"/var/log/runsc/" + id + "/boot.log": "absent"}, logs(), Skipped, ""},
		"too deep":                {tree{"/x/1/2/3/4/5/6/gofer.log": line}, logs("/x"), Unknown, "/x/1/2/3/4/5: more than 4"},
		"no file at all":          {tree{"/x/pipe": "pipe"}, logs("/x/pipe"), Unknown, "/x/pipe: not a regular file"},
		"binary":                  {tree{"/var/log/runsc/x": "\x00\x01\n"}, logs(), Unknown, "not text"},
	} {
		f := examine(t, healthy.with(tc.disk), tc.change).worst("logs")
		if f.Severity != tc.severity || !strings.Contains(fmt.Sprintf("%+v", f), tc.says) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestHugeLog: of a huge log the end is read.
func TestHugeLog(t *testing.T) {
	h := tree{"/log": "x"}.grow(t)
	f, err := os.OpenFile(h.Root()+"/log", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Sparse, and one line of zeros.
	if _, err := f.WriteAt([]byte("\n"+symlink+"\n"), 1<<30); err != nil {
		t.Fatal(err)
	}
	sparse := []logFile{}
	for range mostRead/mostLog + 1 {
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		sparse = append(sparse, logFile{"/log", info})
	}
	if kept, left := newest(sparse); len(kept) != mostRead/mostLog || left == nil {
		t.Errorf("%d logs are read, %v", len(kept), left)
	}
	s, err := h.scan("/log")
	if err != nil || len(s.Hits) != 1 || len(s.Notes) != 3 || !strings.Contains(s.Notes[0], "were not read") {
		t.Errorf("%+v, %v", s, err)
	}
}

// FuzzScanLog: no log breaks it, and each hit is in it.
func FuzzScanLog(f *testing.F) {
	f.Add([]byte(symlink + "\n"))
	f.Add([]byte(`{"msg":"` + symlink + `"}{"msg":`))
	f.Add([]byte("\x00\xff\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ScanLog("f", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(text, []byte("\n")) + 1
		for _, r := range Reasons(s.Hits) {
			if r.Line < 1 || r.Line > lines || !r.Known() || r.finding().Severity == OK {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// BenchmarkScanLog reads 10 MB of a debug log of runsc.
func BenchmarkScanLog(b *testing.B) {
	text, err := os.ReadFile("testdata/runsc/newest-20260905/create.log")
	if err != nil {
		b.Fatal(err)
	}
	log := bytes.Repeat(text, 10<<20/len(text)+1)[:10<<20]
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		if _, err := ScanLog("f", bytes.NewReader(log)); err != nil {
			b.Fatal(err)
		}
	}
}
