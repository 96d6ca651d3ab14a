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

// flagRow is a flag of a verb. Parsing, help, completion and man pages read it.
type flagRow struct {
	names string // as help shows them, with a word for the value: "-t, --tty", "--ro PATH"; the last is the name that errors use
	into  any    // a *string, a *bool, a flag.Value, or one of them as offered; a *stringList may be repeated
	help  string
	field string // how the fields of a policy begin that it fills
}

// offered is the target of a flag, and the values that completion offers for it. It checks nothing: the code that reads the value does.
type offered struct {
	into  any
	words []string
}

// target is what the row fills, and the words that completion offers for it.
func (r flagRow) target() (into any, words []string) {
	if o, ok := r.into.(offered); ok {
		return o.into, o.words
	}
	return r.into, nil
}

// all are the names without dashes, and the word for the value, if it takes one.
func (r flagRow) all() (names []string, value string) {
	for word := range strings.FieldsSeq(r.names) {
		if strings.HasPrefix(word, "-") {
			name, _, _ := strings.Cut(strings.Trim(word, "-,"), "[") // a value that need not be given
			names = append(names, name)
		} else {
			value = word
		}
	}
	return names, value
}

// flag is the name by which errors call the row.
func (r flagRow) flag() string {
	names, _ := r.all()
	return dashed(names[len(names)-1])
}

// dashed puts the dashes before a name: one before a letter, two before a word.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// alias is another name of a flag.
type alias struct {
	flag.Value
	of string
}

// newFlags returns a flag set of the rows that leaves printing to us.
func newFlags(verb string, rows ...flagRow) *flag.FlagSet {
	fs := flag.NewFlagSet(verb, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	for _, row := range rows {
		names, _ := row.all()
		name := names[len(names)-1]
		target, _ := row.target()
		switch into := target.(type) {
		case *string:
			fs.StringVar(into, name, *into, "")
		case *bool:
			fs.BoolVar(into, name, false, "")
		case flag.Value:
			fs.Var(into, name, "")
		}
		for _, other := range names[:len(names)-1] {
			fs.Var(alias{fs.Lookup(name).Value, name}, other, "")
		}
	}
	return fs
}

// flagLines are the rows for people: the names, and beside them what the flags do. Long names have a line of their own.
func flagLines(rows []flagRow) string {
	const most = 24
	width := 0
	for _, row := range rows {
		width = max(width, min(most, len(row.names))+4)
	}
	indent := "\n" + strings.Repeat(" ", width)
	var out strings.Builder
	for _, row := range rows {
		text := strings.ReplaceAll(strings.TrimSuffix(wrap(row.help, 112-width), "\n"), "\n", indent)
		if len(row.names) > most {
			text = indent + text
		}
		fmt.Fprintf(&out, "  %-*s%s\n", width-2, row.names, text)
	}
	return out.String()
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
	case err != nil && text != "" && strings.Trim(text, "0123456789") == "":
		return fmt.Errorf("say in what unit: %[1]ss for seconds, %[1]sm for minutes", text)
	case err != nil:
		return errors.New("write a number and its unit, as in 500ms, 30s or 1m30s")
	case d < s.least:
		return fmt.Errorf("give at least %v", s.least)
	}
	*s.into = d
	return nil
}
