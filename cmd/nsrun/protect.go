package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/hostrun"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// protectedLine is one line for what a command has left that makes the host run something: the first such thing, and how many more there are. A thing
// that could not be put back comes first. A path is relative to the working directory if it lies there. A session puts nothing back.
func protectedLine(all []result.ProtectedChange, session bool) string {
	if len(all) == 0 {
		return ""
	}
	first := all[max(0, slices.IndexFunc(all, func(c result.ProtectedChange) bool { return c.NotReverted != "" }))]
	if cwd, err := os.Getwd(); err == nil && policy.Inside(first.Path, cwd) && first.Path != cwd {
		first.Path, _ = filepath.Rel(cwd, first.Path)
	}
	var hints []string
	more := len(all) - 1
	line := first.String()
	if more > 0 {
		line += fmt.Sprintf("; also %d more", more)
		hints = append(hints, "-v lists them")
	}
	reverted := slices.ContainsFunc(all, func(c result.ProtectedChange) bool { return c.Reverted || c.NotReverted != "" })
	switch {
	case session:
		hints = nil
	case !reverted && more > 0:
		hints = append(hints, "--protect revert puts them back")
	case !reverted:
		hints = append(hints, "--protect revert puts it back")
	}
	if len(hints) > 0 {
		line += " (" + strings.Join(hints, ", ") + ")"
	}
	return line
}

// protectHelp is the topic: the levels, and the places from the table.
func protectHelp() string {
	var out strings.Builder
	out.WriteString("--protect report|revert|strict|off|PATH (repeat for paths), \"protect\" and \"protect_paths\" of a manifest\n\n" +
		wrap("A program can leave something in a writable directory that makes programs of the host run something afterwards: a git hook, a setting of git, a "+
			"task of an editor. nsrun run looks at such places before the run and after it, in the root of each writable directory and its .git, not deeper. Each new or "+
			"changed thing is in the result (protected_changed), and the first one on a line of stderr.", 112) + "\n")
	out.WriteString(flagLines([]flagRow{
		{names: "report", help: "the default: git hooks and shell start-up files are read-only where they exist; changes in the other places are reported"},
		{names: "revert", help: "and put back after the run"},
		{names: "strict", help: "the whole .git and all places are read-only where they exist (git commits nothing then); what appears is reported"},
		{names: "off", help: "nothing of this"},
		{names: "PATH", help: "one more file or directory below a writable one, read-only where it exists, and compared"},
	}))
	out.WriteString("\n" + wrap("Of git's configuration only settings count by which git runs a program. With the backends landlock and none nothing is read-only; "+
		"changes are reported all the same. A session compares when it ends, and puts nothing back. The places:", 112) + "\n")
	var rows []flagRow
	for _, base := range []hostrun.Base{hostrun.GitDir, hostrun.Worktree, hostrun.Root} {
		for _, r := range hostrun.Rows(base) {
			name := map[hostrun.Base]string{hostrun.GitDir: ".git/", hostrun.Worktree: ".git/worktrees/*/"}[base] + r.Path
			if r.Mounted {
				r.Why += " (read-only)"
			}
			rows = append(rows, flagRow{names: name, help: r.Why})
		}
	}
	out.WriteString(flagLines(rows))
	return out.String()
}
