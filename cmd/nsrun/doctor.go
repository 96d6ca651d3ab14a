package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// doctorFlags are those of doctor.
type doctorFlags struct {
	asJSON, selfTest  bool
	all, apparmor     bool
	require, manifest string
}

func (f *doctorFlags) rows() []flagRow {
	return []flagRow{
		{"--all", &f.all, "each feature: here or not, since which kernel, what was found, what is lost, what to do; and the same for each backend", ""},
		{"--json", &f.asJSON, "the facts as JSON, for nsrun plan --facts; the exit code is the same", ""},
		{"--require LIST", &f.require, "ask for these features of the host, or guarantees of a sandbox, instead; separated by commas", ""},
		{"--self-test", &f.selfTest, "start a sandbox of the default policy that tries what must fail, whatever else is asked", ""},
		{"--manifest FILE", &f.manifest, "ask for what this manifest needs instead, under the operator's ceiling", ""},
		{"--apparmor-profile", &f.apparmor, "print an AppArmor profile that lets this executable make user namespaces, for Ubuntu from 23.10 on; " +
			"apparmor_parser -r loads it. Refused where others than root can replace the executable: they would have the exemption", ""},
	}
}

// doctorJSON are the facts, and the answer to what was asked.
type doctorJSON struct {
	facts.Facts
	Enforceable bool        `json:"enforceable"`
	Missing     []plan.Note `json:"missing,omitempty"`
}

// question is one thing that doctor is asked about: what it is, and how to find out what of it this host lacks.
type question struct {
	what string
	ask  func(known facts.Facts) ([]plan.Note, error)
}

// doctor exits with 0 if the default policy, or what --require and --manifest ask for, can be enforced here, and with 1 if not.
func (a *app) doctor(args []string) int {
	var f doctorFlags
	fs := newFlags("doctor", f.rows()...)
	if err := a.parseAll(fs, args); err != nil {
		return a.fail(err)
	}
	questions, err := a.questions(f)
	if err != nil {
		return a.fail(err)
	}
	known := probe.Full()
	if f.apparmor {
		return a.printed(known.Program.AppArmorProfile())
	}
	r := report{known: known, colour: a.colour(), all: f.all}
	for _, q := range questions {
		missing, err := q.ask(known)
		if err != nil {
			return a.fail(err)
		}
		r.what = append(r.what, q.what)
		r.missing = append(r.missing, missing...)
	}
	if len(r.missing) == 0 && (f.selfTest || f.require == "" && f.manifest == "") || f.selfTest {
		r.tested, r.missing = a.selfTest(r.missing)
	}
	degraded := runner.DefaultPolicy()
	degraded.Fallback = policy.Degrade
	r.backends = a.backends(known)
	r.degrade, _ = a.backendFor(degraded, known)
	text := r.String()
	if f.asJSON {
		if text, err = indented(doctorJSON{known, len(r.missing) == 0, r.missing}); err != nil {
			return a.fail(err)
		}
		text = printable(text)
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
		names, guarantees, err := featureNames(f.require)
		faults = append(faults, err)
		all = append(all, question{"what --require names", func(known facts.Facts) ([]plan.Note, error) {
			missing := lacking(known, names)
			if len(guarantees) == 0 {
				return missing, nil
			}
			more, err := a.unmet(runner.DefaultPolicy().Requiring(guarantees...))(known)
			return append(missing, more...), err
		}})
	}
	if f.manifest != "" {
		pol, err := load.Spec(f.manifest)
		if err == nil {
			pol, err = (&flags{}).normalize(pol)
		}
		faults = append(faults, err)
		all = append(all, question{"what " + f.manifest + " asks for", a.unmet(pol)})
	}
	if len(all) == 0 {
		all = append(all, question{"the default policy", a.unmet(runner.DefaultPolicy())})
	}
	return all, errors.Join(faults...)
}

// featureNames splits a list into features of the host and guarantees of a sandbox. What is both is the feature.
func featureNames(list string) (names []facts.Name, guarantees []string, err error) {
	var faults []error
	for _, word := range listed(list) {
		_, feature := facts.Lookup(facts.Name(word))
		switch {
		case feature:
			names = append(names, facts.Name(word))
		case slices.Contains(policy.Guarantees[:], word):
			guarantees = append(guarantees, word)
		default:
			faults = append(faults, fmt.Errorf("--require %s: not a feature%s; see nsrun doctor for their names, or nsrun status for guarantees",
				word, didYouMean(word)))
		}
	}
	if len(names)+len(guarantees)+len(faults) == 0 {
		faults = append(faults, fmt.Errorf("--require %s: names no feature; see nsrun doctor for their names", list))
	}
	return names, guarantees, errors.Join(faults...)
}

// lacking lists the features that are not known to be here.
func lacking(known facts.Facts, names []facts.Name) (missing []plan.Note) {
	for _, name := range names {
		if known.State(name) != facts.Yes {
			row, _ := facts.Lookup(name)
			missing = append(missing, plan.Note{Feature: string(name), Loss: row.Loss, Found: known.Answers[name].Detail, Fix: known.Fix(name)})
		}
	}
	return missing
}

// unmet asks what of a policy the host cannot enforce, as a run of it would be told.
func (a *app) unmet(pol policy.Policy) func(facts.Facts) ([]plan.Note, error) {
	return func(known facts.Facts) ([]plan.Note, error) {
		_, err := a.compile(pol, known)
		var lacks *plan.CompatibilityError
		if errors.As(err, &lacks) {
			return lacks.Unmet, nil
		}
		return nil, err
	}
}

// selfTest starts a sandbox of the default policy whose self-test is on, and returns what it tried, or why it is missing.
func (a *app) selfTest(missing []plan.Note) ([]plan.Act, []plan.Note) {
	fail := func(err error) ([]plan.Act, []plan.Note) {
		return nil, append(missing, plan.Note{Feature: "self-test", Loss: err.Error(), Fix: runner.Failure(err).Hint})
	}
	self, err := os.Executable() // the program that is there on every host
	if err != nil {
		return fail(err)
	}
	pol := runner.DefaultPolicy().Grant(self, false, "self-test")
	pol.SelfTest = true
	if pol, err = policy.Normalize(pol, policy.Operator{}); err != nil {
		return fail(err)
	}
	_, result, err := runner.Foreground(plan.Request{Policy: pol, Command: []string{self, nothingVerb}, Environ: a.environ}, backend.Options{DieWithParent: true})
	switch {
	case err != nil:
		return fail(err)
	case result.Code != 0:
		return fail(fmt.Errorf("the sandbox was started, and its command ended with %d", result.Code))
	}
	return result.Receipt.SelfTest, missing
}

// didYouMean is a hint for a word that is nearly the name of a feature or guarantee, and nothing for any other.
func didYouMean(word string) string {
	names := slices.Clone(policy.Guarantees[:])
	for _, row := range facts.Table {
		names = append(names, string(row.Name))
	}
	near, ok := policy.Nearest(word, names)
	if !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}
