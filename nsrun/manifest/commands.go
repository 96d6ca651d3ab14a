package manifest

import (
	"slices"

	"github.com/nsrun/nsrun/nsrun/commands"
	"github.com/nsrun/nsrun/nsrun/policy"
)

func commandRulesForm() record[policy.CommandRules] {
	shapes := func(string) form { return listForm[string]{stringForm{validate: shapeText}} }
	programs := named[policy.Program]{shapes, programName, "", func(p *policy.Program) *string { return &p.Name }, func(p *policy.Program) any { return &p.Shapes }}
	return record[policy.CommandRules]{what: "a set of command rules", rows: []row[policy.CommandRules]{
		{"extends", "the built-in command rules that count too", stringForm{choices: commands.Names}, func(p *policy.CommandRules) any { return &p.Extends }},
		{"programs", "by program, as PATH has it, the shapes that its arguments may have", programs, func(p *policy.CommandRules) any { return &p.Programs }},
	}}
}

func commandRulesList() named[policy.CommandRules] {
	return named[policy.CommandRules]{func(string) form { return commandRulesForm() }, commandRulesName, "",
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
	unread := slices.ContainsFunc(d.all, func(f *policy.Fault) bool { return f.Field == "commands" || f.Field == "command_rules" })
	own := slices.ContainsFunc(m.Wishes.CommandRules, func(p policy.CommandRules) bool { return p.Name == m.Wishes.Commands })
	if m.Wishes.Commands == "" || unread || own && len(d.all) > 0 {
		return
	}
	if _, err := commands.Find(m.Wishes.Commands, m.Wishes.CommandRules); err != nil {
		d.add(d.places["commands"], "commands", err.Error(), "name passive, full, or one of command_rules")
	}
}
