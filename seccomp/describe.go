package seccomp

import (
	"fmt"
	"slices"
	"strings"
)

// Describe describes p for arch in text: a line of counts, then the calls that depend on arguments, then the refused calls by errno. It
// only counts the calls that get the default action. The text is the same on every machine.
func (p Profile) Describe(arch Arch) (string, error) {
	entries, err := p.entries(arch)
	if err != nil {
		return "", err
	}
	var allowed, some, none int
	refused := map[Action][]string{}
	var cases strings.Builder
	for _, e := range entries {
		switch {
		case len(e.rule.Cases) > 0:
			if e.rule.allows() {
				some++
			} else {
				none++
			}
			fmt.Fprintf(&cases, "%s: %s\n", e.name, e.rule)
		case e.rule.Action == Allow:
			allowed++
		default:
			refused[e.rule.Action] = append(refused[e.rule.Action], e.name)
		}
	}
	actions := make([]Action, 0, len(refused))
	for a := range refused {
		actions = append(actions, a)
	}
	slices.Sort(actions)
	var out, lists strings.Builder
	fmt.Fprintf(&out, "allow %d calls, %d more by their arguments", allowed, some)
	if none > 0 {
		fmt.Fprintf(&out, "; %d refused in different ways", none)
	}
	for _, a := range actions {
		fmt.Fprintf(&out, "; %d %s", len(refused[a]), a)
		if a != p.Default {
			fmt.Fprintf(&lists, "%s: %s\n", a, strings.Join(refused[a], " "))
		}
	}
	fmt.Fprintf(&out, "; others %s; foreign architectures %s\n", p.Default, Kill)
	return out.String() + cases.String() + lists.String(), nil
}

// String returns, for example, "errno EPERM if arg0 & 0x7e020080 not in {0x0}; otherwise allow".
func (r *Rule) String() string {
	var out strings.Builder
	for _, c := range r.Cases {
		fmt.Fprintf(&out, "%s if ", c.Action)
		for i, cond := range c.If {
			if i > 0 {
				out.WriteString(" and ")
			}
			out.WriteString(cond.String())
		}
		out.WriteString("; ")
	}
	if len(r.Cases) > 0 {
		out.WriteString("otherwise ")
	}
	return out.String() + r.Action.String()
}

// String returns, for example, "arg1 & 0xf in {0x1, 0x2}".
func (c Cond) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "arg%d", c.Arg)
	if c.Mask != 0 && c.Mask != ^uint32(0) {
		fmt.Fprintf(&out, " & 0x%x", c.Mask)
	}
	if c.Not {
		out.WriteString(" not")
	}
	out.WriteString(" in {")
	for i, v := range c.In {
		if i > 0 {
			out.WriteString(", ")
		}
		fmt.Fprintf(&out, "0x%x", v)
	}
	return out.String() + "}"
}
