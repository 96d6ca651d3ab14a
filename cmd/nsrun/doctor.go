package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

func doctorFlagSet(asJSON *bool, require *string) *flag.FlagSet {
	fs := newFlags("doctor")
	fs.BoolVar(asJSON, "json", false, "")
	fs.StringVar(require, "require", "", "")
	return fs
}

// doctor exits with 0 if the default policy, or what --require lists, can be enforced here, and with 1 if not.
func (a *app) doctor(args []string) int {
	var asJSON bool
	var require string
	fs := doctorFlagSet(&asJSON, &require)
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	if fs.NArg() > 0 {
		return a.fail(fmt.Errorf("doctor takes no arguments, got %q", fs.Arg(0)))
	}
	var names []facts.Name
	for _, name := range strings.FieldsFunc(require, func(r rune) bool { return r == ',' || r == ' ' }) {
		if _, ok := facts.Lookup(facts.Name(name)); !ok {
			return a.fail(fmt.Errorf("--require %s: not a feature; see nsrun doctor for their names", name))
		}
		names = append(names, facts.Name(name))
	}
	if require != "" && len(names) == 0 {
		return a.fail(fmt.Errorf("--require %s: names no feature; see nsrun doctor for their names", require))
	}
	known := nsrun.Probe()
	missing := lacking(known, names)
	code := 0
	if len(missing) > 0 {
		code = 1
	}
	text := table(known, missing, len(names) > 0)
	if asJSON {
		data, err := json.MarshalIndent(known, "", "  ")
		if err != nil {
			return a.fail(err)
		}
		text = string(data) + "\n"
	}
	if failed := a.print(text); failed != 0 {
		return failed
	}
	return code
}

// lacking lists what stands in the way of the named features, or of the default policy if none is named.
func lacking(known facts.Facts, names []facts.Name) (missing []string) {
	for _, name := range names {
		if known.State(name) != facts.Yes {
			missing = append(missing, string(name)+": "+known.Fix(name))
		}
	}
	if len(names) > 0 {
		return missing
	}
	_, err := plan.Compile(plan.Request{Policy: policy.Default("/home/user"), Command: []string{"true"}}, known)
	if err != nil {
		return []string{err.Error()}
	}
	return nil
}

func table(known facts.Facts, missing []string, named bool) string {
	var out strings.Builder
	what := "the default policy"
	if named {
		what = "what --require names"
	}
	if len(missing) == 0 {
		fmt.Fprintf(&out, "this host can enforce %s\n\n", what)
	} else {
		fmt.Fprintf(&out, "this host cannot enforce %s\n%s\n\n", what, strings.Join(missing, "\n"))
	}
	fmt.Fprintf(&out, "kernel %s %s, uid %d, Landlock ABI %d\n\n", known.Kernel, known.Arch, known.UID, known.LandlockABI)
	fmt.Fprintf(&out, "%-20s %-8s %-7s\n", "feature", "here", "since")
	for _, row := range facts.Table {
		state := known.State(row.Name)
		fmt.Fprintf(&out, "%-20s %-8s %-7s\n", row.Name, state, row.Since)
		if state == facts.Yes {
			continue
		}
		if detail := known.Answers[row.Name].Detail; detail != "" {
			fmt.Fprintf(&out, "    found: %s\n", detail)
		}
		fmt.Fprintf(&out, "    lost:  %s\n    fix:   %s\n", row.Loss, known.Fix(row.Name))
	}
	return printable(out.String())
}
