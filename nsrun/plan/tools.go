package plan

import (
	"slices"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// requireTools refuses what presets lack, if the policy requires them.
func (c *compiler) requireTools() {
	if !slices.Contains(c.pol.Require, policy.RequireTools) {
		return
	}
	for _, n := range c.plan.Notes {
		if n.Feature == policy.RequireTools {
			c.unmet = append(c.unmet, n)
		}
	}
}

// copies leaves out of presets what the backend cannot show. What is at the place of an overlay is the sandbox's own then, and empty.
func (c *compiler) copies() error {
	overlays := c.plan.Backend == BackendNative && c.facts.Can(facts.Overlay)
	fix := "use the backend native"
	if c.plan.Backend == BackendNative {
		fix = c.facts.Fix(facts.Overlay)
	}
	c.pol.FS = slices.DeleteFunc(slices.Clone(c.pol.FS), func(e policy.FS) bool {
		switch place := e.Dest + " (" + e.Why + ")"; {
		case e.Kind == policy.Overlay && !overlays:
			c.note("tools", place+" starts empty: a copy of the host's takes an overlay mount", fix)
			c.pol.Env.Pass = slices.DeleteFunc(slices.Clone(c.pol.Env.Pass), func(name string) bool { return name == e.Variable })
		case e.Tool == "" || c.plan.Backend != BackendLandlock || e.Kind == policy.Bind:
			return false
		default:
			c.note("tools", place+" is not there: it takes a mount", fix)
		}
		return true
	})
	return nil
}
