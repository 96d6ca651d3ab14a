package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/rlimit/cgroup"
)

// controllers are those of cgroups, by the limits that they hold.
var controllers = map[string]string{"memory_mb": "memory", "pids": "pids", "cpu_percent": "cpu", "io_read_mb": "io", "io_write_mb": "io"}

// TakesCgroup reports whether a cgroup holds the limit of that name.
func TakesCgroup(limit string) bool { return controllers[limit] != "" }

// groups are the places for a cgroup of the sandbox's own. Another program makes its sandbox out of reach of one. With cheap, they are those
// where a child can be born, without a change to what is there.
func (c *compiler) groups(cheap bool) (places []cgroup.Place) {
	if c.plan.Backend == BackendBwrap || c.plan.Backend == BackendDocker {
		return nil
	}
	for _, g := range c.facts.Groups {
		p := cgroup.Place{Version: g.Version, Dir: g.Dir, Controllers: g.Controllers, Enable: g.Enable, Leave: g.Leave}
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

// place is the one for the limit of a controller.
func (c *compiler) place(controller string) (cgroup.Place, bool) {
	places := c.groups(false)
	i := slices.IndexFunc(places, func(p cgroup.Place) bool { return slices.Contains(p.Controllers, controller) })
	if i < 0 {
		return cgroup.Place{}, false
	}
	return places[i], true
}

// by says what holds the limit of a controller.
func (c *compiler) by(controller string) string {
	p, ok := c.place(controller)
	switch {
	case !ok:
		return ""
	case p.Dir == InScope:
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
		if k := controllers[l.Name]; k != "" && !cgroup.Has(c.groups(false), k) && slices.Contains(m.Controllers, k) {
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
