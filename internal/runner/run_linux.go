package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"golang.org/x/sys/unix"
)

// factsFor is enough to plan by, since a start that fails is a probe too: what a few harmless system calls tell of this host, and what takes a fork
// to find out, where the request is of a small process that is for it alone and may come to it.
func factsFor(req plan.Request) facts.Facts {
	known := facts.Facts{}
	if slices.ContainsFunc(req.Policy.Limits, func(l policy.Limit) bool { return plan.TakesCgroup(l.Name) }) {
		known = probe.Delegation(probe.Quick())
	} else {
		known = probe.Usual()
	}
	own := req.Policy.Backend == "" || req.Policy.Backend == policy.BackendAuto || req.Policy.Backend == policy.BackendNative
	if req.Sole && own && req.Policy.Isolation.Level() == policy.Container {
		return probe.PidMax(known)
	}
	return known
}

// Compile plans a request for this host. See [plan.Compile].
func Compile(req plan.Request) (*plan.Plan, error) { return plan.Compile(req, factsFor(req)) }

// Foreground plans req by a few facts and runs it with this process's standard descriptors: see [RunPlan]. If the sandbox cannot be started
// because a fact was wrong, it asks again in full, plans again, and tries that plan if it differs; a backend that fails all the same is a
// fact too. The policy's audit logs are told of the run once, whatever is tried; without their word nothing is.
//
// What it returns is the plan that was tried last; none if the host turns out not to be able to enforce the policy, which is a
// [*plan.CompatibilityError].
func Foreground(req plan.Request, opts backend.Options) (p *plan.Plan, end result.Result, err error) {
	rec, err := openRecord(req.Policy)
	if err != nil {
		return nil, result.Result{}, err
	}
	req.Policy = rec.real(req.Policy)
	release, err := useKept(req.Policy)
	if err != nil {
		return nil, result.Result{}, rec.refused(req.Command, req.Policy.Dir, Failure(err), err)
	}
	defer release()
	opts.Brief = opts.Brief && len(rec.logs) == 0
	guard := watchFor(req.Policy)
	defer guard.Close()
	req.Kept = keptBy(guard, req.Policy)
	var own private
	p, err = attempt(req, func(p *plan.Plan) (err error) {
		if err = rec.begin(p.Command, p.Dir, p.Env, p.Backend); err == nil {
			err = own.renew(p)
		}
		if err != nil {
			end = failed(p, err)
			return err
		}
		defer own.remove()
		end, err = RunPlan(p, opts)
		return err
	})
	if p == nil {
		return nil, result.Result{}, rec.refused(req.Command, req.Policy.Dir, Failure(err), err)
	}
	if err == nil {
		compared(guard, &end)
	}
	end.Receipt.Notes = slices.Concat(end.Receipt.Notes, own.notes(), largeHome(req.Policy), rec.finish(end))
	return p, end, err
}

// attempt plans req and starts that: see [Foreground].
func attempt(req plan.Request, start func(*plan.Plan) error) (*plan.Plan, error) {
	return attemptBy(func() facts.Facts { return factsFor(req) }, probe.Full, req, start)
}

// attemptBy is attempt by facts of two kinds: what is found out quickly, and all.
func attemptBy(quick, full func() facts.Facts, req plan.Request, start func(*plan.Plan) error) (*plan.Plan, error) {
	req.Private = privatePlace(req.Policy, "")
	req, err := Admit(req)
	if err != nil {
		return nil, err
	}
	known := quick()
	p, err := plan.Compile(req, known)
	if aboutFacts(err) { // for the causes, and for backends that are other programs
		known = full()
		p, err = plan.Compile(req, known)
	}
	if err != nil {
		return nil, err
	}
	err = start(p)
	probed, unnumbered := false, false
	var ungrouped []error
	var unscoped error
	for tries := 0; startFailed(err) && tries <= 1+len(plan.Backends()); tries++ {
		switch {
		case p.Scope != nil && unscoped == nil && (stage(err) == "scope" || stage(err) == "cgroup"):
			unscoped = err
		case stage(err) == "cgroup" && len(ungrouped) < mostTrees: // what could be written to cannot be used
			ungrouped = append(ungrouped, err)
		case stage(err) == "pid_max" && !unnumbered:
			unnumbered = true
		case !probed:
			known, probed = full(), true
		case free(req.Policy):
			known = amend(known, p, err)
		default:
			return p, err
		}
		if unnumbered {
			known = known.With(facts.PidMax, facts.Answer{State: facts.No, Detail: err.Error()})
		}
		known = placeless(known, ungrouped, unscoped)
		again, planErr := plan.Compile(req, known)
		switch {
		case planErr != nil: // it says more than the step that failed
			return nil, planErr
		case !same(p, again):
			p = again
			err = start(p)
		case tries > 0:
			return p, err
		}
	}
	return p, err
}

// mostTrees is how often a start may fail for want of a cgroup: a tree of version 1 has one controller.
const mostTrees = 5

// placeless takes from facts what starts have shown to be no place for a cgroup.
func placeless(known facts.Facts, ungrouped []error, unscoped error) facts.Facts {
	if len(ungrouped) > 0 {
		why := strings.ReplaceAll(errors.Join(ungrouped...).Error(), "\n", "; ")
		known = known.With(facts.CgroupV2, facts.Answer{State: facts.No, Detail: why, Fix: known.Fix(facts.CgroupV2)})
	}
	for _, err := range ungrouped {
		var at *Error
		if !errors.As(err, &at) || at.Path == "" {
			known.Groups = nil
			continue
		}
		whole := at.Op == "make" // and not one of its controllers
		groups := slices.Clone(known.Groups)
		for i, g := range groups {
			if g.Dir == at.Path && !whole {
				groups[i].Controllers = slices.DeleteFunc(slices.Clone(g.Controllers), func(c string) bool { return c == at.Op })
			}
		}
		known.Groups = slices.DeleteFunc(groups, func(g facts.Group) bool { return g.Dir == at.Path && whole || len(g.Controllers) == 0 })
	}
	if m := known.Manager; m != nil && unscoped != nil {
		refused := *m
		refused.Refused = unscoped.Error()
		known.Manager = &refused
	}
	return known
}

// aboutFacts reports whether an error of planning is about what a host has.
func aboutFacts(err error) bool {
	var lacks *plan.CompatibilityError
	return errors.As(err, &lacks) && slices.ContainsFunc(lacks.Unmet, func(n plan.Note) bool {
		_, feature := facts.Lookup(facts.Name(n.Feature))
		return feature || plan.TakesCgroup(n.Feature)
	})
}

// free reports whether a policy leaves the choice of a backend to what works.
func free(p policy.Policy) bool {
	return p.Fallback == policy.Degrade && (p.Backend == "" || p.Backend == policy.BackendAuto) && p.Isolation.Level() == policy.Container
}

// startFailed reports whether a sandbox could not be made, for whatever reason but that it was tested and does not hold, or that this process
// may open no more files or start no more processes: no other plan helps then.
func startFailed(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.EAGAIN) && !slices.Contains([]string{"exec", "self-test", "spawner", "limit", homeStage, auditStage, backend.InterruptedStage, backend.OrphanStage}, failed.Stage)
}

func stage(err error) string {
	var failed *Error
	if errors.As(err, &failed) {
		return failed.Stage
	}
	return ""
}

// amend makes a fact of a backend's failure to start: an LSM, or a daemon, has refused what a probe thought fine.
func amend(known facts.Facts, p *plan.Plan, err error) facts.Facts {
	name := facts.Name("")
	switch p.Backend {
	case plan.BackendNative:
		if refusedByKernel(err) {
			name = facts.UserNS
		}
	case plan.BackendBwrap:
		name = facts.Bwrap
	case plan.BackendDocker:
		if name = facts.Docker; p.Container.CLI == "podman" {
			name = facts.Podman
		}
	}
	if name == "" {
		return known
	}
	fix := "nsrun run --backend " + p.Backend + " -- true says what stands in its way"
	if failed := (*Error)(nil); errors.As(err, &failed) && failed.Hint != "" {
		fix = failed.Hint
	}
	return known.With(name, facts.Answer{State: facts.No, Detail: err.Error(), Fix: fix})
}

// refusedByKernel reports whether the kernel refused namespaces or mounts, which is no mistake in the policy.
func refusedByKernel(err error) bool {
	var failed *Error
	var errno unix.Errno
	if !errors.As(err, &failed) || !errors.As(failed.Err, &errno) {
		return false
	}
	switch failed.Stage {
	case "namespaces", "identity", "network", "hostname", "root":
		return true
	case "mount":
		return slices.Contains([]unix.Errno{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EINVAL, unix.ENODEV}, errno)
	}
	return false
}

func same(a, b *plan.Plan) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// RunPlan runs a plan's command with this process's standard descriptors and waits until nothing of the sandbox is alive. It forks
// this process, whose memory the kernel has to account for: in a large program the fork is slow.
//
// An error is an [*Error] and means that the command has not run. How a command that ran has ended is in the [Result].
func RunPlan(p *plan.Plan, opts backend.Options) (result.Result, error) {
	if p.PidMax > 0 && p.Bwrap == nil {
		if err := probe.OwnPidMax(); err != nil { // the plan may be from other facts, and what it says would be written for the host
			err = &Error{Stage: "pid_max", Op: "write", Err: err, Hint: "plan by this host's facts"}
			return failed(p, err), err
		}
	}
	if p.Terminal {
		opts.Terminal = &backend.Terminal{In: os.Stdin, Out: os.Stdout}
	}
	if p.Explain != nil {
		opts.Home, _ = Home()
	}
	opts.Helper = networkHelper(p)
	out, err := backend.Run(p, opts)
	if err != nil {
		return failed(p, err), err
	}
	if opts.Brief {
		return endedWith(p, briefReceipt(p, out), out), nil
	}
	return ended(p, out), nil
}

// RunBwrap is [RunPlan] of a plan by bubblewrap's rules, in a process for it alone. It returns the exit code.
func RunBwrap(p *plan.Plan) (code int, err error) {
	out, err := backend.Run(p, backend.Options{Sole: true, Brief: true})
	return exitCode(out), err
}

// Look checks a plan against what this host has, and changes nothing: what would be left out is returned as notes, what would stop
// the run as an error.
func Look(p *plan.Plan) ([]plan.Note, error) {
	if p.Backend == plan.BackendNone || p.Backend == plan.BackendLandlock { // whose directories are the host's
		if err := enterable(p.Dir); err != nil {
			return nil, err
		}
		if p.Backend == plan.BackendNone {
			return nil, backend.Lookup(p, nil)
		}
	}
	if err := backend.LookForHelper(p, networkHelper(p)); err != nil {
		return nil, err
	}
	l, err := backend.Preview(p)
	if err != nil {
		return nil, err
	}
	notes := missing(p, l.Resolved)
	if p.Backend == plan.BackendDocker {
		losses, err := backend.DockerLosses(p)
		return append(notes, losses...), err
	}
	if p.Backend == plan.BackendBwrap {
		call, err := backend.RenderBwrap(p, nil)
		if err != nil {
			return nil, err
		}
		notes = append(notes, call.Losses...)
	}
	if p.Backend == plan.BackendLandlock { // it sees the host's tree
		return notes, backend.Lookup(p, nil)
	}
	return notes, backend.Lookup(p, l.Resolved)
}

// enterable returns an error if a command cannot start in a directory of the host.
func enterable(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	if err == nil {
		err = unix.Access(dir, unix.X_OK)
	}
	var cause unix.Errno
	if !errors.As(err, &cause) {
		return err
	}
	hints := map[unix.Errno]string{ // as a run has them
		unix.ENOENT: "choose a directory that the sandbox shows, with --chdir", unix.EACCES: "choose a directory that this user may enter, with --chdir"}
	return &Error{Stage: "directory", Op: "chdir", Path: dir, Err: cause, Hint: hints[cause]}
}

// missing returns a note for each mount that was left out.
func missing(p *plan.Plan, resolved []mounts.Resolved) []plan.Note {
	var notes []plan.Note
	for i, s := range resolved {
		op := p.Mounts[i]
		if !s.Missing || op.Quiet {
			continue
		}
		path := op.Source
		if path == "" {
			path = op.Dest
		}
		const left = " does not exist and is left out"
		note := plan.Note{Feature: "fs", Loss: path + left + why(op.Why)}
		if op.Only == "socket" {
			note = plan.Note{Feature: "sockets", Loss: path + left, Fix: "start what listens there first, or grant its directory"}
		}
		notes = append(notes, note)
	}
	return notes
}

func why(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}
