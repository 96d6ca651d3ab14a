package plan

import (
	"bytes"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/seccomp"
)

// Explain has the command's filter ask a listener, which is nsrun, at each call that a result can report: see [seccomp.Watch]. The listener answers as
// the filters do, and looks up afterwards what was asked for.
type Explain struct {
	// All reports looking at files, too, also by who reads a tree, and calls that programs try and do without.
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

// ExplainsLooking reports whether a call is watched only by a plan that reports all.
func ExplainsLooking(call string) bool { return slices.Contains(strings.Fields(explainAll), call) }

// explain plans the listener. What cannot be had is a note: nothing is less confined without it.
func (c *compiler) explain() error {
	level := c.pol.Explain.Level()
	if level == policy.ExplainOff {
		return nil
	}
	if !slices.Contains([]string{BackendNative, BackendLandlock, BackendBwrap}, c.plan.Backend) {
		c.note("explain", "refusals are not reported: the backend "+c.plan.Backend+" cannot", "use --backend native, landlock or bwrap")
		return nil
	}
	if !c.facts.Can(facts.SeccompNotify) || !c.facts.Can(facts.Seccomp) {
		c.plan.Notes = append(c.plan.Notes, Note{Feature: "explain", Loss: "refusals are not reported: there can be no seccomp listener",
			Found: c.facts.Answers[facts.SeccompNotify].Detail, Fix: c.facts.Fix(facts.SeccompNotify)})
		return nil
	}
	// A kernel without openat2 has listeners that cannot let a call go on before 5.5, and the call would wait for ever. In a session the answers end
	// when the listener says that no process is left, from 5.9 on, which has close_range.
	for _, name := range []facts.Name{facts.Openat2, facts.CloseR} {
		if !c.facts.Can(name) && (name == facts.Openat2 || !c.req.Sole) {
			c.plan.Notes = append(c.plan.Notes, Note{Feature: "explain", Loss: "refusals are not reported: seccomp listeners are too old, as there is no " + string(name),
				Found: c.facts.Answers[name].Detail, Fix: c.facts.Fix(name)})
			return nil
		}
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
// These have a say of their own, and the listener answers as all filters do.
func (p *Plan) ExplainFilters(goarch string) (listener seccomp.Filter, beside []seccomp.Filter, err error) {
	var filters, joined []seccomp.Filter
	if p.Seccomp != nil {
		if filters, err = p.Seccomp.Filters(goarch); err != nil {
			return nil, nil, err
		}
	}
	a := arch(goarch)
	for _, f := range filters {
		// The listener is sent and closed, and the filters beside it are installed, before anybody answers.
		early := refuses(f, a, "sendmsg") || refuses(f, a, "close") || refuses(f, a, "seccomp", setModeFilter)
		if early || bytes.Equal(f.Bytes(), p.Seccomp.Raw) {
			beside = append(beside, f)
		} else {
			joined = append(joined, f)
		}
	}
	listener, err = seccomp.Watch(joined, p.Explain.Calls, p.Explain.All, a)
	return listener, beside, err
}

const setModeFilter = 1 // SECCOMP_SET_MODE_FILTER

// refuses reports whether a filter refuses a call with this first argument, and zeros.
func refuses(f seccomp.Filter, a seccomp.Arch, name string, arg ...uint64) bool {
	nr, ok := a.Number(name)
	d := seccomp.Data{NR: nr, Arch: a.Audit()}
	copy(d.Args[:], arg)
	action, err := seccomp.Decide(d, f)
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
	return text + ": a listener of " + strings.Join(e.Calls, " ") + ", and of what the filters refuse"
}
