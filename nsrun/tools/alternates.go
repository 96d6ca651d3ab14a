package tools

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// alternates notes the directories that a repository borrows objects from (git clone -s, gitrepository-layout(5)) and that are not in view. None is added: a
// command of an earlier run could have named any directory, and nothing in it names the repository back.
func (a *adder) alternates(r repository) {
	objects := r.gitDir
	if objects == "" {
		objects = r.entry
	}
	objects += "/objects"
	file := objects + "/info/alternates"
	if real, err := a.host.Real(file); err != nil || real != file {
		return
	}
	data, err := readBounded(file, maxLink)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' || policy.CheckText(line) != nil {
			continue
		}
		dir := filepath.Clean(under(objects, line))
		if a.shows(dir) {
			continue
		}
		a.note("the repository of "+path.Dir(objects)+" borrows objects from "+dir+", which is not shown", "look at it; if it is right, grant it with --ro "+dir)
		return // one that is not in view is enough for git to fail
	}
}

// shows reports whether the policy, with what was added, has a directory of the host at its own path.
func (a *adder) shows(dir string) bool {
	return a.granted(dir) || slices.ContainsFunc(a.FS, func(e policy.FS) bool { return e.Found && policy.Inside(dir, e.Dest) })
}
