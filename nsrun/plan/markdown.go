package plan

import (
	"fmt"
	"strings"
)

// Markdown returns the traits as a table for the README: what is promised, and how far each engine gives it.
func Markdown() string {
	var out strings.Builder
	out.WriteString("| guarantee | what holds |")
	for _, e := range Engines() {
		out.WriteString(" " + e + " |")
	}
	out.WriteString("\n|---|---|" + strings.Repeat("---|", len(engines)) + "\n")
	var losses []string
	for _, t := range Traits {
		fmt.Fprintf(&out, "| `%s` | %s |", t.Name, t.Promise)
		for i, cell := range t.Engines {
			out.WriteString(" " + cell.Grade.mark() + " |")
			if cell.Loss != "" {
				losses = append(losses, fmt.Sprintf("- %s, `%s`: %s", engines[i], t.Name, cell.Loss))
			}
		}
		out.WriteString("\n")
	}
	out.WriteString("\n● holds, ◐ holds but for what is said here, – does not hold:\n\n")
	return out.String() + strings.Join(losses, "\n") + "\n"
}

// mark is a grade as one sign.
func (g Grade) mark() string { return [...]string{"–", "◐", "●"}[g] }
