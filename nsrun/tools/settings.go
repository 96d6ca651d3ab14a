package tools

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/hostrun"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// harmless are settings of git that run no program and name no file: all of a section with ".*".
var harmless = []string{
	"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email", "user.useconfigonly",
	"init.defaultbranch", "init.defaultobjectformat", "pull.rebase", "pull.ff", "pull.octopus", "push.default", "push.autosetupremote", "push.followtags",
	"merge.ff", "merge.conflictstyle", "merge.renames", "merge.directoryrenames", "merge.log", "merge.stat",
	"rebase.autosquash", "rebase.autostash", "rebase.updaterefs", "rebase.missingcommitscheck", "rebase.stat", "rerere.enabled", "rerere.autoupdate",
	"fetch.prune", "fetch.prunetags", "fetch.all", "branch.autosetupmerge", "branch.autosetuprebase", "branch.sort", "tag.sort", "commit.verbose", "commit.cleanup", "status.*", "log.date", "log.decorate", "log.follow",
	"log.mailmap", "format.pretty", "core.autocrlf", "core.eol", "core.safecrlf", "core.quotepath", "core.abbrev", "core.ignorecase", "core.precomposeunicode",
	"core.whitespace", "apply.whitespace", "color.*", "column.*", "diff.algorithm", "diff.renames", "diff.mnemonicprefix", "diff.colormoved",
	"diff.colormovedws", "diff.submodule", "diff.noprefix", "diff.context", "diff.interhunkcontext", "blame.coloring", "blame.date", "blame.showroot", "blame.showemail", "blame.blankboundary", "advice.*", "stash.showpatch",
	"submodule.recurse", "submodule.fetchjobs", "index.version", "feature.manyfiles", "clean.requireforce", "grep.linenumber", "grep.patterntype",
}

// settings writes a file with the harmless ones of the user's settings of git, and with the repositories that git is to trust. What cannot be read, or is no
// configuration, is a note.
func (a *adder) settings(source, dest string) {
	r := &settingsReader{home: a.host.Home}
	if config := a.host.gitConfig(); config != "" { // git reads it before the other
		r.read(config, 0)
	}
	r.read(source, 0)
	for _, problem := range r.problems {
		a.note("settings of git are left out: "+problem, "correct the file")
	}
	for _, top := range a.safe {
		r.found = append(r.found, hostrun.Setting{Key: "safe.directory", Value: top})
	}
	if len(r.found) == 0 {
		return
	}
	a.add(policy.FS{Kind: policy.File, Dest: dest, Data: render(r.found), Mode: 0o644, Optional: true, Quiet: true})
}

type settingsReader struct {
	home     string
	found    []hostrun.Setting
	problems []string
}

// deepest is how far git follows include.path.
const deepest = 10

// read appends the settings of a file, with those that it includes at their place. Conditional includes count for no repository, so they are left out.
func (r *settingsReader) read(file string, depth int) {
	info, err := os.Stat(file)
	if os.IsNotExist(err) {
		return
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", file)
	}
	var data []byte
	if err == nil && info.Size() <= hostrun.MaxGitConfig {
		data, err = os.ReadFile(file)
	} else if err == nil {
		err = fmt.Errorf("%s has more than %d bytes", file, hostrun.MaxGitConfig)
	}
	var all []hostrun.Setting
	if err == nil {
		if all, err = hostrun.ParseGitConfig(data); err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
	}
	if err != nil {
		r.problems = append(r.problems, err.Error())
		return
	}
	for _, s := range all {
		if s.Key == "include.path" && depth < deepest {
			r.read(r.include(s.Value, file), depth+1)
		} else if fits(s.Key) && policy.CheckText(s.Value) == nil {
			r.found = append(r.found, s)
		}
	}
}

// include is the path of an included file (git-config(1), include.path).
func (r *settingsReader) include(name, from string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		return path.Join(r.home, rest)
	}
	if filepath.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(path.Dir(from), name)
}

// fits reports whether a setting is harmless.
func fits(key string) bool {
	section, _, _ := strings.Cut(key, ".")
	return slices.Contains(harmless, key) || slices.Contains(harmless, section+".*") && strings.Count(key, ".") <= 2
}

// render writes settings as git reads them.
func render(all []hostrun.Setting) []byte {
	var out strings.Builder
	out.WriteString("# Made by nsrun of the settings of git that run no program: see nsrun tool show git.\n")
	for _, s := range all {
		first, last := strings.Index(s.Key, "."), strings.LastIndex(s.Key, ".")
		fmt.Fprintf(&out, "[%s", s.Key[:first])
		if first < last {
			fmt.Fprintf(&out, " %s", quoted(s.Key[first+1:last]))
		}
		fmt.Fprintf(&out, "]\n\t%s = %s\n", s.Key[last+1:], quoted(s.Value))
	}
	return []byte(out.String())
}

// quoted is a value in quotes, with what is special in them escaped.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}
