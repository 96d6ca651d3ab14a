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

// Verified checks a finished program against its plan: see package verify. nsrun does not run a program that fails. Of what lowering found,
// the check believes the resolved paths, the rules at these paths and the open descriptors; filters are compiled and limits looked up anew.
func (l *Lowered) Verified(p *plan.Plan, f FDs) error {
	in, err := l.Evidence(p, f)
	if err != nil {
		return err
	}
	return verified(in)
}

// Verified checks a request against the plan of its session and the command.
func (r *Request) Verified() error {
	in, err := r.Evidence()
	if err != nil {
		return err
	}
	return verified(in)
}

// Evidence returns the verifier's input for a request.
func (r *Request) Evidence() (in verify.Input, err error) {
	in = verify.Input{Program: r.Program, Plan: r.Plan, By: verify.Request, Cut: r.Cut}
	if r.command.Terminal != nil {
		in.TerminalSize = winsize(r.command.Terminal)
		return in, nil
	}
	in.Null, err = fileNulls(r.command.Files)
	return in, err
}

func verified(in verify.Input) error {
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
