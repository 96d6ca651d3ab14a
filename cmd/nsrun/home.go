package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/homes"
)

const homeHelp = `nsrun home list [--json]     print the home directories that are kept, one a line
nsrun home rm WORKSPACE...   remove the one that is kept for a workspace, or of a name that list prints

A run with --home keep and --workspace DIR has a home directory that the next such run finds. It lies in
$XDG_STATE_HOME/nsrun/home (or ~/.local/state/nsrun/home), is yours alone, and no other workspace's runs see it.
What a run leaves there acts in the next one, with that one's rights. list prints when a run last began with it,
its size, its name and its workspace; nothing bounds the size. rm fails while a run uses it, and names the
processes.

Examples:
  nsrun run --home keep --workspace . -- npm ci
  nsrun home list
  nsrun home rm .
`

// homeFlags are those of home.
type homeFlags struct{ json bool }

func (f *homeFlags) rows() []flagRow {
	return []flagRow{{"--json", &f.json, "print JSON", ""}}
}

// home lists and removes the home directories that are kept.
func (a *app) home(args []string) int {
	word, args := wordFirst(args)
	var f homeFlags
	fs := newFlags("home", f.rows()...)
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	switch {
	case word == "list" && fs.NArg() == 0:
		return a.homeList(f.json)
	case word == "rm" && fs.NArg() > 0 && !f.json:
		return a.homeRemove(fs.Args())
	}
	return a.fail(errors.New("write nsrun home list [--json], or nsrun home rm WORKSPACE"))
}

func (a *app) homeList(asJSON bool) int {
	all, err := homes.List()
	if err != nil {
		return a.fail(err)
	}
	if asJSON {
		if all == nil {
			all = []homes.Kept{}
		}
		data, err := json.Marshal(all)
		return a.printed(string(data)+"\n", err)
	}
	var out strings.Builder
	for _, k := range all {
		gone := ""
		if _, err := os.Lstat(k.Workspace); err != nil {
			gone = " (is gone)"
		}
		fmt.Fprintf(&out, "%s %8.1f MiB  %s  %s%s\n", k.Used.Format(time.DateTime), float64(k.Bytes)/(1<<20), k.Name, printable(k.Workspace), gone)
	}
	return a.print(out.String())
}

func (a *app) homeRemove(names []string) int {
	code := 0
	for _, name := range names {
		if real, err := filepath.EvalSymlinks(name); err == nil {
			if abs, err := filepath.Abs(real); err == nil {
				name = abs
			}
		}
		if err := homes.Remove(name); err != nil {
			code = a.fail(err)
		}
	}
	return code
}
