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

// fileRights are the rights that a rule for something other than a directory may have (landlock_add_rule(2), EINVAL).
const fileRights = landlock.Execute | landlock.WriteFile | landlock.ReadFile | landlock.Truncate | landlock.IoctlDev | landlock.ResolveUnix

// domain requires a Landlock domain whose processes can send signals only to each other (LANDLOCK_SCOPE_SIGNAL, Linux 6.12). It may confine
// nothing else: its only other right is the one that every domain takes away, and a rule for the root gives that back.
func (c *checker) domain() {
	refer := c.Plan.Landlock.HandledFS & landlock.Refer
	s := c.create(landlock.Ruleset{Scoped: landlock.ScopeSignal, HandledFS: refer})
	if refer != 0 {
		fd, _ := c.openRule(landlock.PathRule{Path: "/"})
		c.addRule(s, refer, fd)
	}
	c.call(Rules, unix.SYS_LANDLOCK_RESTRICT_SELF).slot(s).num(0)
	c.close(Descriptors, s)
}

// create requires a ruleset that handles exactly these rights: a right that is not handled is allowed everywhere.
func (c *checker) create(r landlock.Ruleset) sys.Slot {
	return c.call(Rules, unix.SYS_LANDLOCK_CREATE_RULESET).words(uint64(r.HandledFS), uint64(r.HandledNet), uint64(r.Scoped)).num(24).num(0).opens()
}

// landlock requires that the plan's ruleset is built and enforced, and its descriptor closed.
func (c *checker) landlock() {
	if c.Plan.Landlock == nil {
		return
	}
	s := c.build()
	c.call(Rules, unix.SYS_LANDLOCK_RESTRICT_SELF).slot(s).num(0)
	c.close(Descriptors, s)
}

// build requires a ruleset that handles the plan's rights, and a rule for each path that lowering resolved. The rights of each rule must be
// justified by the plan (claim Rules).
func (c *checker) build() sys.Slot {
	ruleset, granted := c.create(c.Plan.Landlock.Ruleset), c.granted()
	for _, r := range c.Rules {
		if r.File {
			r.Access &= fileRights
		}
		// The kernel refuses a rule without rights (landlock_add_rule(2), ENOMSG), so there is none.
		if r.Access == 0 || r.Exact && c.includes(r) {
			continue
		}
		c.justified(r, granted)
		fd, parent := c.openRule(r)
		c.addRule(ruleset, r.Access, fd)
		if parent != 0 {
			c.close(Descriptors, parent)
		}
	}
	const netPort = 2 // LANDLOCK_RULE_NET_PORT, Linux 6.7
	for _, r := range c.Plan.Landlock.Ports {
		c.call(Rules, unix.SYS_LANDLOCK_ADD_RULE).slot(ruleset).num(netPort).words(uint64(r.Access), uint64(r.Port)).num(0)
	}
	return ruleset
}

// addRule requires a rule for the file that the current call has opened, and that its descriptor is closed.
func (c *checker) addRule(ruleset sys.Slot, access landlock.Access, fd sys.Slot) {
	written := c.writes()
	m := c.call(Rules, unix.SYS_LANDLOCK_ADD_RULE).slot(ruleset).num(unix.LANDLOCK_RULE_PATH_BENEATH)
	// The kernel is given the descriptor in the structure's second field. The call that opened the path must have written it there, or
	// the rule would hold for another file.
	if written != m.v.Arg(m.arg)+8 {
		c.fail("the rule is not for what was opened just before")
	}
	m.words(uint64(access), 0).num(0)
	c.close(Descriptors, fd)
}

// exactRule is a path without symlinks that has a rule, or an optional one.
type exactRule struct {
	path     string
	optional bool
}

// includes reports whether the rule of a directory above gives all that r gives. Then there is no rule for r: Landlock adds up the rights on
// the way from a file to the root, over mount points too. A directory that the host moves away loses them, which is the stricter way. An optional
// rule above counts for optional ones alone: without its directory there is nothing below it.
func (c *checker) includes(r landlock.PathRule) bool {
	if c.exact == nil {
		c.exact = map[exactRule]landlock.Access{}
		for _, rule := range c.Rules {
			if rule.Exact && !rule.File {
				c.exact[exactRule{rule.Path, rule.Optional}] |= rule.Access
			}
		}
	}
	for dir := r.Path; len(dir) > 1; {
		dir = dir[:max(1, strings.LastIndexByte(dir, '/'))] // path.Dir cleans what is clean
		access := c.exact[exactRule{dir, false}]
		if r.Optional {
			access |= c.exact[exactRule{dir, true}]
		}
		if r.Access&^access == 0 {
			return true
		}
	}
	return false
}

// openRule requires that the path of a rule is opened without following a symlink. A rule that is not exact follows none at its end; an
// exact one, whose path is resolved, follows none at all. The opening call stays the current call, because build also checks where its
// result goes.
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

// walkRule requires that a path is opened name by name, for kernels without openat2. Every name but the last must be a directory and no
// symlink. The call for the last name stays the current call; at is the slot of its directory.
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

// granted returns the plan's rules, each with the path at which lowering found what the plan names.
func (c *checker) granted() (rules []landlock.PathRule) {
	for _, q := range c.Plan.Landlock.Paths {
		if at, ok := c.placeOf(q.Path); ok {
			q.Path = at
			rules = append(rules, q)
		}
	}
	return rules
}

// justified requires that the plan grants the rule's rights at its place or above, and that the place is not masked. A rule above a masked
// place may only permit listing a directory. With mounts, the masks are mounts themselves, so that this is so only where the plan has rules by entry;
// and the rule must not allow writing where the mount does not.
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
	listed := func(dir string) bool { return inside(r.Path, dir) }
	if !c.Plan.Bare() {
		c.writable(r)
		if !slices.ContainsFunc(c.Plan.Landlock.ByEntry, listed) {
			return
		}
	}
	for _, masked := range c.maskedPlaces() {
		// A right granted above a masked place would also hold at that place: Landlock has no rule that takes a right away.
		if inside(r.Path, masked) || inside(masked, r.Path) && r.Access&^landlock.ReadDir != 0 {
			c.failFor(Rules, "%s is granted %s, though %s is masked", r.Path, r.Access, masked)
		}
	}
}

// maskedPlaces lists the places that are masked: in the new root or, for a plan without mounts, on the host. They are looked for once, not for each rule.
func (c *checker) maskedPlaces() []string {
	if c.masked == nil {
		c.masked = []string{}
		for i := range c.Plan.Mounts {
			switch op := &c.Plan.Mounts[i]; {
			case op.Kind != mounts.Mask:
			case !c.Plan.Bare():
				c.masked = append(c.masked, op.Dest)
			case !c.Resolved[i].Missing:
				c.masked = append(c.masked, c.Resolved[i].Source)
			}
		}
	}
	return c.masked
}

// placeOf returns where a path of the plan is: its destination in the new root or, for a plan without mounts, its resolved path on the
// host. ok is false if it does not exist or is a symlink.
func (c *checker) placeOf(name string) (at string, ok bool) {
	found := -1
	for i := range c.Plan.Mounts {
		op := &c.Plan.Mounts[i]
		if op.Dest != name || c.Plan.Bare() && (op.Kind == mounts.Mask || c.Resolved[i].Missing) {
			continue
		}
		if found < 0 || c.Resolved[found].Missing || c.Plan.Bare() {
			found = i
		}
	}
	switch {
	case found < 0:
		return name, !c.Plan.Bare()
	case c.Resolved[found].Missing || c.Resolved[found].Link:
		return "", false
	case c.Plan.Bare():
		return c.Resolved[found].Source, true
	}
	return c.Resolved[found].Dest, true
}

// writable requires that no rule allows making files in a directory of the host that is mounted read-only: Landlock must not be open where
// the mount is closed. Other rights to write are compared with the plan alone (justified), because a device in a read-only mount can be
// written to.
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

// inside reports whether an absolute path is dir or lies below it. "/ab" does not lie below "/a".
func inside(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir) && len(name) > len(dir) && name[len(dir)] == '/'
}
