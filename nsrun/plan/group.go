package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit/cgroup"
)

// TakesCgroup reports whether a cgroup holds the limit of that name.
func TakesCgroup(limit string) bool {
	row, _ := policy.LookupLimit(limit)
	return row.Controller != ""
}

// groups are the places for a cgroup of the sandbox's own. Another program makes its sandbox out of reach of one. With cheap, they are those
// where a child can be born, without a change to what is there.
func (c *compiler) groups(cheap bool) (places []cgroup.Place) {
	if c.plan.Backend == BackendBwrap || c.plan.Backend == BackendDocker {
		return nil
	}
	for _, g := range c.facts.Groups {
		p := cgroup.Place(g)
		if cheap {
			if g.Version != 2 || c.facts.State(facts.CgroupClone) != facts.Yes {
				continue
			}
			p.Controllers = slices.DeleteFunc(slices.Clone(g.Controllers), func(name string) bool { return slices.Contains(g.Enable, name) })
		}
		places = append(places, p)
	}
	if c.plan.Scope != nil && !cheap {
		all := c.facts.Manager.Controllers
		places = append(places, cgroup.Place{Version: 2, Dir: InScope, Controllers: all, Enable: all, Leave: true})
	}
	return places
}

// by says what holds a limit at a place.
func by(p cgroup.Place) string {
	if p.Dir == InScope {
		return "cgroup v2, in a systemd scope"
	}
	return fmt.Sprintf("cgroup v%d", p.Version)
}

// noGroup says why no cgroup can be made, as far as somebody knows.
func (c *compiler) noGroup() string {
	if c.refused != "" {
		return c.refused
	}
	return c.facts.Answers[facts.CgroupV2].Detail
}

// scope plans to ask a service manager for a place, for limits that are asked for and that no other place has the controllers of. It takes
// milliseconds, so default limits do without. The process that runs the plan is moved there with all it holds, so it must be for this
// alone; it can be in one group of version 2, so there must be no place in that tree. Under the backend none the command could leave the
// group.
func (c *compiler) scope() {
	m := c.facts.Manager
	if m == nil || !c.req.Sole || c.req.Session || c.facts.State(facts.SystemdScope) == facts.No || c.plan.Bwrap != nil ||
		c.plan.Backend != BackendNative && c.plan.Backend != BackendLandlock ||
		slices.ContainsFunc(c.facts.Groups, func(g facts.Group) bool { return g.Version == 2 }) {
		return
	}
	var enforced []string
	for _, l := range c.pol.Limits {
		row, _ := policy.LookupLimit(l.Name)
		if _, placed := inGroup(row, l.Value).At(c.groups(false)); !placed && slices.Contains(m.Controllers, row.Controller) {
			enforced = append(enforced, l.Name)
		}
	}
	switch {
	case len(enforced) == 0:
	case m.Refused != "":
		c.refused = m.Refused
		try := "systemd-run --user --scope true"
		if c.facts.UID == 0 {
			try = "systemd-run --scope true"
		}
		c.plan.Notes = append(c.plan.Notes, Note{Feature: string(facts.SystemdScope), Loss: "none could be had for " + strings.Join(enforced, ", "),
			Found: m.Refused, Fix: try + " may say more"})
	default:
		c.plan.Scope = &Scope{Socket: m.Socket, Bus: m.Bus, Tree: m.Tree,
			Description: "nsrun run", Delegate: true, CollectMode: "inactive-or-failed"}
	}
}
