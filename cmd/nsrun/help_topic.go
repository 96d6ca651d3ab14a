package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// topics are what there is help on beside the verbs: tables that the program itself goes by.
var topics = []struct {
	name, does string
	text       func() string
}{
	{"autonomy", "what readonly, supervised and full make of grants", autonomyHelp},
	{"guarantees", "what each promises, and which backends give it", guaranteesHelp},
	{"limits", "their names, units and defaults, and what holds each", limitsHelp},
	{"network", "none, host, and the rules of allow: what can be reached", networkHelp},
	{"protect", "what is done about git hooks and the like that a program leaves", protectHelp},
	{"verdicts", "how a run can have ended, by what exit code and evidence", verdictsHelp},
}

// guaranteesHelp prints the table of guarantees.
func guaranteesHelp() string {
	var out strings.Builder
	out.WriteString(wrap("The guarantees that --require, \"require\" and NSRUN_REQUIRE may name, what holds, and which backends give each in full at best; "+
		"nsrun status says what is so here.", 112))
	for _, t := range plan.Traits {
		var give []string
		for i, cell := range t.Backends {
			if cell.Grade == plan.Carried {
				give = append(give, plan.Backends()[i])
			}
		}
		fmt.Fprintf(&out, "\n  %s: %s\n", t.Name, strings.Join(give, " "))
		for line := range strings.Lines(wrap(t.Promise, 104)) {
			fmt.Fprintf(&out, "      %s", line)
		}
	}
	return out.String()
}

// autonomyHelp prints the table of autonomies.
func autonomyHelp() string {
	var out strings.Builder
	out.WriteString(wrap("What --autonomy, or \"autonomy\" of a manifest, makes of grants. A ceiling cuts what is left; where the manifest names one, "+
		"the flag can only lower it.", 112))
	for _, row := range policy.AutonomyTable {
		fmt.Fprintf(&out, "\n  %s\n     ", row.Words)
		for i, a := range policy.Autonomies {
			fmt.Fprintf(&out, " %s: %s;", a, row.Effects[i])
		}
		out.WriteString("\n")
	}
	return strings.ReplaceAll(out.String(), ";\n", "\n")
}

// limitsHelp prints the table of limits.
func limitsHelp() string {
	var out strings.Builder
	out.WriteString(wrap("The limits of --limit NAME=NUMBER and \"limits\" of a manifest: name, unit, and the default where neither says one; "+
		"below, of what it is, and what holds it. nsrun plan says what holds here.", 112))
	for _, l := range slices.Concat(policy.LimitTable, policy.TimeTable) {
		fmt.Fprintf(&out, "\n  %-18s%-7s%s\n", l.Name, cmp.Or(l.Unit, "-"), cmp.Or(l.DefaultWords(), "-"))
		for line := range strings.Lines(wrap(l.Help+"; held by "+l.EnforcedBy, 104)) {
			fmt.Fprintf(&out, "      %s", line)
		}
	}
	out.WriteString("\n" + wrap("A number counts in the limit's unit. With a unit it is converted and rounded up: bytes as 512k, 2G or 1GiB, all powers of 1024; times as 90s "+
		"or 1h30m; shares as 50%. timeout and kill_grace are flags of their own: --timeout 30s, --kill-grace 2s. Where lower limits than the default ones are in "+
		"force already, these stay.", 112))
	return out.String()
}

// verdictsHelp prints the table of verdicts.
func verdictsHelp() string {
	var out strings.Builder
	out.WriteString("How a run has ended, as --result, -v and audit show say it: verdict, nsrun's exit code, and evidence.\n\n")
	for _, v := range result.VerdictTable {
		name := fmt.Sprintf("  %-16s%-18s", v.Verdict, v.Code)
		for line := range strings.Lines(wrap(v.Evidence, 76)) {
			out.WriteString(name + line)
			name = strings.Repeat(" ", len(name))
		}
	}
	out.WriteString("\n" + wrap("A command's own exit code can be any of these: the verdict tells them apart. Logs have two words more: running, and "+
		"aborted, of a run whose nsrun was killed.", 112))
	return out.String()
}

// wrap breaks a text into lines of at most so many characters.
func wrap(text string, most int) string {
	var out strings.Builder
	width := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case width == 0:
		case width+1+len(word) > most:
			out.WriteByte('\n')
			width = 0
		default:
			out.WriteByte(' ')
			width++
		}
		out.WriteString(word)
		width += len(word)
	}
	return out.String() + "\n"
}
