package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// file is one of an archive.
type file struct {
	name string
	mode int64
	text []byte
}

// archive writes the tarball of one platform.
func (r *release) archive(p platform, binary string) error {
	dir := "samepod-" + r.version + "-" + p.String() + "/"
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	files := []file{{dir + "samepod", 0o755, text}}
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		text, err := os.ReadFile(filepath.Join(r.commit.dir, name))
		if errors.Is(err, fs.ErrNotExist) && name == "LICENSE" {
			continue
		}
		if err != nil {
			return err
		}
		files = append(files, file{dir + name, 0o644, text})
	}
	tarball, err := tarOf(files, r.commit.time)
	if err != nil {
		return err
	}
	return writeGzip(r.path("-"+p.String()+".tar.gz"), tarball)
}

// tarOf makes a tarball in which nothing but the files and one time stands.
func tarOf(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: at, Format: tar.FormatPAX, Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func writeGzip(path string, text []byte) error {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
