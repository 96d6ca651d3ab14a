package seccomp

import (
	"slices"
	"strings"
)

// Reach returns the names of the calls that p allows always, and of those that it allows for some arguments. It does not return a call that
// p never allows.
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

// allows reports whether r allows a call, at least for some arguments.
func (r *Rule) allows() bool {
	return r.Action == Allow || slices.ContainsFunc(r.Cases, func(c Case) bool { return c.Action == Allow })
}

// Diff compares the calls that two profiles allow. A line "- NAME" is a call that a allows and b does not; "+ NAME" is the opposite. A call
// that both allow, for different arguments, has both lines, each with its rule. The lines are in the order of names.
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

// reach returns the name of an allowed call, with its rule if the arguments matter, and "" for a call that is never allowed.
func (e entry) reach() string {
	switch {
	case !e.rule.allows():
		return ""
	case len(e.rule.Cases) > 0:
		return e.name + ": " + e.rule.String()
	}
	return e.name
}

// Without returns p with the named calls refused with EPERM. [Compile] reports names that are no system calls.
func (p Profile) Without(calls ...string) Profile {
	if len(calls) == 0 {
		return p
	}
	return Profile{Name: p.Name, Doc: p.Doc, Base: &p, Default: p.Default, Rules: []Rule{{Calls: strings.Join(calls, " "), Action: eperm}}}
}
