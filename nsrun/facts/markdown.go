package facts

import (
	"fmt"
	"strings"
)

// Markdown returns the table as a section of doc/troubleshooting.md: what a host must have, what it may have, and what is lost without each.
func Markdown() string {
	var out strings.Builder
	out.WriteString(`## What the kernel must have

` + "`nsrun doctor`" + ` asks for each of these by using it. **Bold** ones are required: the default policy is refused where one is missing. The
version is that of the first kernel with it, and decides nothing: distributions add features to old kernels and take them from new ones.

| feature | since | without it | what brings it |
|---|---|---|---|
`)
	for _, group := range Groups {
		fmt.Fprintf(&out, "| *%s* | | | |\n", group)
		for _, row := range Table {
			if row.Group != group {
				continue
			}
			name := "`" + string(row.Name) + "`"
			if row.Required {
				name = "**" + name + "**"
			}
			fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", name, row.Since, cell(row.Loss), cell(row.Fix))
		}
	}
	out.WriteString("\nWhere the cause is found out, or the distribution known, doctor names the action for it:\n\n")
	for _, row := range Table {
		var on []string
		for _, o := range row.On {
			if o.Distro != "" {
				on = append(on, o.Distro+" `"+o.Fix+"`")
			}
		}
		if len(on) > 0 {
			fmt.Fprintf(&out, "- `%s`: %s\n", row.Name, strings.Join(on, "; "))
		}
	}
	return out.String()
}

// cell keeps a text from ending its cell, or from being taken for markup.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "$", `\$`).Replace(text)
}
