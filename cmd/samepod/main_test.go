package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"samepod": main, "kubectl-samepod": main})
}

// adminPages are what stands where an Envoy's admin interface should, by the
// variable that a script finds it under.
var adminPages = map[string]http.HandlerFunc{
	"NOTFOUND": http.NotFound,
	"HTML":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html></html>")) },
	"EMPTY":    func(http.ResponseWriter, *http.Request) {},
	"OTHER":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"configs": []}`)) },
	"REDIRECT": func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/elsewhere" { // there an end is, for whoever should follow
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}
	},
	"HUGE": func(w http.ResponseWriter, _ *http.Request) {
		for page := bytes.Repeat([]byte("[\n"), 1<<16); ; {
			if _, err := w.Write(page); err != nil {
				return
			}
		}
	},
	"CUT": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("{"))
	},
}

// TestScript runs the command lines of testdata/script, and what they print.
func TestScript(t *testing.T) {
	urls := map[string]string{}
	for name, page := range adminPages {
		s := httptest.NewServer(page)
		t.Cleanup(s.Close)
		urls[name] = s.URL
	}
	refused := httptest.NewServer(http.NotFoundHandler())
	refused.Close()
	urls["REFUSED"] = refused.URL
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: func(env *testscript.Env) error {
		for name, url := range urls {
			env.Setenv(name, url)
		}
		return nil
	}})
}
