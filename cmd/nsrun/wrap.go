package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// wrapFlags are those of run, as they are given, and how the words are printed.
type wrapFlags struct {
	flags
	given          []given
	asJSON, asNull bool
}

// given is a flag of run's and its value, as on the command line.
type given struct {
	name, value string
	alone       bool // it takes no value
}

// recorder is a flag whose values are noted in the order they are given.
type recorder struct {
	flag.Value
	name string
	into *[]given
}

// Set takes one value.
func (r recorder) Set(value string) error {
	if err := r.Value.Set(value); err != nil {
		return err
	}
	*r.into = append(*r.into, given{r.name, value, r.IsBoolFlag()})
	return nil
}

// IsBoolFlag tells package flag that the flag takes no value.
func (r recorder) IsBoolFlag() bool {
	b, ok := r.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

func (f *wrapFlags) rows() []flagRow {
	return append([]flagRow{
		{"--json", &f.asJSON, "one line, an array of strings (default); a word that is not UTF-8 is refused", ""},
		{"--null", &f.asNull, "each word ended by a NUL byte, for any words", ""},
	}, f.runRows()...)
}

func (f *wrapFlags) set() *flag.FlagSet {
	fs := newFlags("wrap", f.rows()...)
	fs.VisitAll(func(g *flag.Flag) {
		if _, other := g.Value.(alias); !other && g.Name != "json" && g.Name != "null" {
			g.Value = recorder{g.Value, g.Name, &f.given}
		}
	})
	return fs
}

// wrap prints the words by which a program runs a command as run would.
func (a *app) wrap(args []string) int {
	var f wrapFlags
	fs := f.set()
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	if f.asJSON && f.asNull {
		return a.fail(errors.New("--json and --null exclude each other; give one of them"))
	}
	if err := a.wouldRun(&f, fs); err != nil {
		return a.fail(err)
	}
	words, err := f.argv(fs.Args())
	if err != nil {
		return a.fail(err)
	}
	if f.asNull {
		return a.print(strings.Join(words, "\x00") + "\x00")
	}
	return a.printed(jsonLine(words))
}

// wouldRun refuses what run would refuse, but for what is looked at only when there is a command to start: files that are granted, and
// where the result goes.
func (a *app) wouldRun(f *wrapFlags, fs *flag.FlagSet) error {
	if _, err := resultFD(f.result); err != nil {
		return err
	}
	pol, err := f.spec(fs)
	if err == nil {
		err = f.checkAsk(pol)
	}
	if err != nil {
		return err
	}
	command := fs.Args()
	if len(command) == 0 {
		pol.Commands = ""
		command = []string{"true"} // in the place of what the caller appends
	}
	req, err := a.requestOf(&f.flags, pol, command)
	if err != nil {
		return err
	}
	if req, err = runner.Admit(req); err != nil {
		return err
	}
	_, err = runner.Compile(req)
	var lacks *plan.CompatibilityError
	if errors.As(err, &lacks) { // for the causes, and for backends that are other programs
		_, err = plan.Compile(req, probe.Full())
	}
	return err
}

// argv are the absolute path of this program and its arguments, which mean the same in every working directory.
func (f *wrapFlags) argv(command []string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if isBwrap([]string{self}) {
		return nil, fmt.Errorf("%s would be bubblewrap under its name; rename the file, or make it a symlink to one named nsrun", self)
	}
	words := []string{self, "run"}
	for _, g := range f.given {
		value, err := g.anywhere()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dashed(g.name), err)
		}
		name := dashed(g.name)
		switch {
		case !g.alone:
			words = append(words, name, value)
		case value == "true":
			words = append(words, name)
		default: // it was given as --tty=false
			words = append(words, name+"="+value)
		}
	}
	return append(append(words, "--"), command...), nil
}

// anywhere is the value with its path made absolute, as run would take it: what is shown is named without .., what is opened as it stands.
func (g given) anywhere() (string, error) {
	switch {
	case slices.Contains([]string{"ro", "rw", "force-rw", "socket", "workspace"}, g.name), slices.Contains([]string{"home", "protect"}, g.name) && strings.Contains(g.value, "/"):
		return absolute(g.value)
	case g.name == "tool":
		words := strings.Split(g.value, ",")
		for i, word := range words {
			var err error
			if words[i], err = anywhereTool(word); err != nil {
				return "", err
			}
		}
		return strings.Join(words, ","), nil
	case g.name == "mount":
		return anywhereMount(g.value)
	case g.name == "manifest", g.name == "ceiling", g.name == "audit", g.name == "ask" && strings.Contains(g.value, "/"), g.name == "seccomp" && strings.Contains(g.value, "/"),
		g.name == "result" && !strings.HasPrefix(g.value, "FD:"):
		return load.Absolute(g.value)
	}
	return g.value, nil
}

// anywhereTool leaves the name of a preset alone.
func anywhereTool(word string) (string, error) {
	if !strings.Contains(word, "/") {
		return word, nil
	}
	return absolute(word)
}

// jsonLine writes words as an array of JSON. A word that is not UTF-8 is refused: a decoder would hand on another one.
func jsonLine(words []string) (string, error) {
	for _, w := range words {
		if !utf8.ValidString(w) {
			return "", fmt.Errorf("the word %q is not UTF-8, and JSON holds nothing else; use --null", w)
		}
	}
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(words); err != nil {
		return "", err
	}
	return out.String(), nil
}
