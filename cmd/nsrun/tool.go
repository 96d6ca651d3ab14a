package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/tools"
)

const toolHelp = `nsrun tool list           print the presets of --tool, one a line
nsrun tool show NAME...   print what they add to a run, why, and which of it this host has; NAME can be a file
                          with a row of your own

A preset adds what a tool needs that the default policy closes: the host's caches as copies, which a command
cannot change on the host, its own installation, variables. None opens the network. What you ask for at a place
wins. A file with a row of your own has the JSON that nsrun tool show --json prints, and is named by a path with
a slash in it.

Examples:
  nsrun tool show go
  nsrun run --workspace . --tool go -- go test ./...
  nsrun run --workspace . --tool node,git -- npm ci
  nsrun tool show --json go >mine.json
  nsrun run --tool ./mine.json -- go version
`

// toolFlags are those of tool.
type toolFlags struct{ json bool }

func (f *toolFlags) rows() []flagRow {
	return []flagRow{{"--json", &f.json, "print JSON", ""}}
}

// tool prints presets.
func (a *app) tool(args []string) int {
	word, args := wordFirst(args)
	var f toolFlags
	fs := newFlags("tool", f.rows()...)
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	switch {
	case word == "list" && fs.NArg() == 0:
		return a.toolList(f.json)
	case word == "show" && fs.NArg() > 0:
		return a.toolShow(fs.Args(), f.json)
	}
	return a.fail(errors.New("write nsrun tool list [--json], or nsrun tool show NAME [--json]"))
}

func (a *app) toolList(asJSON bool) int {
	if asJSON {
		return toolJSON(a, tools.Table())
	}
	var out strings.Builder
	for _, t := range tools.Table() {
		fmt.Fprintf(&out, "%-9s %s\n", t.Name, t.Help)
	}
	return a.print(out.String())
}

func (a *app) toolShow(names []string, asJSON bool) int {
	var all []tools.Tool
	for _, name := range names {
		t, err := tools.Find(name)
		if err != nil {
			return a.fail(err)
		}
		all = append(all, t)
	}
	host := tools.Here()
	if asJSON {
		rows := make([]toolHere, len(all))
		for i, t := range all {
			rows[i] = toolHere{t, tools.Look(t, host)}
		}
		return toolJSON(a, rows)
	}
	var out strings.Builder
	for i, t := range all {
		if i > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(toolText(t, tools.Look(t, host)))
	}
	return a.print(out.String())
}

// toolHere is a row with what this host has of it.
type toolHere struct {
	tools.Tool
	Here tools.OnHost `json:"here"`
}

// toolJSON prints one row as an object, and several as a list.
func toolJSON[T any](a *app, all []T) int {
	var value any = all
	if len(all) == 1 {
		value = all[0]
	}
	data, err := json.MarshalIndent(value, "", "  ")
	return a.printed(string(data)+"\n", err)
}

// toolText is a row for people, with what this host has of it.
func toolText(t tools.Tool, here tools.OnHost) string {
	var out strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&out, "%-9s %s\n", name, printable(text))
		}
	}
	line("tool", t.Name+": "+t.Help)
	for i, p := range t.Places {
		at := ""
		if p.At != "" {
			at = " at " + p.At
		}
		line(string(p.Kind), strings.TrimLeft(p.Path+at+"   # "+p.Why, " "))
		line("", placeText(here.Places[i]))
	}
	line("pass", strings.Join(t.Pass, " "))
	if len(t.Pass) > 0 {
		line("", "here: "+cmp.Or(strings.Join(here.Pass, " "), "none is set"))
	}
	for _, v := range t.Set {
		line("set", v.Name+"="+v.Value)
	}
	for _, v := range t.Offline {
		line("set", v.Name+"="+v.Value+"   # without a network")
	}
	line("filter", t.Filter)
	line("opens", t.Opens)
	if len(t.Marks) > 0 {
		line("suggested", "where a project has "+strings.Join(t.Marks, " or "))
	}
	return out.String()
}

// placeText says what this host has at a place.
func placeText(p tools.PlaceHere) string {
	switch {
	case p.State == tools.Depends:
		return "here: depends " + p.Why
	case p.State == tools.LeftOut:
		return "here: left out: " + p.Why
	case p.State == tools.Absent && p.Path == "":
		return "here: absent: " + p.Why
	}
	return "here: " + string(p.State) + ", " + p.Path
}

// suggested is a line on the presets that a project calls for and that are not used, or empty. None is ever added unasked.
func suggested(p policy.Policy) string {
	var names, files []string
	for _, m := range tools.Suggest(p, tools.Here()) {
		if !slices.Contains(p.Tools, m.Tool) {
			names, files = append(names, m.Tool), append(files, m.File)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%-11s --tool %s, for %s; see nsrun tool show %s\n", "suggested", strings.Join(names, ","), printable(strings.Join(files, ", ")), names[0])
}
