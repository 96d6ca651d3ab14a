package verify

import (
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"golang.org/x/sys/unix"
)

// fileRights are the rights that a rule for a file may have.
const fileRights = landlock.Execute | landlock.WriteFile | landlock.ReadFile | landlock.Truncate | landlock.IoctlDev | landlock.ResolveUnix

// domain enters a Landlock domain whose processes can signal nobody outside of it.
func (c *checker) domain() {
	s := c.create(landlock.Ruleset{Scoped: landlock.ScopeSignal})
	c.call(Rules, unix.SYS_LANDLOCK_RESTRICT_SELF).slot(s).num(0)
	c.close(Descriptors, s)
}

func (c *checker) create(r landlock.Ruleset) sys.Slot {
	return c.call(Rules, unix.SYS_LANDLOCK_CREATE_RULESET).words(uint64(r.HandledFS), uint64(r.HandledNet), uint64(r.Scoped)).num(24).num(0).opens()
}

// landlock builds the plan's rules and enforces them.
func (c *checker) landlock() {
	if c.Plan.Landlock == nil {
		return
	}
	s := c.build()
	c.call(Rules, unix.SYS_LANDLOCK_RESTRICT_SELF).slot(s).num(0)
	c.close(Descriptors, s)
}

// build makes the ruleset: what it handles is the plan's, and each rule grants what the plan grants there, at the place that lowering saw.
func (c *checker) build() sys.Slot {
	ruleset, granted := c.create(c.Plan.Landlock.Ruleset), c.granted()
	for _, r := range c.Rules {
		if r.File {
			r.Access &= fileRights
		}
		if r.Access == 0 {
			continue
		}
		c.justified(r, granted)
		fd, parent := c.openRule(r)
		written := c.writes()
		m := c.call(Rules, unix.SYS_LANDLOCK_ADD_RULE).slot(ruleset).num(unix.LANDLOCK_RULE_PATH_BENEATH)
		if written != m.v.Arg(m.arg)+8 {
			c.fail("the rule is not for what was opened just before")
		}
		m.words(uint64(r.Access), 0).num(0)
		c.close(Descriptors, fd)
		if parent != 0 {
			c.close(Descriptors, parent)
		}
	}
	for _, r := range c.Plan.Landlock.Ports {
		c.call(Rules, unix.SYS_LANDLOCK_ADD_RULE).slot(ruleset).num(2).words(uint64(r.Access), uint64(r.Port)).num(0)
	}
	return ruleset
}

// openRule opens the place of a rule, through no symlink. The last call is the one at hand.
func (c *checker) openRule(r landlock.PathRule) (fd, parent sys.Slot) {
	var m *matcher
	switch {
	case !r.Exact:
		m = c.call(Rules, unix.SYS_OPENAT).cwd().str(r.Path).num(oName)
	case c.Plan.Mechanisms.Openat2:
		m = c.call(Rules, unix.SYS_OPENAT2).cwd().str(r.Path).words(oName, 0, unix.RESOLVE_NO_SYMLINKS).num(24)
	default:
		m, parent = c.walkRule(r.Path)
	}
	if r.Optional {
		m.orSkip(goneByNow, 2)
	}
	return m.opens(), parent
}

// walkRule opens all but the last name of a path, one by one.
func (c *checker) walkRule(name string) (last *matcher, at sys.Slot) {
	names := append([]string{"/"}, strings.FieldsFunc(name, func(r rune) bool { return r == '/' })...)
	for i, n := range names {
		m := c.call(Rules, unix.SYS_OPENAT)
		if i == 0 {
			m.cwd()
		} else {
			m.slot(at)
		}
		if i == len(names)-1 {
			return m.str(n).num(oName), at
		}
		next := m.str(n).num(oName | unix.O_DIRECTORY).opens()
		if i > 0 {
			c.close(Descriptors, at)
		}
		at = next
	}
	return nil, 0
}

// granted are the plan's rules, each at the place where that path is.
func (c *checker) granted() (rules []landlock.PathRule) {
	for _, q := range c.Plan.Landlock.Paths {
		if at, ok := c.placeOf(q.Path); ok {
			q.Path = at
			rules = append(rules, q)
		}
	}
	return rules
}

// justified requires that the plan grants these rights at the place of a rule, or above it, and that the place is not masked. A rule to list
// a directory may stand above a mask.
func (c *checker) justified(r landlock.PathRule, granted []landlock.PathRule) {
	var above landlock.Access
	for _, q := range granted {
		if inside(r.Path, q.Path) {
			above |= q.Access
		}
	}
	if more := r.Access &^ above; more != 0 {
		c.failFor(Rules, "%s is granted %s, which is not in the plan", r.Path, more)
	}
	if !c.bare() {
		c.writable(r)
		return
	}
	for i, op := range c.Plan.Mounts {
		s := c.Resolved[i]
		if op.Kind != mounts.Mask || s.Missing {
			continue
		}
		if inside(r.Path, s.Source) || inside(s.Source, r.Path) && r.Access&^landlock.ReadDir != 0 {
			c.failFor(Rules, "%s is granted %s, though %s is masked", r.Path, r.Access, s.Source)
		}
	}
}

// placeOf is where a path of the plan is: where lowering saw it, or for a plan without mounts on the host.
func (c *checker) placeOf(name string) (at string, ok bool) {
	found := -1
	for i, op := range c.Plan.Mounts {
		if op.Dest != name || c.bare() && (op.Kind == mounts.Mask || c.Resolved[i].Missing) {
			continue
		}
		if found < 0 || c.Resolved[found].Missing || c.bare() {
			found = i
		}
	}
	switch {
	case found < 0:
		return name, !c.bare()
	case c.Resolved[found].Missing || c.Resolved[found].Link:
		return "", false
	case c.bare():
		return c.Resolved[found].Source, true
	}
	return c.Resolved[found].Dest, true
}

// writable requires that nothing can be made by Landlock's rules in a directory of the host's that is mounted read-only.
func (c *checker) writable(r landlock.PathRule) {
	if r.Access&landlock.MakeReg == 0 {
		return
	}
	at := relative(path.Clean(r.Path))
	for _, l := range slices.Backward(c.layers) {
		if below(at, l.path) {
			if l.ro && !l.own {
				c.failFor(Rules, "%s can be written by Landlock's rules and is mounted read-only", r.Path)
			}
			return
		}
	}
}

// inside reports whether an absolute path is dir or lies below it.
func inside(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir) && len(name) > len(dir) && name[len(dir)] == '/'
}
