package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// table writes a table of Markdown.
func table(header []string, rows [][]string) string {
	out := "| " + strings.Join(header, " | ") + " |\n|" + strings.Repeat("---|", len(header)) + "\n"
	for _, row := range rows {
		out += "| " + strings.Join(row, " | ") + " |\n"
	}
	return out
}

// Markdown returns the traits as a table for doc/backends.md: what is promised, and how far each backend gives it.
func Markdown() string {
	var rows [][]string
	var losses []string
	for _, t := range Traits {
		row := []string{"`" + t.Name + "`", t.Promise}
		for i, cell := range t.Backends {
			row = append(row, cell.Grade.mark())
			if cell.Loss != "" {
				losses = append(losses, fmt.Sprintf("- %s, `%s`: %s", backends[i], t.Name, cell.Loss))
			}
		}
		rows = append(rows, row)
	}
	return table(append([]string{"guarantee", "what holds"}, Backends()...), rows) +
		"\n● holds, ◐ holds but for what is said here, – does not hold:\n\n" + strings.Join(losses, "\n") + "\n"
}

// AutonomyMarkdown returns the table of autonomies for doc/manifest.md.
func AutonomyMarkdown() string {
	header := []string{"what is granted"}
	for _, a := range policy.Autonomies {
		header = append(header, "`"+string(a)+"`")
	}
	var rows [][]string
	for _, row := range policy.AutonomyTable {
		rows = append(rows, append([]string{row.Words}, policy.Words(row.Effects[:])...))
	}
	return table(header, rows)
}

// LimitMarkdown returns the table of limits for doc/limits.md.
func LimitMarkdown() string {
	var rows [][]string
	for _, l := range slices.Concat(policy.LimitTable, policy.TimeTable) {
		rows = append(rows, []string{"`" + l.Name + "`", l.Unit, l.Help, l.EnforcedBy, l.DefaultWords()})
	}
	return table([]string{"limit", "unit", "of what", "enforced by", "default"}, rows)
}

// mark is a grade as one sign.
func (g Grade) mark() string { return [...]string{"–", "◐", "●"}[g] }
