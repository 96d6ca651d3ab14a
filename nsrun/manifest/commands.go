package manifest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/commands"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// named is an object whose keys name values of one form, kept as a list in the order of names. key is where a T has its name, value the rest.
type named[T any] struct {
	of    form
	check func(string) (problem, fix string)
	key   func(*T) *string
	value func(*T) any
}

func (f named[T]) read(d *decoder, n *node, key string, into any) {
	if !d.want(n, key, object) || len(n.members) == 0 {
		return
	}
	all := make([]T, len(n.members))
	for i, m := range n.members {
		at := dotted(key, m.name)
		if problem, fix := f.check(m.name); problem != "" {
			d.add(m.at, at, problem, fix)
		}
		*f.key(&all[i]) = m.name
		f.of.read(d, m.value, at, f.value(&all[i]))
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(*f.key(&a), *f.key(&b)) })
	*into.(*[]T) = all
}

func (f named[T]) json(from any) (string, bool) {
	all := *from.(*[]T)
	parts := make([]string, len(all))
	for i := range all {
		text, _ := f.of.json(f.value(&all[i]))
		parts[i] = quote(*f.key(&all[i])) + ":" + text
	}
	return "{" + strings.Join(parts, ",") + "}", len(parts) > 0
}

func (f named[T]) schema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": f.of.schema()}
}

func commandRulesForm() record[policy.CommandRules] {
	programs := named[policy.Program]{listForm[string]{stringForm{validate: shapeText}}, programName,
		func(p *policy.Program) *string { return &p.Name }, func(p *policy.Program) any { return &p.Shapes }}
	return record[policy.CommandRules]{what: "a set of command rules", rows: []row[policy.CommandRules]{
		{"extends", "the built-in command rules that count too", stringForm{choices: commands.Names}, func(p *policy.CommandRules) any { return &p.Extends }},
		{"programs", "by program, as PATH has it, the shapes that its arguments may have", programs, func(p *policy.CommandRules) any { return &p.Programs }},
	}}
}

func commandRulesList() named[policy.CommandRules] {
	return named[policy.CommandRules]{commandRulesForm(), commandRulesName,
		func(p *policy.CommandRules) *string { return &p.Name }, func(p *policy.CommandRules) any { return p }}
}

// commandRulesName checks the name of a manifest's own command rules.
func commandRulesName(s string) (problem, fix string) {
	if slices.Contains(commands.Names, s) {
		return s + " names built-in command rules", "choose another name, and extend it"
	}
	return word(s)
}

func programName(s string) (problem, fix string) {
	if err := commands.CheckProgram(s); err != nil {
		return clip(s) + " is not a program's name", "write it as it stands in a directory of PATH, such as python3"
	}
	return "", ""
}

func shapeText(s string) (problem, fix string) {
	if err := commands.CheckShape(s); err != nil {
		return err.Error(), `write words, FILE, FILE.go, PACKAGE, N, WORD, CODE, and at the end FILE... or ...`
	}
	return "", ""
}

// checkCommands reports a name of command rules that do not exist. Own rules whose faults are reported already do exist.
func (m *Manifest) checkCommands(d *decoder) {
	unread := slices.ContainsFunc(d.all, func(f *Fault) bool { return f.Key == "commands" || f.Key == "command_rules" })
	own := slices.ContainsFunc(m.Wishes.CommandRules, func(p policy.CommandRules) bool { return p.Name == m.Wishes.Commands })
	if m.Wishes.Commands == "" || unread || own && len(d.all) > 0 {
		return
	}
	if _, err := commands.Find(m.Wishes.Commands, m.Wishes.CommandRules); err != nil {
		d.add(d.places["commands"], "commands", err.Error(), "name passive, full, or one of command_rules")
	}
}
