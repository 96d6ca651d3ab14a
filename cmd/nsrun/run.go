package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"golang.org/x/sys/unix"
)

// forwarded are the signals that are passed on to the command.
var forwarded = []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH}

func (a *app) run(args []string) int {
	var f flags
	fs := newFlags("run", f.runRows()...)
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	if f.quiet && f.verbose {
		return a.fail(errors.New("--quiet and --verbose exclude each other; give one of them"))
	}
	signals, err := sys.SignalPipe(forwarded...)
	if err != nil {
		return a.fail(err)
	}
	var out *os.File
	if f.result != "" {
		if out, err = openResult(f.result); err != nil {
			return a.fail(err)
		}
		if !strings.HasPrefix(f.result, "FD:") {
			f.protected = append(f.protected, load.Real(f.result)...)
		}
	}
	result := a.runRequest(&f, signals, fs)
	if out != nil {
		if err := writeResult(out, result); err != nil {
			a.fail(fmt.Errorf("--result: %w", err)) // the code stays the command's: it has run
		}
	}
	return result.Code
}

func (a *app) runRequest(f *flags, signals int, fs *flag.FlagSet) result.Result {
	req, err := a.request(f, fs)
	if err != nil {
		a.fail(f.auditRefused(fs.Args(), err))
		return runner.Failure(err)
	}
	network, end, err := f.askBy(req.Policy)
	if err != nil {
		a.fail(f.auditRefused(fs.Args(), err))
		return runner.Failure(err)
	}
	defer end()
	p, result, err := runner.Foreground(req, backend.Options{Signals: signals, DieWithParent: true, Sole: true, Brief: f.result == "" && !f.verbose,
		Protected: f.protected, Verify: f.verify, Network: network})
	if p == nil {
		result = runner.Failure(err)
	}
	explainMissing(err, &result, p, a.environ)
	if err != nil {
		a.fail(err)
	} else if line := cmp.Or(f.ending(p, result, a.environ), a.explainHint(p, result)); line != "" && !f.quiet {
		fmt.Fprintf(a.stderr, "nsrun: %s\n", printable(line))
	}
	if lines := deniedLines(result); !f.quiet {
		for _, line := range lines {
			fmt.Fprintf(a.stderr, "nsrun: %s\n", printable(line))
		}
	}
	if line := protectedLine(result.ProtectedChanged, false); line != "" && !f.verbose { // with -v there is a note for each
		fmt.Fprintf(a.stderr, "nsrun: note: %s\n", printable(line))
	}
	notes := result.Receipt.Notes
	if err != nil && !f.verbose { // what would have been is of no interest, but that a log lacks a row is
		notes = slices.DeleteFunc(slices.Clone(notes), func(n plan.Note) bool { return n.Feature != "audit" })
	}
	if f.quiet {
		return result
	}
	if !f.verbose && !f.timeAsked() { // a default is cut: nothing that was asked for is lost
		notes = slices.DeleteFunc(slices.Clone(notes), func(n plan.Note) bool { return n.Feature == "timeout" })
	}
	a.notes(notes, result.Receipt.Backend, f.verbose)
	if f.verbose {
		fmt.Fprintf(a.stderr, "nsrun: %s, exit code %d, %.1f ms\n", result.Verdict, result.Code, result.WallMS)
	}
	return result
}

// notes prints what the caller should know even without asking: lost guarantees, limits that bind less than asked, dropped variables,
// capabilities that are not as written, sockets that are not there, a network helper that was lost, and what a ceiling or a second flag takes; all of it
// with -v. A run by another backend than native is one line.
func (a *app) notes(notes []plan.Note, backend string, all bool) {
	reported := []string{"env", "environment", "working directory", "audit", switchNote, "sandbox", "backend", "isolation", "fallback",
		"capabilities", "sockets", "labels", "home size", "explain", "network helper"}
	cut := []string{"fs", "home", "network", "timeout"} // those with a fix say that less is given than was asked for; the others say what is done
	degraded := !all && slices.ContainsFunc(notes, insteadOfNative)
	var lost []string
	for _, n := range notes {
		_, guarantee := plan.LookupTrait(n.Feature)
		switch {
		case n.Feature == plan.DefaultLimits, degraded && insteadOfNative(n): // nobody has asked for those limits; plan and result tell
			continue
		case degraded && guarantee:
			lost = append(lost, n.Feature)
			continue
		}
		_, feature := facts.Lookup(facts.Name(n.Feature))
		_, limit := policy.LookupLimit(n.Feature)
		if all || feature || limit || slices.Contains(reported, n.Feature) || n.Fix != "" && slices.Contains(cut, n.Feature) {
			fmt.Fprintf(a.stderr, "nsrun: note: %s\n", printable(n.String()))
		}
	}
	if degraded {
		fmt.Fprintf(a.stderr, "nsrun: note: backend %s in place of native; lost: %s (-v says why)\n", backend, strings.Join(lost, ", "))
	}
}

// insteadOfNative reports whether a note says that another backend than native is used.
func insteadOfNative(n plan.Note) bool {
	return n.Feature == "backend" && strings.HasPrefix(n.Loss, plan.NativeUnusable)
}

func writeResult(out *os.File, r result.Result) error {
	data, err := json.Marshal(r)
	if err == nil {
		_, err = out.Write(append(data, '\n'))
	}
	return errors.Join(err, out.Close())
}
