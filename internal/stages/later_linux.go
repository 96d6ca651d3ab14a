package stages

import (
	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// This file has the caller add the Landlock rules of directories that are granted by entry, while the sandbox makes its mounts. There is one
// such directory, root's /etc, with some 150 entries: to look at them takes 400 us, and their rules take the command's process another 500 us,
// together a fifth of a start. The caller has nothing to do meanwhile.
//
// A rule is for a file, by whichever path it is opened (landlock_add_rule(2)), and the sandbox has the directory's files from the host. So the
// caller opens them on the host, and adds the rules to a ruleset whose descriptor the sandbox's processes have inherited. It does so before it
// lets the command begin, and the command's process enforces the ruleset after that.

// addLater switches this off.
const addLater = true

// RulesLater reports whether a plan has such directories.
func RulesLater(p *plan.Plan) bool {
	return addLater && p.Landlock != nil && len(p.Landlock.ByEntry) > 0 && !p.Bare()
}

// later adds those rules. What it needs is made before the fork: see sys.OpenEntry.
type later struct {
	spreading
	dirs  []byEntry
	from  [][]byte // of each of dirs
	adder *landlock.Adder
	rules *[]landlock.PathRule // where they are noted; nil if nobody reads them
}

// lowerRest adds the other rules to the caller's ruleset and enforces it.
func (l *Lowering) lowerRest() {
	rules, dirs := resolvedRules(l.plan, l.resolved)
	ruleset := sys.Int(l.fds.Ruleset)
	landlock.Extend(l.Program, ruleset, rulesetOf(l.plan, rules))
	landlock.Restrict(l.Program, ruleset)
	l.Program.Add(unix.SYS_CLOSE, ruleset)
	l.rules, l.later = rules, &later{dirs: dirs, adder: landlock.NewAdder(l.fds.Ruleset)}
	l.later.public, l.later.grant = true, l.later.add
	for _, d := range dirs {
		l.later.from = append(l.later.from, sys.EntryName(d.from))
		l.later.reserve(d.rule.Path, d.covered)
	}
}

// add adds a rule for what fd has open.
func (a *later) add(fd int, name []byte, rule landlock.PathRule) error {
	if a.rules != nil {
		*a.rules = append(*a.rules, named(name, rule))
	}
	if err := a.adder.Add(fd, rule); err != nil {
		return &fault.Error{Stage: "landlock", Op: "rule", Path: named(name, rule).Path, Err: err}
	}
	return nil
}

// AddLater adds the rules of the directories that are granted by entry to the caller's ruleset. With note it adds them to l.Rules, too. An error is
// one of the host's, or a [*fault.Error] of the rule that failed.
func (l *Lowered) AddLater(note bool) error {
	if l.later == nil {
		return nil
	}
	if note {
		l.later.rules = &l.Rules
	}
	for i := range l.later.dirs {
		d := &l.later.dirs[i]
		l.later.covered = d.covered
		if err := l.later.directory(unix.AT_FDCWD, l.later.from[i], d.rule); err != nil {
			return err
		}
	}
	return nil
}
