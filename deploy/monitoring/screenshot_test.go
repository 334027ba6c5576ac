package monitoring

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/samepod/samepod/creation"
)

var update = flag.Bool("update", false, "write docs/images/creation.png, which takes uPlot in .cache/uplot, Chromium, and 4 minutes")

// TestScreenshot writes the picture in docs/creation.md: Chromium opens a page that
// draws every panel of the dashboard from what a real Prometheus has scraped of the
// product's own metrics. It is no part of CI, and no proof of what Grafana draws.
func TestScreenshot(t *testing.T) {
	if !*update {
		t.Skip("make screenshot")
	}
	const shown, mostBytes = 3 * time.Minute, 200_000
	prom, err := url.Parse(startPrometheus(t, startMetrics(t, badUpgrade)))
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	time.Sleep(shown)

	drawn := make(chan string, 1)
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir("testdata/screenshot")))
	mux.Handle("/uplot/", http.StripPrefix("/uplot", http.FileServer(http.Dir("../../.cache/uplot/node_modules/uplot/dist"))))
	mux.HandleFunc("/dashboard.json", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "dashboard.json") })
	mux.Handle("/api/", httputil.NewSingleHostReverseProxy(prom))
	mux.HandleFunc("/drawn", func(_ http.ResponseWriter, r *http.Request) { drawn <- r.FormValue("empty") })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	shot := filepath.Join(t.TempDir(), "creation.png")
	page := fmt.Sprintf("%s/?from=%d&to=%d", server.URL, from.Unix(), from.Add(shown).Unix())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// Chromium has no sandbox where it runs as root; it opens our own page only.
	out, err := exec.CommandContext(ctx, "chromium-headless-shell", "--no-sandbox", "--hide-scrollbars", "--window-size=1200,1110",
		"--virtual-time-budget=30000", "--screenshot="+shot, page).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	select {
	case empty := <-drawn:
		if empty != "" {
			t.Fatalf("nothing to draw: %s", empty)
		}
	default:
		t.Fatalf("the page was not finished\n%s", out)
	}
	picture, err := os.ReadFile(shot)
	if err != nil || !bytes.HasPrefix(picture, []byte("\x89PNG")) || len(picture) > mostBytes {
		t.Fatalf("%d bytes, %v", len(picture), err)
	}
	if err := os.WriteFile("../../docs/images/creation.png", picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

// badUpgrade is a fleet that has few failures, until a fifth of its nodes get a runtime
// with which one sandbox of twenty fails; a minute later they get the old one again.
func badUpgrade(i int) creation.Outcome {
	const minute = 3000 // outcomes
	took := []int{1, 1, 1, 2, 2, 2, 2, 3, 3, 5, 8}[i%11]
	o := creation.Outcome{Generation: 1, Result: creation.Good, RuntimeClass: "gvisor", NodeVersion: "containerd://2.2.1", Took: time.Duration(took) * time.Second}
	upgraded := i > minute && i < 2*minute && i%5 == 0
	if upgraded {
		o.NodeVersion = "containerd://2.2.2"
	}
	switch {
	case upgraded && i%100 == 0:
		o.Result, o.Cause = creation.Bad, creation.BootEOF
	case i%1500 == 1001:
		o.Result, o.Cause = creation.Bad, creation.CNIExhausted
	case upgraded && i%250 == 5:
		o.Result, o.Took = creation.Recovered, 90*time.Second
	case i%60 == 1:
		o.Result, o.Exclusion = creation.Excluded, creation.DeletedEarly
	case i%400 == 2:
		o.Result, o.Exclusion = creation.Excluded, creation.NodeDown
	case i%300 == 3:
		o.Generation = 2
	case i%900 == 4:
		o.Skewed = true
	}
	return o
}
