package plan

import (
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/seccomp"
)

// Explain has the command's filter ask a listener, which is nsrun, at calls that a result can tell of: see [seccomp.Watch]. The listener answers as
// the filters do, and looks up afterwards what was asked for.
type Explain struct {
	// All says that looking at files is told of, too, and calls that programs try and do without.
	All bool `json:"all,omitempty"`
	// Calls are the calls that are watched, beside those that the filters refuse.
	Calls []string `json:"calls"`
	// Killable says that signals do not interrupt a call that waits for its answer.
	Killable bool `json:"killable,omitempty"`
}

// The calls that are watched, by level. Names that an architecture lacks are skipped.
const (
	explainOn = "open openat openat2 creat execve execveat connect chdir bind " +
		"mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat mknod mknodat " +
		"chmod fchmodat fchmodat2 chown lchown fchownat truncate utime utimes utimensat"
	explainAll   = "stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat"
	explainNames = "sendto sendmmsg" // of names, where there is no network
)

// explain plans the listener. What cannot be had is a note: nothing is less confined without it.
func (c *compiler) explain() error {
	level := c.pol.Explain.Level()
	if level == policy.ExplainOff {
		return nil
	}
	if c.plan.Backend != BackendNative && c.plan.Backend != BackendLandlock {
		c.note("explain", "nothing tells what is refused: the backend "+c.plan.Backend+" cannot", "use --backend native or landlock")
		return nil
	}
	if !c.req.Sole {
		c.note("explain", "nothing tells what is refused: sessions and the library cannot", "use nsrun run")
		return nil
	}
	if !c.facts.Can(facts.SeccompNotify) || !c.facts.Can(facts.Seccomp) {
		c.plan.Notes = append(c.plan.Notes, Note{Feature: "explain", Loss: "nothing tells what is refused: there can be no seccomp listener",
			Found: c.facts.Answers[facts.SeccompNotify].Detail, Fix: c.facts.Fix(facts.SeccompNotify)})
		return nil
	}
	words := explainOn
	if level == policy.ExplainAll {
		words += " " + explainAll
	}
	if c.pol.Network.Mode() == policy.NetworkNone {
		words += " " + explainNames
	}
	c.plan.Explain = &Explain{All: level == policy.ExplainAll, Calls: strings.Fields(words), Killable: c.facts.ListenerKillable}
	return nil
}

// ExplainFilters returns the filters of a plan that explains: the one that asks the listener, and those that are installed after it.
// Joined are the filters by which the listener answers; the others have a say of their own.
func (p *Plan) ExplainFilters(goarch string) (listener seccomp.Filter, joined, beside []seccomp.Filter, err error) {
	var filters []seccomp.Filter
	if p.Seccomp != nil {
		if filters, err = p.Seccomp.Filters(goarch); err != nil {
			return nil, nil, nil, err
		}
	}
	a := arch(goarch)
	for i, f := range filters {
		raw := len(p.Seccomp.Raw) > 0 && i == number(p.Seccomp.HasBuiltin())
		// The listener is sent, and closed, before anybody can answer.
		if raw || refuses(f, a, "sendmsg") || refuses(f, a, "close") {
			beside = append(beside, f)
		} else {
			joined = append(joined, f)
		}
	}
	listener, err = seccomp.Watch(joined, p.Explain.Calls, a)
	return listener, joined, beside, err
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// refuses reports whether a filter refuses a call without arguments.
func refuses(f seccomp.Filter, a seccomp.Arch, name string) bool {
	nr, ok := a.Number(name)
	action, err := seccomp.Decide(seccomp.Data{NR: nr, Arch: a.Audit()}, f)
	return ok && (err != nil || action != seccomp.Allow)
}

// text is the plan's explain line.
func (e *Explain) text() string {
	if e == nil {
		return ""
	}
	text := "what is refused"
	if e.All {
		text += ", looking at files and what programs do without too"
	}
	return text + ": a listener of " + strings.Join(slices.Clone(e.Calls), " ") + ", and of what the filters refuse"
}
