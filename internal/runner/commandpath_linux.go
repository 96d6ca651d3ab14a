package runner

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/commands"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// looseProgram says why a program cannot be told by its name: what is in the directory that it is looked for in could be chosen by who wrote
// the workspace, or by a sandbox.
func looseProgram(p policy.Policy, argv []string) string {
	dirs := []string{path.Dir(argv[0])}
	if !strings.Contains(argv[0], "/") {
		dirs = strings.Split(searchPath(p), ":")
	}
	for _, dir := range dirs {
		if !path.IsAbs(dir) {
			return fmt.Sprintf("PATH holds %q, which is a different directory wherever a command starts", dir)
		}
		if climbs(dir) {
			return fmt.Sprintf("PATH holds %q, where links decide what .. is", dir)
		}
		if why := looseDir(p, path.Clean(dir), path.Base(argv[0])); why != "" {
			return fmt.Sprintf("it is looked for in %s, which %s", dir, why)
		}
	}
	return ""
}

func climbs(dir string) bool { return strings.Contains(dir+"/", "/../") }

// replaced says which entry of the policy's shows something else where programs, libraries and their settings are. /opt is not among them: tools
// of users may be shown there.
func replaced(p policy.Policy) string {
	if p.Commands != commands.Passive {
		return ""
	}
	for _, e := range p.FS {
		over := func(dir string) bool {
			return dir != "/opt" && (policy.Inside(e.Dest, dir) || policy.Inside(dir, e.Dest))
		}
		if e.Kind == policy.Bind && !e.System && e.Source != e.Dest && slices.ContainsFunc(policy.SystemDirs, over) {
			return fmt.Sprintf("the policy shows %s at %s, where programs and libraries are looked for", e.Source, e.Dest)
		}
	}
	return ""
}

// higher finds a file that the rule which accepts says must not be there above the workspaces: they end where the search of a [commands.Set] does,
// and what is above them may be seen, too.
func higher(p policy.Policy, set commands.Set, d commands.Decision) (found string, r commands.Rule) {
	i := slices.IndexFunc(set.Rules, func(r commands.Rule) bool { return r.String() == d.Rule })
	if i < 0 {
		return "", r
	}
	r = set.Rules[i]
	for _, w := range workspaces(p) {
		for dir := w.inside; dir != "/"; {
			dir = path.Dir(dir)
			host, ok := shown(p, dir)
			if !ok {
				continue
			}
			for _, name := range r.Absent {
				if _, err := os.Lstat(path.Join(host, name)); !errors.Is(err, fs.ErrNotExist) {
					return path.Join(dir, name), r
				}
			}
		}
	}
	return "", r
}

// shown is what of the host a command sees in a directory, if that is anything.
func shown(p policy.Policy, dir string) (host string, ok bool) {
	if p.Bare() {
		return dir, true
	}
	for _, e := range p.FS {
		if policy.Inside(dir, e.Dest) {
			host, ok = path.Join(e.Source, strings.TrimPrefix(dir, strings.TrimSuffix(e.Dest, "/"))), e.Kind == policy.Bind
		}
	}
	return host, ok
}

// looseDir says why a program of that name in a directory inside could be any.
func looseDir(p policy.Policy, dir, name string) string {
	why, kind := chosen(p, dir)
	for _, e := range p.FS {
		switch {
		case e.Kind != policy.Bind || !policy.Inside(e.Dest, dir):
		case e.Write:
			return "is writable inside"
		case e.Dest == path.Join(dir, name) && inWorkspace(p, e.Source):
			why = cmp.Or(why, "has a file of the workspace in its place")
		}
	}
	if why == "" && (kind == policy.Tmpfs || kind == policy.Overlay) && !p.Bare() {
		return "is empty when a sandbox begins, and may be written to inside"
	}
	return why
}

// chosen says why what a directory inside holds is not the operator's choice, and what kind of entry shows it. Binds that are read-only and of
// other places than the workspace are where users have their tools.
func chosen(p policy.Policy, dir string) (why string, kind policy.Kind) {
	found := p.Bare() && inWorkspace(p, dir) || slices.ContainsFunc(workspaces(p), func(w workspace) bool { return policy.Inside(dir, w.inside) })
	for _, e := range p.FS {
		if !policy.Inside(dir, e.Dest) {
			continue
		}
		kind = e.Kind
		if e.Kind == policy.Bind && e.Write {
			return "is writable inside", kind
		}
		found = found || e.Kind == policy.Bind && inWorkspace(p, path.Clean(e.Source+strings.TrimPrefix(dir, e.Dest)))
	}
	switch {
	case found:
		return "is in the workspace", kind
	case kind == policy.Proc || kind == policy.Dev: // /proc/self/cwd
		return "leads wherever a command starts", kind
	}
	return "", kind
}

// inWorkspace reports whether a path of the host lies in a workspace.
func inWorkspace(p policy.Policy, host string) bool {
	return slices.ContainsFunc(workspaces(p), func(w workspace) bool { return policy.Inside(host, w.host) })
}

// places are hooks that only name places. Where PATH and HOME lead is looked at.
var places = []string{"PATH", "HOME", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP"}

// hooked names a variable of the policy's by which a program that passive accepts would run, or be told by, something that its rules know nothing
// of. An operator whose ceiling asks for these rules need not trust who wrote the policy; whose way this is in can define rules of their own.
func hooked(p policy.Policy, rule []string) (name, why string) {
	if p.Commands != commands.Passive {
		return "", ""
	}
	names := slices.Clone(p.Env.Pass)
	for _, v := range p.Env.Set {
		names = append(names, v.Name)
		if v.Name == "HOME" {
			if why, _ := chosen(p, path.Clean(v.Value)); why != "" || !path.IsAbs(v.Value) || climbs(v.Value) {
				return v.Name, fmt.Sprintf("programs are configured by files below %q, which %s", v.Value, cmp.Or(why, "is not absolute, or climbs by .."))
			}
		} else if policy.NamesFile(v.Name, v.Value) {
			return v.Name, "the C library would read the file that it names"
		}
	}
	for _, name := range names {
		anew := slices.ContainsFunc(rule, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if why, hook := policy.Hook(name); hook && !anew && !slices.Contains(places, name) {
			return name, why
		}
	}
	return "", ""
}

// searchPath is the PATH that a command of the policy has: what is set wins over what is passed.
func searchPath(p policy.Policy) string {
	permissive := p.Isolation.Level() == policy.Permissive
	for _, v := range slices.Backward(p.Env.Set) {
		if v.Name == "PATH" && !permissive {
			return v.Value
		}
	}
	if value, ok := os.LookupEnv("PATH"); ok && (permissive || slices.Contains(p.Env.Pass, "PATH")) {
		return value
	}
	return policy.DefaultPath
}
