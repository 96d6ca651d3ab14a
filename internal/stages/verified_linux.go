package stages

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// Verified checks a finished program against its plan: see package verify. nsrun does not run a program that fails. The check compiles
// filters and looks limits up anew; it does not use lowering's results.
func (l *Lowered) Verified(p *plan.Plan, f FDs) error {
	in, err := l.Evidence(p, f)
	if err != nil {
		return err
	}
	if v := verify.Check(in); v != nil {
		return &fault.Error{Stage: "verify", Err: errors.New(v.String()), Hint: "nothing was started; report this with the output of nsrun plan --syscalls"}
	}
	return nil
}

// Evidence returns the verifier's input for a program.
func (l *Lowered) Evidence(p *plan.Plan, f FDs) (in verify.Input, err error) {
	in = verify.Input{Program: l.Program, Plan: p, Flags: l.Flags, Resolved: l.Resolved, Rules: l.Rules, Report: f.Report, Status: f.Status, Output: f.Output,
		Arguments: sys.ArgArea(os.Args, os.Environ()), Caller: os.Getpid()}
	if p.Seccomp != nil {
		if in.Filters, err = p.Seccomp.Filters(goarch); err != nil {
			return in, err
		}
	}
	in.Open, in.Device = l.open, device
	for i := range p.Cgroups {
		in.Groups = append(in.Groups, f.Group.Procs(i))
	}
	if in.Null, err = standardNulls(); err != nil {
		return in, err
	}
	if p.Terminal && f.Size != nil {
		in.TerminalSize = winsize(f.Size)
	}
	in.Limits, err = (&Lowering{plan: p}).findLimits()
	in.LowersFiles = slices.ContainsFunc(in.Limits, lowersOpenFiles)
	return in, err
}

// device returns where the host's device of a name is: the name itself, unless it is a symlink.
func device(name string) string {
	if at, err := filepath.EvalSymlinks(name); err == nil {
		return at
	}
	return name
}
