package main

import (
	"strings"
	"unicode"
)

// plain is a text of somebody else for a terminal: of one line, and without what
// moves the cursor, changes colours or turns the direction of what follows. Names of
// files, runtimes and versions come from nodes, which are not trusted to that.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, "?"))
}
