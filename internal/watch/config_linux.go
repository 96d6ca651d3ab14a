package watch

import (
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/hostrun"
	"golang.org/x/sys/unix"
)

// config looks at a configuration of git. Only settings count by which git runs a program; git writes the others itself, at every push and checkout.
func (l *look) config(dir int, name, at string, row hostrun.Row) {
	s, data, st := l.read(dir, name, at, hostrun.MaxGitConfig)
	switch {
	case s.value == "":
		return
	case st.Mode&unix.S_IFMT != unix.S_IFREG || data == nil && st.Size > 0:
		s.why = row.Why
		l.items[item{at, ""}] = s
		return
	}
	all, err := hostrun.ParseGitConfig(data)
	if err != nil {
		l.items[item{at, ""}] = state{value: s.value, words: "cannot be compared: " + err.Error(), why: row.Why}
		return
	}
	values := map[string][]string{}
	why := map[string]string{}
	for _, set := range all {
		if name, words, runs := set.Runs(); runs {
			values[name] = append(values[name], set.Value)
			why[name] = words
		}
	}
	for key, all := range values {
		l.items[item{at, key}] = state{value: strings.Join(all, "\x00"), why: why[key]}
	}
	if row.Base == hostrun.GitDir {
		l.named(all, at)
	}
}

// named notes the files that a configuration leads to, as far as they lie below the root.
func (l *look) named(all []hostrun.Setting, at string) {
	add := func(to *[]string, dir, name string) {
		if name, ok := l.below(dir, name); ok && !slices.Contains(*to, name) && len(*to) < maxIncludes {
			*to = append(*to, name)
		}
	}
	for _, name := range hostrun.Includes(all) {
		add(&l.includes, path.Dir(at), name)
	}
	for _, set := range all {
		if set.Key == "core.hookspath" { // relative to where git runs hooks, the root of the work tree
			add(&l.hooks, "", set.Value)
		}
	}
}

// follow looks at what others lead to. The first look finds it on the way, as these can lead to more.
func (l *look) follow(first *leads) {
	to := &l.leads
	if first != nil {
		to = first
	}
	for i := 0; i < len(to.includes) && i < maxIncludes; i++ {
		l.row(l.root, nil, "", hostrun.Row{Base: hostrun.GitDir, Path: to.includes[i], Compared: hostrun.GitConfig, Why: "git on the host reads it with the configuration"})
	}
	for i := 0; i < len(to.hooks) && i < maxIncludes; i++ {
		l.row(l.root, nil, "", hostrun.Row{Base: hostrun.GitDir, Path: to.hooks[i], Compared: hostrun.Hooks, Why: "git on the host would run it, as core.hooksPath says"})
	}
	for i := 0; i < len(to.links) && i < maxLinks; i++ {
		l.row(l.root, nil, "", hostrun.Row{Base: hostrun.GitDir, Path: to.links[i].path, Compared: hostrun.Tree, Depth: 2, Why: to.links[i].why})
	}
}
