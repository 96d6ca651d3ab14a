package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/nsrun/nsrun/internal/agent"
	"github.com/nsrun/nsrun/internal/homes"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// noName stands for the name of a private directory in plans that nobody runs.
const noName = "NAME"

// PrivatePlace is where a plan of p that is only looked at has its private directory: see [plan.Private].
func PrivatePlace(p policy.Policy) plan.PrivatePlace { return privatePlace(p, noName) }

// privatePlace chooses it. The backend landlock has one, and whatever shows an SSH agent.
func privatePlace(p policy.Policy, name string) plan.PrivatePlace {
	agent := slices.ContainsFunc(p.FS, func(e policy.FS) bool { return e.Agent })
	if p.Bare() || p.Backend != policy.BackendLandlock && !free(p) && !agent {
		return plan.PrivatePlace{}
	}
	if name == "" {
		name = homes.SpareName()
	}
	dir, err := homes.Spare(name)
	if err == nil {
		err = unshown(p, dir)
	}
	if err != nil {
		return plan.PrivatePlace{Why: err.Error()}
	}
	return plan.PrivatePlace{Dir: dir}
}

// unshown returns an error if a policy grants something that a directory of nsrun's state lies in: its commands could then reach those of others.
func unshown(p policy.Policy, dir string) error {
	for _, e := range p.FS {
		if e.Kind != policy.Bind && e.Kind != policy.Overlay {
			continue
		}
		shown := policy.Inside(dir, e.Source)
		if !shown && !e.System {
			real, err := filepath.EvalSymlinks(e.Source)
			if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
				return err
			}
			shown = err == nil && policy.Inside(dir, real) // what is not there is left out, or an error that the run has
		}
		if shown {
			return fmt.Errorf("%s lies in %s (%s), so that a command could reach what others have there", filepath.Dir(dir), e.Source, e.Why)
		}
	}
	return nil
}

// private is the private directory that a session's sandbox has, or a run's. The zero private is none.
type private struct {
	mu    sync.Mutex
	made  *homes.Private
	agent *agent.Filter
	left  []plan.Note // what could not be removed
}

// renew makes the directory of a plan, if it has one, in the place of one that was made before.
func (p *private) renew(pl *plan.Plan) error {
	p.remove()
	if pl.Private == nil {
		return nil
	}
	links := make([]homes.Link, len(pl.Private.Links))
	for i, l := range pl.Private.Links {
		links[i] = homes.Link(l)
	}
	files := make([]homes.File, len(pl.Private.Files))
	for i, f := range pl.Private.Files {
		files[i] = homes.File(f)
	}
	made, err := homes.MakePrivate(pl.Private.Dir, pl.Private.Within, links, files)
	if err != nil {
		return &Error{Stage: homeStage, Err: err}
	}
	var filter *agent.Filter
	if pl.Private.Agent != "" {
		if filter, err = agent.Start(pl.Private.Dir, plan.AgentSocket, pl.Private.Agent); err != nil {
			return &Error{Stage: "agent", Err: errors.Join(err, made.Remove())}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made, p.agent = made, filter
	p.note(made.Left)
	return nil
}

// remove removes it, when nothing of its sandbox is alive.
func (p *private) remove() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.agent != nil {
		p.agent.Close()
		p.agent = nil
	}
	if p.made != nil {
		p.note(p.made.Remove())
		p.made = nil
	}
}

func (p *private) note(err error) {
	if err != nil {
		p.left = append(p.left, plan.Note{Feature: homeStage, Loss: "not removed: " + err.Error(), Fix: "the next run with such a directory tries again"})
	}
}

// notes say what could not be removed.
func (p *private) notes() []plan.Note {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}

// homeStage is the stage of errors about home directories, which no other plan helps against.
const homeStage = "home"
