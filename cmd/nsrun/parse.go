package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// parse reads flags up to -- or the first word that is none. A flag's value follows it, as the next word or after =.
func (a *app) parse(fs *flag.FlagSet, args []string) error {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		word := args[0]
		if args = args[1:]; word == "--" {
			break
		}
		var err error
		if args, err = a.parseFlag(fs, word, args); err != nil {
			return err
		}
	}
	if err := fs.Parse(append([]string{"--"}, args...)); err != nil { // it only keeps the words
		return err
	}
	return notEmpty(fs)
}

// parseFlag reads one flag, and returns the words after it and its value.
func (a *app) parseFlag(fs *flag.FlagSet, word string, rest []string) ([]string, error) {
	written, value, given := strings.Cut(word, "=")
	name := strings.TrimPrefix(strings.TrimPrefix(written, "-"), "-")
	g := fs.Lookup(name)
	switch {
	case g == nil && (name == "h" || name == "help"):
		a.print(helpTexts()[fs.Name()])
		return nil, errHelp
	case g == nil:
		return nil, unknownFlag(fs, written, append([]string{value}, rest...))
	}
	if len(name) > 2 { // -ro is taken as --ro
		written = dashed(name)
	}
	if other, ok := g.Value.(alias); ok {
		g = fs.Lookup(other.of)
	}
	if takesNone(g.Value) {
		if line := volume(append([]string{value}, rest...)); written == "-v" && line != "" {
			return nil, fmt.Errorf("-v is for verbose; to show a path inside write %s", line)
		}
		if !given {
			value = "true"
		}
	} else if !given {
		if len(rest) == 0 {
			return nil, fmt.Errorf("%s needs a value", written)
		}
		value, rest = rest[0], rest[1:]
	}
	return rest, setFlag(fs, g, written, value)
}

// setFlag gives a flag its value. A flag that holds one value is given once: which of two counts, nobody can see.
func setFlag(fs *flag.FlagSet, g *flag.Flag, written, value string) error {
	again := false
	fs.Visit(func(before *flag.Flag) { again = again || before == g })
	if again && !repeats(g.Value) && !takesNone(g.Value) {
		return fmt.Errorf("%s is given twice, as %q and as %q; give one of them", written, g.Value, value)
	}
	err := fs.Set(g.Name, value)
	switch {
	case err == nil:
		return nil
	case takesNone(g.Value) && !mayTake(g.Value):
		return fmt.Errorf("invalid boolean value %q for %s; it takes no value", value, written)
	}
	return fmt.Errorf("invalid value %q for %s: %w", value, written, err)
}

// takesNone reports whether a flag takes no value.
func takesNone(v flag.Value) bool {
	b, ok := v.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// mayTake reports whether a flag that stands without a value takes one after =.
func mayTake(v flag.Value) bool {
	if r, ok := v.(recorder); ok {
		v = r.Value
	}
	_, ok := v.(*explainFlag)
	return ok
}

// repeats reports whether a flag may be given several times.
func repeats(v flag.Value) bool {
	if r, ok := v.(recorder); ok {
		v = r.Value
	}
	_, ok := v.(*stringList)
	return ok
}

// unknownFlag says what to type in the place of a flag that a verb does not have. values are the words that may be its value.
func unknownFlag(fs *flag.FlagSet, written string, values []string) error {
	name := strings.TrimLeft(written, "-")
	text := fmt.Sprintf("%s is not a flag of %s", written, fs.Name())
	if fs.Lookup("rw") != nil { // it has the flags of run
		if hint := foreignHint(name, values); hint != "" {
			return fmt.Errorf("%s; %s", text, hint)
		}
	}
	var known []string
	fs.VisitAll(func(g *flag.Flag) {
		if _, other := g.Value.(alias); !other || len(g.Name) > 2 {
			known = append(known, g.Name)
		}
	})
	if near, ok := policy.Nearest(name, known); ok && len(name) > 1 {
		return fmt.Errorf("%s; did you mean %s? See nsrun help %s", text, dashed(near), fs.Name())
	}
	for i := range known {
		known[i] = dashed(known[i])
	}
	list := "its flags are " + strings.Join(append(known, "--help"), ", ")
	return fmt.Errorf("%s; see nsrun help %s\n%s", text, fs.Name(), list)
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
			err = errors.Join(err, fmt.Errorf("%s: the value is empty; give one, or leave the flag out", dashed(g.Name)))
		}
	})
	return err
}

// asksHelp reports whether the arguments of a verb that runs no command ask for help.
func asksHelp(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--help") || slices.Contains(args, "-h")
}
