package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// planFlags are those of run, so that its arguments are those of plan, and plan's own.
type planFlags struct {
	flags
	asJSON, syscalls bool
	facts, as        string
}

// own are the flags of plan alone. It also takes --verify, --quiet and --result, which do nothing here: what --syscalls prints always is checked.
func (f *planFlags) own() []flagRow {
	return []flagRow{
		{"--json", &f.asJSON, "the plan as JSON: all that the backend is given", ""},
		{"--syscalls", &f.syscalls, "the system calls that it comes to, like strace", ""},
		{"--as bwrap", &f.as, "the call of bubblewrap that --backend bwrap makes, to be read (it needs descriptors and a session that only nsrun sets up); " +
			"on stderr what it loses", ""},
		{"--facts FILE", &f.facts, "plan for the host that this output of nsrun doctor --json came from", ""},
	}
}

func (f *planFlags) set() *flag.FlagSet {
	return newFlags("plan", slices.Concat(f.own(), f.runRows())...)
}

func (a *app) plan(args []string) int {
	var f planFlags
	fs := f.set()
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	if f.asJSON && f.syscalls {
		return a.fail(errors.New("--json and --syscalls exclude each other; give one of them"))
	}
	if err := f.checkAs(); err != nil {
		return a.fail(err)
	}
	req, err := a.request(&f.flags, fs)
	if err != nil {
		return a.fail(err)
	}
	if err := f.checkAsk(req.Policy); err != nil {
		return a.fail(err)
	}
	known, err := loadFacts(f.facts, req.Policy)
	if err != nil {
		return a.fail(err)
	}
	if req, err = runner.Admit(req); err != nil {
		return a.fail(err)
	}
	p, err := plan.Compile(req, known)
	if err != nil {
		return a.fail(err)
	}
	switch {
	case f.as != "":
		return a.planAsBwrap(p)
	case f.syscalls:
		l, err := backend.Preview(p)
		if err != nil {
			return a.fail(err)
		}
		return a.print(l.Text())
	}
	return a.printPlan(p, req.Policy, &f)
}

// printPlan prints a plan, and then fails as the run would where a look at this host can tell: the plan is what to look at then.
func (a *app) printPlan(p *plan.Plan, pol policy.Policy, f *planFlags) int {
	var notes []plan.Note
	var stopped error
	if f.facts == "" {
		notes, stopped = runner.Look(p)
		explainMissing(stopped, new(result.Result), p, a.environ)
	}
	text, err := p.String()+suggested(pol)+onThisHost(notes, stopped), error(nil)
	if f.asJSON {
		text, err = indented(p)
	}
	if code := a.printed(text, err); code != 0 || stopped == nil {
		return code
	}
	return a.fail(stopped)
}

func (f *planFlags) checkAs() error {
	switch {
	case f.as != "" && f.as != plan.BackendBwrap:
		return fmt.Errorf("--as %s: write --as bwrap", f.as)
	case f.as != "" && (f.asJSON || f.syscalls || f.facts != ""):
		return errors.New("--as looks at this host and prints words; leave out --json, --syscalls and --facts")
	}
	return nil
}

// planAsBwrap prints the plan as words for a shell.
func (a *app) planAsBwrap(p *plan.Plan) int {
	call, err := backend.RenderBwrap(p, nil)
	if err != nil {
		return a.fail(err)
	}
	words := []string{"bwrap"}
	for _, w := range call.Args {
		words = append(words, shellQuote(w))
	}
	for _, n := range call.Losses {
		fmt.Fprintf(a.stderr, "nsrun: note: %s\n", printable(n.String()))
	}
	return a.print(strings.Join(words, " ") + "\n")
}

// shellQuote writes a word for a shell.
func shellQuote(w string) string {
	if w != "" && !strings.ContainsFunc(w, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:@%+,", r))
	}) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// onThisHost says what only looking at the host can tell, as a part of the plan's text.
func onThisHost(notes []plan.Note, err error) string {
	if err == nil && len(notes) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("\non this host\n")
	for _, n := range notes {
		fmt.Fprintf(&out, "      %s\n", n)
	}
	if err != nil {
		fmt.Fprintf(&out, "      the run would fail: %v\n", err)
		if hint := runner.Failure(err).Hint; hint != "" {
			fmt.Fprintf(&out, "      hint: %s\n", hint)
		}
	}
	return printable(out.String())
}

// loadFacts reads a file of facts, or asks this host in full: a plan is to say what a run would come to. Other backends are asked about where the
// policy may come to them.
func loadFacts(name string, pol policy.Policy) (facts.Facts, error) {
	switch {
	case name != "":
	case pol.Fallback == policy.Degrade, pol.Backend == policy.BackendBwrap, pol.Backend == policy.BackendDocker:
		return probe.Full(), nil
	default:
		return probe.Host(), nil
	}
	var f facts.Facts
	data, err := load.File(name, 1<<20)
	if err == nil {
		err = json.Unmarshal(data, &f)
		if err == nil && f.Arch == "" {
			err = errors.New("there is no arch")
		}
		if err == nil {
			err = f.Validate()
		}
		if err != nil {
			err = fmt.Errorf("%s: %w; facts are what nsrun doctor --json prints", name, err)
		}
	}
	if err != nil {
		return f, fmt.Errorf("--facts: %w", err)
	}
	return f, nil
}
