package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// errHelp says that help was asked for and printed.
var errHelp = errors.New("help was printed")

// newFlags returns a flag set that leaves printing to us.
func newFlags(verb string) *flag.FlagSet {
	fs := flag.NewFlagSet(verb, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

// parse reads flags up to -- or the first word that is none. Its errors are ours: two dashes, and what to do.
func (a *app) parse(fs *flag.FlagSet, args []string) error {
	err := fs.Parse(args)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, flag.ErrHelp):
		a.print(helpTexts()[fs.Name()])
		return errHelp
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return fmt.Errorf("--%s is not a flag of %s; see nsrun help %s", strings.TrimPrefix(name, "-"), fs.Name(), fs.Name())
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return fmt.Errorf("--%s needs a value", strings.TrimPrefix(name, "-"))
	}
	return errors.New(strings.ReplaceAll(text, " for flag -", " for --"))
}

// words collects a flag that may be repeated.
type words []string

func (w *words) String() string     { return strings.Join(*w, " ") }
func (w *words) Set(s string) error { *w = append(*w, s); return nil }
