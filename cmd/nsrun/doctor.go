package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// doctorFlags are those of doctor.
type doctorFlags struct {
	asJSON            bool
	require, manifest string
}

func (f *doctorFlags) set() *flag.FlagSet {
	fs := newFlags("doctor")
	fs.BoolVar(&f.asJSON, "json", false, "")
	fs.StringVar(&f.require, "require", "", "")
	fs.StringVar(&f.manifest, "manifest", "", "")
	return fs
}

// question is one thing that doctor is asked about: what it is, and how to find out what of it this host lacks.
type question struct {
	what string
	ask  func(known facts.Facts) ([]plan.Note, error)
}

// doctor exits with 0 if the default policy, or what --require and --manifest ask for, can be enforced here, and with 1 if not.
func (a *app) doctor(args []string) int {
	var f doctorFlags
	fs := f.set()
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	if fs.NArg() > 0 {
		return a.fail(fmt.Errorf("doctor takes no arguments, got %q", fs.Arg(0)))
	}
	questions, err := a.questions(f)
	if err != nil {
		return a.fail(err)
	}
	known := nsrun.Probe()
	r := report{known: known, colour: a.colour()}
	for _, q := range questions {
		missing, err := q.ask(known)
		if err != nil {
			return a.fail(err)
		}
		r.what = append(r.what, q.what)
		r.missing = append(r.missing, missing...)
	}
	text := r.String()
	if f.asJSON {
		data, err := json.MarshalIndent(known, "", "  ")
		if err != nil {
			return a.fail(err)
		}
		text = printable(string(data)) + "\n"
	}
	if failed := a.print(text); failed != 0 {
		return failed
	}
	if len(r.missing) > 0 {
		return 1
	}
	return 0
}

// questions makes of the flags what is to be asked; a flag that cannot be understood is an error, with all others that cannot.
func (a *app) questions(f doctorFlags) ([]question, error) {
	var all []question
	var faults []error
	if f.require != "" {
		names, err := featureNames(f.require)
		faults = append(faults, err)
		all = append(all, question{"what --require names", func(known facts.Facts) ([]plan.Note, error) { return lacking(known, names), nil }})
	}
	home := homeDir()
	if f.manifest != "" {
		pol, err := loadManifest(f.manifest, home)
		if err == nil {
			pol, err = (&flags{}).underCeiling(pol)
		}
		faults = append(faults, err)
		all = append(all, question{"what " + f.manifest + " asks for", a.unmet(pol)})
	}
	if len(all) == 0 {
		all = append(all, question{"the default policy", a.unmet(policy.Default(home))})
	}
	return all, errors.Join(faults...)
}

func featureNames(list string) (names []facts.Name, err error) {
	var faults []error
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		if _, ok := facts.Lookup(facts.Name(word)); !ok {
			faults = append(faults, fmt.Errorf("--require %s: not a feature%s; see nsrun doctor for their names", word, facts.DidYouMean(word)))
		}
		names = append(names, facts.Name(word))
	}
	if len(names) == 0 {
		faults = append(faults, fmt.Errorf("--require %s: names no feature; see nsrun doctor for their names", list))
	}
	return names, errors.Join(faults...)
}

// lacking lists the features that are not known to be here.
func lacking(known facts.Facts, names []facts.Name) (missing []plan.Note) {
	for _, name := range names {
		if known.State(name) != facts.Yes {
			row, _ := facts.Lookup(name)
			missing = append(missing, plan.Note{Feature: string(name), Loss: row.Loss, Fix: known.Fix(name)})
		}
	}
	return missing
}

// unmet asks what of a policy the host cannot enforce, as a run of it would be told.
func (a *app) unmet(pol policy.Policy) func(facts.Facts) ([]plan.Note, error) {
	return func(known facts.Facts) ([]plan.Note, error) {
		_, err := plan.Compile(plan.Request{Policy: pol, Command: []string{"true"}, Environ: a.environ}, known)
		var lacks *plan.CompatibilityError
		if errors.As(err, &lacks) {
			return lacks.Unmet, nil
		}
		return nil, err
	}
}
