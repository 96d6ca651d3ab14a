package plan

import (
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// auditWhy is the wish behind what covers an audit log.
const auditWhy = "audit"

// CoversLogs reports whether a mount covers an audit log that the command would otherwise be shown.
func (p *Plan) CoversLogs() bool {
	return slices.ContainsFunc(p.Mounts, func(op mounts.Op) bool { return op.Kind == mounts.Mask && op.Why == auditWhy })
}

// audit covers the logs where a mount shows them. Who could read one could keep a lock on it, and so keep all that is to be logged from
// being run.
func (c *compiler) audit() {
	c.plan.Audit, c.plan.Labels = slices.Clone(c.pol.Audit), slices.Clone(c.pol.Labels)
	if len(c.pol.Labels) > 0 && len(c.pol.Audit) == 0 {
		c.note("labels", "written nowhere, as there is no audit log", "name one with audit or --audit FILE, or leave the labels out")
	}
	if c.plan.Backend == BackendNone {
		return
	}
	for _, file := range c.pol.Audit {
		for i, op := range slices.Clone(c.plan.Mounts) {
			if op.Kind != mounts.Bind || !policy.Inside(file, op.Source) || file == op.Source {
				continue
			}
			dest := strings.TrimSuffix(op.Dest, "/") + strings.TrimPrefix(file, strings.TrimSuffix(op.Source, "/"))
			covered := slices.ContainsFunc(c.plan.Mounts[i+1:], func(later mounts.Op) bool { return policy.Inside(dest, later.Dest) })
			if !covered {
				c.plan.Mounts = append(c.plan.Mounts, mounts.Op{Kind: mounts.Mask, Source: file, Dest: dest, Optional: true, Quiet: true, Why: auditWhy})
			}
		}
	}
}
