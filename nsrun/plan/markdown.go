package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Markdown returns the traits as a table for doc/backends.md: what is promised, and how far each backend gives it.
func Markdown() string {
	var out strings.Builder
	out.WriteString("| guarantee | what holds |")
	for _, e := range Backends() {
		out.WriteString(" " + e + " |")
	}
	out.WriteString("\n|---|---|" + strings.Repeat("---|", len(backends)) + "\n")
	var losses []string
	for _, t := range Traits {
		fmt.Fprintf(&out, "| `%s` | %s |", t.Name, t.Promise)
		for i, cell := range t.Backends {
			out.WriteString(" " + cell.Grade.mark() + " |")
			if cell.Loss != "" {
				losses = append(losses, fmt.Sprintf("- %s, `%s`: %s", backends[i], t.Name, cell.Loss))
			}
		}
		out.WriteString("\n")
	}
	out.WriteString("\n● holds, ◐ holds but for what is said here, – does not hold:\n\n")
	return out.String() + strings.Join(losses, "\n") + "\n"
}

// AutonomyMarkdown returns the table of autonomies for doc/manifest.md.
func AutonomyMarkdown() string {
	var out strings.Builder
	out.WriteString("| what is granted |")
	for _, a := range policy.Autonomies {
		fmt.Fprintf(&out, " `%s` |", a)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(policy.Autonomies)) + "\n")
	for _, row := range policy.AutonomyTable {
		fmt.Fprintf(&out, "| %s |", row.Words)
		for _, e := range row.Effects {
			fmt.Fprintf(&out, " %s |", e)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// LimitMarkdown returns the table of limits for doc/limits.md.
func LimitMarkdown() string {
	var out strings.Builder
	out.WriteString("| limit | unit | of what | enforced by | default |\n|---|---|---|---|---|\n")
	for _, l := range slices.Concat(policy.LimitTable, policy.TimeTable) {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", l.Name, l.Unit, l.Help, l.EnforcedBy, l.DefaultWords())
	}
	return out.String()
}

// mark is a grade as one sign.
func (g Grade) mark() string { return [...]string{"–", "◐", "●"}[g] }
