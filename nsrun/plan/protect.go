package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Kept is a file or directory in a writable grant that is to be read-only. The caller of [Compile] finds it on the host, as it does [Pipes].
type Kept struct {
	Grant string // the grant's place inside
	Real  string // where the host has the grant, free of symlinks
	Path  string // below both
}

// Protect is what becomes of places in writable grants that make programs of the host run something.
type Protect struct {
	// Level is report, revert, strict or off.
	Level string `json:"level"`
	// Compared are the directories of the host in which they are looked at before the run and after it. Repositories deeper in them are not.
	Compared []string `json:"compared,omitempty"`
	// ReadOnly are the places that the command cannot change.
	ReadOnly []string `json:"read_only,omitempty"`
}

// protectKept is the reason of a mount that protects a place.
const protectKept = "protect"

// protect adds the places that are kept to the view. One that the policy itself shows, or that lies in something else, is left as it is.
func (c *compiler) protect() error {
	level, dirs := c.pol.Protect.Level(), c.pol.WritableDirs()
	c.beyond()
	if len(dirs) == 0 {
		return nil
	}
	c.plan.Protect = &Protect{Level: string(level)}
	if level == policy.ProtectOff {
		return nil
	}
	for _, e := range dirs {
		if !slices.Contains(c.plan.Protect.Compared, e.Source) {
			c.plan.Protect.Compared = append(c.plan.Protect.Compared, e.Source)
		}
	}
	if c.req.Session && level == policy.ProtectRevert {
		c.note(protectKept, "a session names what its commands have changed when it ends, and puts nothing back: it may be what you have changed meanwhile",
			"run commands by themselves with nsrun run")
	}
	if c.plan.Bare() {
		c.unkept(level)
		return nil
	}
	c.keep()
	return nil
}

// keep adds the places to the view, parents first. A directory between a place and its grant is mounted on itself, as by anchorMounts, but from where it
// really lies.
func (c *compiler) keep() {
	fs := slices.Clone(c.pol.FS)
	added := map[string]bool{}
	add := func(k Kept, name string, write bool) {
		dest := path.Join(k.Grant, name)
		above := c.pol.At(dest)
		covered := slices.ContainsFunc(c.plan.Protect.ReadOnly, func(dir string) bool { return policy.Inside(dest, dir) })
		if covered || added[dest] || above == nil || above.Dest != k.Grant {
			return
		}
		added[dest] = true
		why := protectKept
		if write {
			why = "keeps " + path.Join(k.Grant, k.Path) + " in its place"
		} else {
			c.plan.Protect.ReadOnly = append(c.plan.Protect.ReadOnly, dest)
		}
		fs = append(fs, policy.FS{Kind: policy.Bind, Source: path.Join(k.Real, name), Dest: dest, Write: write, NoExec: above.NoExec, NoFollow: true, Within: above.Within,
			Optional: true, Quiet: true, Why: why})
	}
	for _, k := range c.req.Kept {
		for i, r := range k.Path {
			if r == '/' {
				add(k, k.Path[:i], true)
			}
		}
		add(k, k.Path, false)
	}
	slices.SortStableFunc(fs, func(a, b policy.FS) int { return strings.Count(a.Dest, "/") - strings.Count(b.Dest, "/") })
	c.pol.FS = fs
}

// unkept reports that the backend cannot make places read-only inside a writable one. Under strict that is what was asked for.
func (c *compiler) unkept(level policy.Protect) {
	var kept []string
	for _, k := range c.req.Kept {
		kept = append(kept, path.Join(k.Grant, k.Path))
	}
	loss := "the backend " + c.plan.Backend + " cannot make a place read-only inside a writable one"
	switch {
	case level == policy.ProtectStrict:
		c.lose(Note{Feature: protectKept, Loss: loss + ": --protect strict", Fix: "use the backend native, or --protect revert"}, false)
	case len(c.req.Kept) > 0:
		c.note(protectKept, loss+"; these are writable, and compared: "+strings.Join(kept, " "), "use the backend native")
	}
}

// beyond notes protected paths of the policy that no writable grant holds: nothing can change them.
func (c *compiler) beyond() {
	for _, place := range c.pol.ProtectPaths {
		in := func(e policy.FS) bool { return e.Source != place && policy.Inside(place, e.Source) }
		if !slices.ContainsFunc(c.pol.WritableDirs(), in) {
			c.note(protectKept, place+" lies in no writable grant, so it needs no protection", "leave it out of --protect")
		}
	}
}

// protectText says what a plan protects.
func (p *Plan) protectText() string {
	if p.Protect == nil {
		return ""
	}
	text := p.Protect.Level
	if n := len(p.Protect.ReadOnly); n > 0 {
		text += "; read-only: " + strings.Join(p.Protect.ReadOnly, " ")
	}
	if n := len(p.Protect.Compared); n > 0 {
		text += "; compared: places in " + strings.Join(p.Protect.Compared, " ") + ", not in repositories below"
	}
	return text
}
