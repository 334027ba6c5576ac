package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/samepod/samepod/identity/sandbox"
)

// pinFlags say how it is remembered which Pod a sandbox had.
type pinFlags struct {
	keep       string
	onReplace  string
	keyFile    string
	required   bool
	containers bool
}

const (
	pinDefault     = "annotation"
	replaceDefault = "auto"
)

func (f *pinFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.keep, "pins", pinDefault, "with an engine, where it is remembered which Pod a sandbox was given: annotation (samepod.dev/pin on the sandbox, shared by replicas; in memory where writing it is forbidden), memory (a restart and other replicas forget it) or none (whatever Pod the sandbox has now)")
	flags.StringVar(&f.onReplace, "on-replace", replaceDefault, "with an engine, a new Pod in the place of a pinned one, which no pause and resume explains: deny, follow (pin the new one), or auto: deny with opensandbox, where the state is lost, and follow with agent-sandbox, whose controller builds Pods again by contract")
	flags.StringVar(&f.keyFile, "pin-key-file", "", "`file` with a key for the MAC of pins: who may write the annotation without it cannot make one. The same for every replica")
	flags.BoolVar(&f.required, "require-pin", false, "let no request through whose pin cannot be written as an annotation")
	flags.BoolVar(&f.containers, "pin-containers", false, "pin the id of the Pod's first container too: a restarted one is another")
}

// check refuses what has no effect.
func (f *pinFlags) check(set *pflag.FlagSet) error {
	if err := oneOf("pins", f.keep, "annotation", "memory", "none"); err != nil {
		return err
	}
	if err := oneOf("on-replace", f.onReplace, "auto", "deny", "follow"); err != nil {
		return err
	}
	if f.required && f.keep != "annotation" {
		return fmt.Errorf("--require-pin: --pins is %s; allowed: with --pins annotation", f.keep)
	}
	if set.Changed("pin-key-file") && f.keep != "annotation" {
		return fmt.Errorf("--pin-key-file: without effect; --pins is %s", f.keep)
	}
	if f.keep == "none" && (set.Changed("on-replace") || f.containers) {
		return errors.New("--on-replace, --pin-containers: without effect; --pins is none")
	}
	return nil
}

// unused refuses every flag where there is no engine.
func (f *pinFlags) unused() error {
	if *f != (pinFlags{keep: pinDefault, onReplace: replaceDefault}) {
		return errors.New("--pins, --on-replace, --pin-key-file, --require-pin, --pin-containers: without effect; dialect is claim, where every request says the uid")
	}
	return nil
}

// minPinKey keeps a key from being guessed.
const minPinKey = 16 // bytes

// policy reads the key, and says what the flags mean for this engine.
func (f *pinFlags) policy(e *engine) (sandbox.PinPolicy, error) {
	p := sandbox.PinPolicy{
		Enabled: f.keep != "none", Annotate: f.keep == "annotation", Required: f.required,
		Follow: f.onReplace == "follow" || f.onReplace == replaceDefault && e.follow, Containers: f.containers,
	}
	if f.keyFile == "" {
		return p, nil
	}
	key, err := readRegular(f.keyFile, 64<<10)
	if err != nil {
		return p, fmt.Errorf("--pin-key-file: %w", err)
	}
	if len(key) < minPinKey {
		return p, fmt.Errorf("--pin-key-file: %s has %d bytes; allowed: at least %d", f.keyFile, len(key), minPinKey)
	}
	p.Key = key
	return p, nil
}
