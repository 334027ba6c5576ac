package main

import (
	"fmt"
	"os"
)

// readRegular reads a regular file of at most so many bytes. A pipe would be waited
// for, and a device has no end.
func readRegular(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is no regular file", path)
	case info.Size() > most:
		return nil, fmt.Errorf("%s: has %d bytes; allowed: at most %d", path, info.Size(), most)
	}
	return os.ReadFile(path) //nolint:gosec // the operator's own file
}
