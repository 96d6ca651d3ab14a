package seccomp

import (
	"slices"
	"strings"
)

// Reach lists the calls that p lets through: always, and for some arguments. What it names nowhere else has the default answer.
func (p Profile) Reach(arch Arch) (always, some []string, err error) {
	entries, err := p.entries(arch)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		switch {
		case !e.rule.allows():
		case len(e.rule.Cases) > 0:
			some = append(some, e.name)
		default:
			always = append(always, e.name)
		}
	}
	return always, some, nil
}

// allows reports whether r lets a call through, for some arguments at least.
func (r *Rule) allows() bool {
	return r.Action == Allow || slices.ContainsFunc(r.Cases, func(c Case) bool { return c.Action == Allow })
}

// Diff lists, by name, the calls that only one of two profiles lets through, and those that each lets through for arguments of its own:
// "- NAME" is what a lets through and b does not, "+ NAME" the other way. What depends on arguments has its rule beside it.
func Diff(a, b Profile, arch Arch) ([]string, error) {
	was, err := a.entries(arch)
	if err != nil {
		return nil, err
	}
	is, err := b.entries(arch) // the same calls in the same order
	if err != nil {
		return nil, err
	}
	var lines []string
	for i := range was {
		old, now := was[i].reach(), is[i].reach()
		if old != "" && old != now {
			lines = append(lines, "- "+old)
		}
		if now != "" && old != now {
			lines = append(lines, "+ "+now)
		}
	}
	slices.SortStableFunc(lines, func(x, y string) int {
		x, _, _ = strings.Cut(x[2:], ":")
		y, _, _ = strings.Cut(y[2:], ":")
		return strings.Compare(x, y)
	})
	return lines, nil
}

// reach is the name of a call that is let through, with its rule if that depends on arguments, and empty for others.
func (e entry) reach() string {
	switch {
	case !e.rule.allows():
		return ""
	case len(e.rule.Cases) > 0:
		return e.name + ": " + e.rule.String()
	}
	return e.name
}

// Without is p with the named calls refused with EPERM. Names that are no system calls are errors of [Compile].
func (p Profile) Without(calls ...string) Profile {
	if len(calls) == 0 {
		return p
	}
	return Profile{Name: p.Name, Doc: p.Doc, Base: &p, Default: p.Default, Rules: []Rule{{Calls: strings.Join(calls, " "), Action: eperm}}}
}
