package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

func (a *app) plan(args []string) int {
	var f flags
	var asJSON, syscalls bool
	var factsFile, ignored string
	fs := newFlags("plan")
	f.register(fs)
	fs.BoolVar(&asJSON, "json", false, "")
	fs.BoolVar(&syscalls, "syscalls", false, "")
	fs.StringVar(&factsFile, "facts", "", "")
	fs.StringVar(&ignored, "result", "", "") // so that the arguments of run are those of plan
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	req, err := a.request(&f, fs)
	if err != nil {
		return a.fail(err)
	}
	known, err := loadFacts(factsFile)
	if err != nil {
		return a.fail(err)
	}
	p, err := plan.Compile(req, known)
	if err != nil {
		return a.fail(err)
	}
	switch {
	case syscalls:
		text, err := nsrun.Syscalls(p)
		if err != nil {
			return a.fail(err)
		}
		return a.print(text)
	case asJSON:
		data, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			return a.fail(err)
		}
		return a.print(string(data) + "\n")
	}
	text := p.String()
	if factsFile == "" {
		text += onThisHost(p)
	}
	return a.print(text)
}

// onThisHost says what only looking at the host can tell. What would stop the run is part of the plan's text, not an error of it.
func onThisHost(p *plan.Plan) string {
	notes, err := nsrun.Look(p)
	if err == nil && len(notes) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("\non this host\n")
	for _, n := range notes {
		fmt.Fprintf(&out, "      %s\n", n)
	}
	if err != nil {
		fmt.Fprintf(&out, "      the run would fail: %v\n", err)
		if hint := nsrun.Failure(err).Hint; hint != "" {
			fmt.Fprintf(&out, "      hint: %s\n", hint)
		}
	}
	return printable(out.String())
}

func loadFacts(name string) (facts.Facts, error) {
	if name == "" {
		return nsrun.Facts(), nil
	}
	var f facts.Facts
	data, err := readFile(name, 1<<20)
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err == nil && f.Arch == "" {
		err = fmt.Errorf("%s: no arch; facts are what nsrun doctor --json prints", name)
	}
	if err != nil {
		return f, fmt.Errorf("--facts: %w", err)
	}
	return f, nil
}
