package main

import (
	"fmt"
	"slices"
	"strings"
)

const manHelp = `nsrun man [VERB]     print the manual page nsrun(1), or that of a verb, as roff for man(1)

The pages are made from the texts and tables of nsrun help. nsrun(1) has all verbs, nsrun-run(1) and its like
have one.

Examples:
  nsrun man > ~/.local/share/man/man1/nsrun.1
  nsrun man run | man -l -
`

// man prints a manual page.
func (a *app) man(args []string) int {
	fs := newFlags("man")
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	all := shown()
	if fs.NArg() == 0 {
		return a.print(manAll(all))
	}
	i := slices.IndexFunc(all, func(v verb) bool { return v.name == fs.Arg(0) })
	if i < 0 || fs.NArg() > 1 || all[i].help == "" {
		return a.fail(fmt.Errorf("write nsrun man, or nsrun man VERB with one of %s", strings.Join(verbNames(), ", ")))
	}
	v := all[i]
	return a.print(manHead("nsrun-"+v.name, v.does) + manVerb(v, ".SH ") + ".SH SEE ALSO\n.BR nsrun (1)\n")
}

// manHead is the beginning of a page.
func manHead(name, does string) string {
	return fmt.Sprintf(".TH %s 1 \"\" \"nsrun %s\" \"nsrun\"\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(name)), roff(version), roff(name), roff(does))
}

// manAll is the page on all verbs.
func manAll(all []verb) string {
	var out strings.Builder
	out.WriteString(manHead("nsrun", "run a command in a Linux sandbox") + ".SH SYNOPSIS\n.nf\n")
	for _, v := range all {
		fmt.Fprintf(&out, "%s\n", roff(strings.TrimSpace("nsrun "+v.name+" "+v.args)))
	}
	out.WriteString(".fi\n.SH DESCRIPTION\n" + manText(usageTail()) + ".SH VERBS\n")
	for _, v := range all {
		fmt.Fprintf(&out, ".TP\n.B %s\n%s\n", roff(v.name), roff(v.does))
	}
	for _, v := range all {
		if v.help != "" {
			fmt.Fprintf(&out, ".SH NSRUN %s\n%s", roff(strings.ToUpper(v.name)), manVerb(v, ".SS "))
		}
	}
	return out.String()
}

// manVerb is the help of a verb, in sections that a macro begins.
func manVerb(v verb, section string) string {
	synopsis, rest, _ := strings.Cut(v.help, "\n\n")
	rest, examples, _ := strings.Cut(rest, "Example")
	before, after, flags := strings.Cut(rest, "FLAGS\n")
	var out strings.Builder
	out.WriteString(section + "SYNOPSIS\n.nf\n" + roff(synopsis) + "\n.fi\n")
	if strings.TrimSpace(before) != "" {
		out.WriteString(section + "DESCRIPTION\n" + manText(before))
	}
	out.WriteString(section + "OPTIONS\n")
	for _, r := range v.rows() {
		names, value := r.all()
		for i := range names {
			names[i] = `\fB` + roff(spelled(names[i])) + `\fR`
		}
		fmt.Fprintf(&out, ".TP\n%s\n%s\n", strings.TrimSpace(strings.Join(names, ", ")+` \fI`+roff(value)+`\fR`), roff(r.help))
	}
	if flags && strings.TrimSpace(after) != "" {
		out.WriteString(section + "NOTES\n" + manText(after))
	}
	if _, lines, ok := strings.Cut(examples, "\n"); ok {
		out.WriteString(section + "EXAMPLES\n" + manText(lines))
	}
	return out.String()
}

// manText makes of each paragraph one, and keeps the lines of those that are indented.
func manText(text string) string {
	var parts []string
	for part := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		part = strings.Trim(part, "\n")
		switch {
		case part == "":
		case strings.HasPrefix(part, " ") || strings.Contains(part, "\n "):
			parts = append(parts, ".nf\n"+roff(part)+"\n.fi\n")
		default:
			parts = append(parts, roff(part)+"\n")
		}
	}
	return strings.Join(parts, ".PP\n")
}

// roff writes a text so that groff prints it as it is: see groff_char(7).
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\(ga", "^", `\(ha`, "~", `\(ti`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
