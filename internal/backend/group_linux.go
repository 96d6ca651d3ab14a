package backend

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nsrun/nsrun/internal/scope"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"golang.org/x/sys/unix"
)

// makeGroup makes the cgroup that a plan wants, if it wants one, and moves this process to the scope that it is to be made in, if that.
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

// inScope gives those trees a directory that are made in a scope, for which it waits no longer than the run may take.
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

// Evidence is what has happened in a sandbox's cgroup.
type Evidence = cgroup.Evidence

const (
	groupStage = "cgroup"
	scopeStage = "scope"
)

// bornIn is where the sandbox's first process is to be born: see [sys.Program.ForkInto].
func bornIn(p *plan.Plan, g *cgroup.Group) int {
	if !p.Mechanisms.CgroupClone {
		return -1
	}
	return g.Born()
}

// joinGroup moves this process, and so all that it will start, into the sandbox's cgroup, and makes that the root of what can be seen of
// the tree.
func (l *lowering) joinGroup() error {
	if len(l.plan.Cgroups) == 0 {
		return nil
	}
	cgroup.Lower(l.p, l.plan.Cgroups, l.fds.group, l.plan.Mechanisms.CgroupClone)
	if slices.Contains(l.plan.Namespaces, plan.Cgroup) {
		l.step("namespaces", "cgroup")
		l.p.Add(unix.SYS_UNSHARE, sys.Words(unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"))
	}
	return nil
}

// endGroup takes what has happened in a cgroup, and removes it. What cannot be removed is told: a later run will. An error of a run that
// had used up its memory before there was a command says that.
func endGroup(g *cgroup.Group, out *Outcome, err error) error {
	evidence := g.Read()
	if failed := g.Remove(); failed != nil {
		out.Losses = append(out.Losses, plan.Note{Feature: groupStage, Loss: "it is left behind: " + failed.Error(), Fix: "the next run removes it"})
	}
	return tooSmall(evidence, out, err)
}

func tooSmall(evidence cgroup.Evidence, out *Outcome, err error) error {
	out.Evidence = evidence
	switch {
	case out.begun:
		return err
	case evidence.OOMKills > 0:
		if err == nil { // nobody was left to tell
			err = errors.New("nsrun's own process inside was killed")
		}
		return &Error{Stage: "limit", Op: "memory_mb", Err: fmt.Errorf("it is used up before the command begins: %w", err), Hint: "raise memory_mb: some MiB are needed to start"}
	case err != nil && evidence.PidsMax > 0:
		return &Error{Stage: "limit", Op: "pids", Err: fmt.Errorf("it is used up before the command begins: %w", err), Hint: "raise pids"}
	}
	return err
}
