package backend

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nsrun/nsrun/internal/scope"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit/cgroup"
)

// makeGroup makes the cgroup that a plan wants. If the cgroup is to be in a scope, it first moves this process there. A plan that wants
// none gets an empty group.
func makeGroup(p *plan.Plan, stop func() error) (*cgroup.Group, error) {
	trees, err := inScope(p, stop)
	if failed := (*Error)(nil); errors.As(err, &failed) {
		return nil, err
	}
	if err != nil {
		return nil, &Error{Stage: scopeStage, Op: "enter", Path: p.Scope.Socket, Err: err,
			Hint: "without limits on memory, pids, CPU share and disks no scope is needed"}
	}
	g, err := cgroup.Make(trees)
	if failed := (*Error)(nil); errors.As(err, &failed) {
		failed.Hint = "run nsrun doctor; without limits on memory, pids, CPU share and disks no cgroup is needed"
	}
	return g, err
}

// inScope returns the plan's trees, with the directory of the one that is in a scope filled in. It waits for the scope no longer than the
// run may take.
func inScope(p *plan.Plan, stop func() error) ([]cgroup.Tree, error) {
	i := slices.IndexFunc(p.Cgroups, func(t cgroup.Tree) bool { return t.Dir == plan.InScope })
	if p.Scope == nil || i < 0 {
		return p.Cgroups, nil
	}
	timeout := scope.Timeout
	if p.Timeout > 0 {
		timeout = min(timeout, time.Duration(p.Timeout))
	}
	dir, err := scope.Enter(*p.Scope, p.Cgroups[i].Enable, timeout, stop)
	if err != nil {
		return nil, err
	}
	trees := slices.Clone(p.Cgroups)
	trees[i].Dir = dir
	return trees, nil
}

// Evidence holds the counters of a sandbox's cgroup.
type Evidence = cgroup.Evidence

const (
	groupStage = "cgroup"
	scopeStage = "scope"
)

// bornIn returns the descriptor of the cgroup that the kernel starts the sandbox's first process in, or -1: see [sys.Program.ForkInto].
func bornIn(p *plan.Plan, g *cgroup.Group) int {
	if !p.Mechanisms.CgroupClone {
		return -1
	}
	return g.Born()
}

// endGroup reads a cgroup's counters and removes it. A cgroup that cannot be removed becomes a note; a later run removes it. If the sandbox
// ran out of memory or pids before there was a command, the error reports that.
func endGroup(g *cgroup.Group, out *Outcome, err error) error {
	evidence := g.Read()
	if failed := g.Remove(); failed != nil {
		out.Losses = append(out.Losses, plan.Note{Feature: groupStage, Loss: "it is left behind: " + failed.Error(), Fix: "the next run removes it"})
	}
	return tooSmall(evidence, out, err)
}

// tooSmall replaces the error of a run that a limit has ended before the command began.
func tooSmall(evidence cgroup.Evidence, out *Outcome, err error) error {
	out.Evidence = evidence
	switch {
	case out.begun:
		return err
	case evidence.OOMKills > 0:
		if err == nil { // no process was left to report it
			err = errors.New("nsrun's own process inside was killed")
		}
		return &Error{Stage: "limit", Op: "memory_mb", Err: fmt.Errorf("it is used up before the command begins: %w", err), Hint: "raise memory_mb: some MiB are needed to start"}
	case err != nil && evidence.PidsMax > 0:
		return &Error{Stage: "limit", Op: "pids", Err: fmt.Errorf("it is used up before the command begins: %w", err), Hint: "raise pids"}
	}
	return err
}
