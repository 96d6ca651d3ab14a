package manifest

import (
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Capability is one grant of a runtime's manifest: {"kind": "fs", "mode": "read", "hints": ["~/notes/**"]}. Without hints it is
// also written "fs:read".
type Capability struct {
	Kind, Mode string
	Hints      []string
}

// capability is the form of a Capability.
type capability struct{}

func capabilityForm() record[Capability] {
	return record[Capability]{what: "a capability", required: []string{"kind", "mode"}, rows: []row[Capability]{
		{"kind", "the family: fs, network, code; others change nothing", wordText, func(c *Capability) any { return &c.Kind }},
		{"mode", "what of it; for fs read or write", wordText, func(c *Capability) any { return &c.Mode }},
		{"hints", "for fs, paths, cut before the first segment with a glob", listForm[string]{stringForm{}}, func(c *Capability) any { return &c.Hints }},
	}}
}

func (capability) read(d *decoder, n *node, key string, into any) {
	c := into.(*Capability)
	switch n.kind {
	case text:
		d.places[key] = n.at
		var ok bool
		if c.Kind, c.Mode, ok = strings.Cut(n.text, ":"); !ok || badWord(c.Kind) || badWord(c.Mode) {
			d.add(n.at, key, clip(n.text)+" is not a capability", `write family:mode in lower case, such as "network:http"`)
			return
		}
	case object:
		before := len(d.all)
		if capabilityForm().read(d, n, key, c); len(d.all) > before {
			return
		}
	default:
		d.want(n, key, text)
		return
	}
	if c.Kind != "fs" {
		return
	}
	if c.Mode != "read" && c.Mode != "write" {
		at, where := n.at, key
		if n.kind == object {
			where += ".mode"
			at = d.places[where]
		}
		d.add(at, where, "fs has no mode "+clip(c.Mode), "use read or write")
	}
	for i, h := range c.Hints {
		where := indexed(key+".hints", i)
		if problem, fix := hint(h); problem != "" {
			d.add(d.places[where], where, problem, fix)
		}
	}
}

func badWord(s string) bool { problem, _ := word(s); return problem != "" }

func (capability) json(from any) (string, bool) {
	c := from.(*Capability)
	if len(c.Hints) == 0 {
		return quote(c.Kind + ":" + c.Mode), true
	}
	return capabilityForm().json(c)
}

func (capability) schema() map[string]any {
	name := strings.Trim(wordPattern, "^$")
	obj := capabilityForm().schema()
	obj["if"] = map[string]any{"properties": map[string]any{"kind": map[string]any{"const": "fs"}}}
	obj["then"] = map[string]any{"properties": map[string]any{
		"mode":  map[string]any{"enum": []string{"read", "write"}},
		"hints": map[string]any{"items": hintText.schema()}}}
	short := map[string]any{"type": "string", "pattern": "^" + name + ":" + name + "$",
		"if": map[string]any{"pattern": "^fs:"}, "then": map[string]any{"enum": []string{"fs:read", "fs:write"}}}
	return map[string]any{"oneOf": []any{short, obj}}
}

// fs grants what hints name.
func (b *builder) fs(c Capability, key string) {
	if len(c.Hints) == 0 {
		b.note("capabilities", "fs:"+c.Mode+" without hints grants nothing", "add hints")
	}
	for i, h := range c.Hints {
		b.grant(grant{policy.FS{Kind: policy.Bind, Write: c.Mode == "write", Optional: true, Why: "fs:" + c.Mode + " hint " + h},
			h, indexed(key+".hints", i)})
	}
}

// reach opens the network: for what the hints name, or all of it without hints.
func (b *builder) reach(c Capability, key string) {
	b.network = true
	if len(c.Hints) == 0 {
		b.wide = true
	}
	for i, h := range c.Hints {
		if err := policy.CheckRule(h); err != nil {
			problem, fix := ruleFault(err)
			b.fault(indexed(key+".hints", i), problem, fix)
			continue
		}
		b.hints = append(b.hints, h)
	}
}
