package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// The variables that switch nsrun from outside. They are read here alone.
const (
	envSandbox  = "NSRUN_SANDBOX"  // 0, off, no or false: run without a sandbox
	envFallback = "NSRUN_FALLBACK" // strict or degrade, over the manifest's word
	envRequire  = "NSRUN_REQUIRE"  // guarantees, beside those of the manifest
)

// switchedOff reports whether the caller's environment asks for no sandbox at all.
func switchedOff() (bool, error) {
	switch value := os.Getenv(envSandbox); strings.ToLower(value) {
	case "", "1", "on", "yes", "true":
		return false, nil
	case "0", "off", "no", "false":
		return true, nil
	default:
		return false, fmt.Errorf("%s=%s: write 0, off, no or false to run without a sandbox, or unset it", envSandbox, value)
	}
}

// switches applies flags and variables on backends and guarantees. Flags are over variables, and those over the manifest, but for what is
// required: that adds up.
func (f *flags) switches(pol policy.Policy) (policy.Policy, error) {
	var faults []error
	if env := os.Getenv(envFallback); env != "" {
		pol.Fallback = policy.Fallback(env)
		if !slices.Contains(policy.Fallbacks, pol.Fallback) {
			faults = append(faults, fmt.Errorf("%s=%s: write strict or degrade", envFallback, env))
		}
	}
	if f.fallback != "" {
		pol.Fallback = policy.Fallback(f.fallback)
	}
	if f.backend != "" {
		pol.Backend = policy.Backend(f.backend)
	}
	if f.isolation != "" {
		pol.Isolation = policy.Isolation(f.isolation)
	}
	pol.SelfTest = pol.SelfTest || f.selfTest
	if f.explain != "" {
		pol.Explain = policy.Explain(f.explain)
	}
	for _, from := range []struct{ name, words string }{{envRequire, os.Getenv(envRequire)}, {"--require", strings.Join(f.require, ",")}} {
		names := listed(from.words)
		if len(names) == 0 {
			continue
		}
		if err := (policy.Policy{Require: names}).Validate(); err != nil {
			faults = append(faults, renamed(err, func(*policy.Fault) string { return from.name }))
			continue
		}
		pol = pol.Requiring(names...)
	}
	off, err := switchedOff()
	if err != nil {
		faults = append(faults, err)
	}
	if off {
		pol = withoutSandbox(pol)
	}
	return pol, errors.Join(faults...)
}

// switchNote is the feature of the note that tells of it.
const switchNote = "switch"

// withoutSandbox is the policy of a caller who has switched the sandbox off.
func withoutSandbox(pol policy.Policy) policy.Policy {
	pol.Isolation, pol.Backend, pol.SelfTest = policy.Permissive, policy.BackendNone, false
	pol.Notes = append(slices.Clip(pol.Notes), policy.Note{Feature: switchNote,
		Loss: fmt.Sprintf("the sandbox is switched off by %s=%s", envSandbox, os.Getenv(envSandbox)), Fix: "unset it"})
	return pol
}

// listed splits a list of words, separated by commas or blanks, each once.
func listed(words string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(words, func(r rune) bool { return r == ',' || r == ' ' }) {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// ownDir starts a command without a sandbox where the caller stands, unless something else was asked for.
func (f *flags) ownDir(pol policy.Policy) policy.Policy {
	if !pol.Bare() || f.chdir != "" || f.workspace != "" || f.manifest != "" && pol.Dir != "/" {
		return pol
	}
	pol.Notes = slices.DeleteFunc(slices.Clone(pol.Notes), func(n policy.Note) bool { return n.Feature == "working directory" })
	if cwd, err := os.Getwd(); err == nil {
		pol.Dir = cwd
	}
	return pol
}
