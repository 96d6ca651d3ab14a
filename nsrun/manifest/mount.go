package manifest

import (
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Mount shows a file or directory of the host at a place inside: {"from": "~/data", "to": "/data", "write": true, "exec": false}.
type Mount struct {
	From, To             string
	Write, NoExec, Force bool
}

func mountForm() record[Mount] {
	return record[Mount]{what: "a mount", required: []string{"from", "to"}, rows: []row[Mount]{
		{"from", "a path of the host", hostText, func(m *Mount) any { return &m.From }},
		{"to", "its place inside", insideDir, func(m *Mount) any { return &m.To }},
		{"write", "whether it is writable", boolForm{false}, func(m *Mount) any { return &m.Write }},
		{"exec", "whether programs in it can be executed", boolForm{true}, func(m *Mount) any { return &m.NoExec }},
		{"force", "insists where a writable one is refused as a probable mistake", boolForm{false}, func(m *Mount) any { return &m.Force }},
	}}
}

// mounts grants what Mounts name. They are what the manifest's writer wants at a place of their own, so that a source which is missing is an error
// when the command starts.
func (b *builder) mounts() {
	for i, m := range b.Mounts {
		key := indexed("mounts", i)
		for _, other := range b.Mounts[:i] {
			if other.To == m.To {
				b.fault(key+".to", m.To+" is given twice", "give each mount a place of its own")
			}
		}
		b.grant(grant{policy.FS{Kind: policy.Bind, Dest: m.To, Write: m.Write, NoExec: m.NoExec, Force: m.Force, Why: "mounts"}, m.From, key + ".from"})
	}
}

// narrow keeps read-only what is to be so where something writable that is shown elsewhere, the workspace or a mount, shows it too: else the
// program could change its own code by its other name.
func (b *builder) narrow() {
	all := b.grants
	for _, wide := range all {
		if !wide.Write || wide.Source == wide.Dest {
			continue
		}
		for _, g := range all {
			asked := g.Why == "code" || g.Why == "extra_ro"
			if asked && policy.Inside(g.Source, wide.Source) {
				g.Dest = wide.Dest + strings.TrimPrefix(g.Source, wide.Source)
				b.grants = append(b.grants, g)
			}
		}
	}
}
