package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
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
		return notEmpty(fs)
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
	if strings.HasPrefix(text, "invalid boolean value ") {
		text = strings.TrimSuffix(text, ": parse error") + "; it takes no value"
		return errors.New(strings.Replace(text, " for -", " for --", 1))
	}
	return errors.New(strings.Replace(text, " for flag -", " for --", 1))
}

// notEmpty refuses a flag that was given and says nothing, such as --ceiling "$UNSET": leaving it out may permit more.
func notEmpty(fs *flag.FlagSet) (err error) {
	fs.Visit(func(g *flag.Flag) {
		if g.Value.String() == "" {
			err = errors.Join(err, fmt.Errorf("--%s: the value is empty; give one, or leave the flag out", g.Name))
		}
	})
	return err
}

// stringList collects a flag that may be repeated.
type stringList []string

func (w *stringList) String() string { return strings.Join(*w, " ") }

// Set takes one value.
func (w *stringList) Set(s string) error {
	if s == "" {
		return errors.New("give a value, or leave the flag out")
	}
	*w = append(*w, s)
	return nil
}

// durationFlag is a flag that is a time of at least so much.
type durationFlag struct {
	into  *time.Duration
	least time.Duration
}

func (s durationFlag) String() string {
	if s.into == nil { // package flag asks a zero value
		return ""
	}
	return s.into.String()
}

func (s durationFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("write a number and its unit, as in 500ms, 30s or 1m30s")
	case d < s.least:
		return fmt.Errorf("give at least %v", s.least)
	}
	*s.into = d
	return nil
}
