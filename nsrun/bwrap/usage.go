package bwrap

import (
	"fmt"
	"strings"
)

// helpColumn is how wide the options are in the usage text.
const helpColumn = 33

// usage is the usage text: asked for, on standard output, or as a refusal.
func (p *parser) usage(asked bool) *Exit {
	name := p.caller.Argv0
	if name == "" {
		name = "bwrap"
	}
	text := usageText(name, p.rows)
	if asked {
		return &Exit{Stdout: text}
	}
	return &Exit{Code: 1, Stderr: text}
}

// usageText has a line for each option. Clients look in it for options, so the form stays.
func usageText(name string, rows []option) string {
	var out strings.Builder
	fmt.Fprintf(&out, "usage: %s [OPTIONS...] [--] COMMAND [ARGS...]\n\n", name)
	for _, row := range rows {
		help := strings.ReplaceAll(row.help, "\n", "\n"+strings.Repeat(" ", helpColumn))
		fmt.Fprintf(&out, "    %-*s %s\n", helpColumn-5, row.synopsis(), help)
	}
	return out.String()
}

func (p *parser) help(option, []string) error    { return p.usage(true) }
func (p *parser) version(option, []string) error { return versionExit() }
