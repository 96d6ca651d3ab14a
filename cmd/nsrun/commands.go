package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/commands"
	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// commandsRows are the flags of the verb commands.
func (f *flags) commandsRows() []flagRow {
	return []flagRow{
		{"--commands NAME", offered{&f.commands, commands.Names}, "passive, full, or a name in the manifest's \"command_rules\"", ""},
		{"--manifest FILE", &f.manifest, "take the command rules, the workspace and rules of your own from it", ""},
		{"--workspace DIR", &f.workspace, "where files may lie (default the manifest's workspace; without --manifest the working directory)", ""},
	}
}

// commands explains what command lines may run.
func (a *app) commands(args []string) int {
	var f flags
	fs := newFlags("commands", f.commandsRows()...)
	word, args := wordFirst(args)
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	switch {
	case word == "check" && fs.NArg() > 0:
		return a.commandsCheck(&f, fs)
	case word == "list" && fs.NArg() == 0 && f.commands == "" && f.workspace == "":
		return a.commandsList(&f)
	case word == "show" && fs.NArg() == 1 && f.commands == "" && f.workspace == "":
		return a.commandsShow(&f, fs.Arg(0))
	}
	return a.fail(errors.New("write nsrun commands check [--commands NAME] -- CMD ARG..., nsrun commands list, or nsrun commands show NAME"))
}

// commandsCheck reports whether command rules accept a command: exit code 0 for accepted, 1 for refused.
func (a *app) commandsCheck(f *flags, fs *flag.FlagSet) int {
	pol, err := f.spec(fs)
	if err == nil && pol.Commands == "" {
		err = errors.New("there are no command rules to check by; name some with --commands, or in the manifest")
	}
	if err != nil {
		return a.fail(err)
	}
	d, err := runner.CheckCommand(pol, "", fs.Args())
	if err != nil {
		return a.fail(err)
	}
	if failed := a.print(printable(explained(d))); failed != 0 || d.Accepted {
		return failed
	}
	return 1
}

// explained is a decision in a few lines.
func explained(d commands.Decision) string {
	var out strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&out, "  %-9s %s\n", name, text)
		}
	}
	if d.Accepted {
		fmt.Fprintf(&out, "accepted by the command rules %s\n", d.Commands)
		line("rule", d.Rule)
		line("with", strings.Join(d.Env, " "))
		return out.String()
	}
	fmt.Fprintf(&out, "refused by the command rules %s\n", d.Commands)
	if d.Word == "" && d.Index > 0 {
		line("argument", fmt.Sprintf("%d", d.Index))
	} else {
		line("argument", fmt.Sprintf("%d %q", d.Index, d.Word))
	}
	line("reason", d.Reason)
	line("nearest", d.Rule)
	line("accepted", d.Try)
	return out.String()
}

// ownRules are the command rules that a manifest defines.
func (f *flags) ownRules() ([]policy.CommandRules, error) {
	if f.manifest == "" {
		return nil, nil
	}
	pol, err := load.Spec(f.manifest)
	return pol.CommandRules, err
}

func (a *app) commandsList(f *flags) int {
	own, err := f.ownRules()
	if err != nil {
		return a.fail(err)
	}
	text := "passive   version queries, syntax checks, linters, looking at files; runs no code of the workspace\n" +
		"full      what passive accepts, and interpreters, test runners, package managers, bash FILE.sh\n"
	for _, p := range own {
		text += fmt.Sprintf("%-9s of %s%s\n", p.Name, f.manifest, strings.TrimSuffix("; extends "+p.Extends, "; extends "))
	}
	return a.print(printable(text))
}

func (a *app) commandsShow(f *flags, name string) int {
	own, err := f.ownRules()
	if err != nil {
		return a.fail(err)
	}
	set, err := commands.Find(name, own)
	if err != nil {
		return a.fail(err)
	}
	return a.print(printable(set.String()))
}

// applyCommands puts --commands in the place of the manifest's, which it can only narrow.
func (f *flags) applyCommands(pol policy.Policy) (policy.Policy, error) {
	if f.commands == "" || f.commands == pol.Commands {
		return pol, nil
	}
	wider := slices.ContainsFunc(pol.CommandRules, func(p policy.CommandRules) bool { return p.Name == pol.Commands && p.Extends != "" })
	if pol.Commands != "" && !(f.commands == commands.Passive && (wider || pol.Commands == commands.Full)) {
		return pol, fmt.Errorf("--commands %s: the manifest says %s, and a flag can only narrow that, to passive; leave the flag out", f.commands, pol.Commands)
	}
	pol.Commands = f.commands
	return pol, nil
}
