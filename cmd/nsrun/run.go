package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// forwarded are the signals that are passed on to the command.
var forwarded = []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH}

func (a *app) run(args []string) int {
	var f flags
	var where string
	fs := newFlags("run")
	f.register(fs)
	fs.StringVar(&where, "result", "", "")
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	var out *os.File
	if where != "" {
		var err error
		if out, err = openResult(where); err != nil {
			return a.fail(err)
		}
	}
	result := a.runRequest(&f, func() (plan.Request, error) { return a.request(&f, fs) })
	if out != nil {
		if err := writeResult(out, result); err != nil {
			return a.fail(fmt.Errorf("--result: %w", err))
		}
	}
	return result.Code
}

func (a *app) runRequest(f *flags, request func() (plan.Request, error)) nsrun.Result {
	req, err := request()
	if err != nil {
		a.fail(err)
		return nsrun.Failure(err)
	}
	p, result, err := nsrun.Start(req, nsrun.Options{Forward: forwarded, DieWithParent: true})
	if p == nil {
		result = nsrun.Failure(err)
	}
	if err != nil {
		a.fail(err)
	}
	if f.verbose || err == nil {
		a.notes(result.Receipt.Notes, f.verbose)
	}
	if f.verbose {
		fmt.Fprintf(a.stderr, "nsrun: %s, exit code %d, %.1f ms\n", result.Verdict, result.Code, result.WallMS)
	}
	return result
}

// notes prints what the caller should know even without asking: lost guarantees and dropped variables; all of it with -v.
func (a *app) notes(notes []plan.Note, all bool) {
	for _, n := range notes {
		_, guarantee := facts.Lookup(facts.Name(n.Feature))
		if all || guarantee || n.Feature == "env" {
			fmt.Fprintf(a.stderr, "nsrun: note: %s\n", printable(n.String()))
		}
	}
}

func writeResult(out *os.File, result nsrun.Result) error {
	data, err := json.Marshal(result)
	if err == nil {
		_, err = out.Write(append(data, '\n'))
	}
	return errors.Join(err, out.Close())
}
