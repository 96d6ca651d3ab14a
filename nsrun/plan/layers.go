package plan

import (
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// Layers is protection that an operator adds to plans of bubblewrap's command line, which have none of it.
type Layers struct {
	Landlock bool            // rights on files as the mounts grant them, and both scopes
	Seccomp  *policy.Seccomp // a built-in filter, beside the filters of the command line
	Limits   []policy.Limit
}

// Add returns p with the layers. A host that cannot enforce one of them is a [*CompatibilityError]: nothing is left out.
func (p *Plan) Add(l Layers, f facts.Facts) (*Plan, error) {
	out := *p
	c := &compiler{facts: f, plan: &out}
	c.plan.Notes = slices.Clone(p.Notes)
	c.pol.Limits, c.pol.NoLandlock = l.Limits, !l.Landlock
	c.pol.Network = policy.Network(p.Network)
	passes := []func() error{c.limits}
	if l.Landlock {
		passes = append(passes, c.landlock)
	}
	if l.Seccomp != nil {
		c.pol.Seccomp = *l.Seccomp
		passes = append(passes, c.seccomp)
	}
	for _, pass := range passes {
		if err := pass(); err != nil {
			return nil, err
		}
	}
	for i := range c.unmet { // nothing degrades here
		c.unmet[i].Fix = strings.TrimSuffix(strings.TrimSuffix(c.unmet[i].Fix, degradeFix), "; ")
	}
	if len(c.unmet) > 0 {
		return nil, &CompatibilityError{Unmet: c.unmet}
	}
	return &out, nil
}
