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

// flagRow is a flag of a verb.
type flagRow struct {
	names string // as help shows them, with a word for the value: "-t, --tty", "--ro PATH"
	into  any    // a *string, a *bool, or a flag.Value
	help  string
	field string // how the fields of a policy begin that it fills
}

// newFlags returns a flag set of the rows that leaves printing to us.
func newFlags(verb string, rows ...flagRow) *flag.FlagSet {
	fs := flag.NewFlagSet(verb, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	for _, row := range rows {
		for name := range strings.SplitSeq(row.names, ", ") {
			name, _, _ = strings.Cut(strings.TrimLeft(name, "-"), " ")
			switch into := row.into.(type) {
			case *string:
				fs.StringVar(into, name, *into, "")
			case *bool:
				fs.BoolVar(into, name, false, "")
			case flag.Value:
				fs.Var(into, name, "")
			}
		}
	}
	return fs
}

// flagLines are the rows for people: the names, and beside them what the flags do.
func flagLines(rows []flagRow) string {
	width := 0
	for _, row := range rows {
		width = max(width, len(row.names)+4)
	}
	var out strings.Builder
	for _, row := range rows {
		text := strings.TrimSuffix(wrap(row.help, 112-width), "\n")
		fmt.Fprintf(&out, "  %-*s%s\n", width-2, row.names, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", width)))
	}
	return out.String()
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

// parseAll is parse for a verb that takes flags alone.
func (a *app) parseAll(fs *flag.FlagSet, args []string) error {
	err := a.parse(fs, args)
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("%s takes no arguments, got %q", fs.Name(), fs.Arg(0))
	}
	return err
}

// wordFirst takes off the word before the flags, if there is one.
func wordFirst(args []string) (word string, rest []string) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return args[0], args[1:]
	}
	return "", args
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
