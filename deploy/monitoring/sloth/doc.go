// Package sloth makes ../rules.yaml of ../slo.yaml, and tests that it is that.
//
// It is a module of its own: sloth needs another version of Prometheus than the one
// that the rules are tested with.
package sloth
