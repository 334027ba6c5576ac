package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// chart packages the chart with the version of the release, which is also that of
// the image that it runs.
func (r *release) chart() error {
	dir := filepath.Join(r.commit.dir, "deploy", "helm", "samepod")
	var files []file
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error { // in the order of names
		if err != nil || d.IsDir() || strings.HasPrefix(path, "ci/") || path == ".helmignore" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		if path == "Chart.yaml" {
			text = r.stampChart(text)
		}
		files = append(files, file{"samepod/" + path, 0o644, text})
		return err
	})
	if err != nil {
		return err
	}
	text, err := tarOf(files, r.commit.time)
	if err != nil {
		return err
	}
	return writeGzip(filepath.Join(r.out, fmt.Sprintf("samepod-chart-%s.tgz", strings.TrimPrefix(r.version, "v"))), text)
}

var (
	chartVersion = regexp.MustCompile(`(?m)^version: .*$`)
	appVersion   = regexp.MustCompile(`(?m)^appVersion: .*$`)
)

func (r *release) stampChart(text []byte) []byte {
	text = chartVersion.ReplaceAll(text, []byte("version: "+strings.TrimPrefix(r.version, "v")))
	return appVersion.ReplaceAll(text, []byte("appVersion: "+r.version))
}
