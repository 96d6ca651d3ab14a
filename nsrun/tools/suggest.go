package tools

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Mark is a file by which a preset is suggested.
type Mark struct{ Tool, File string }

// Suggest returns the presets that the project of a policy calls for, each with the first mark of it. Marks are looked for in the working directory, and from
// there up to the workspace's top. Where that is a part of a repository, they are looked for up to the repository's top, too, which
// the preset git shows. Nothing above is looked at, and no directory that a symlink leads to.
func Suggest(p policy.Policy, h Host) (found []Mark) {
	dirs := projectDirs(p, h)
	for _, t := range Table() {
		if file := firstMark(t, dirs); file != "" {
			found = append(found, Mark{t.Name, file})
		}
	}
	return found
}

// firstMark returns the mark of a preset that comes first in the directories, or nothing.
func firstMark(t Tool, dirs []string) string {
	for _, dir := range dirs {
		for _, mark := range t.Marks {
			file := filepath.Join(dir, mark)
			if _, err := os.Lstat(file); err == nil {
				return file
			}
		}
	}
	return ""
}

// projectDirs returns the host's directories that a command's project has marks in: from the working directory up to the top of the project.
func projectDirs(p policy.Policy, h Host) (dirs []string) {
	i := slices.IndexFunc(p.FS, func(e policy.FS) bool {
		return e.Kind == policy.Bind && e.Directory && e.Tool == "" && e.Dest != p.Home
	})
	if i < 0 {
		return nil
	}
	workspace, first := p.FS[i].Source, p.FS[i].Source
	if at := p.At(p.Dir); at != nil && at.Dest == p.FS[i].Dest && at.Source == workspace {
		first = filepath.Join(workspace, strings.TrimPrefix(p.Dir, at.Dest))
	}
	top := workspace
	real, err := h.Real(workspace)
	if err == nil && real == workspace {
		r, err := h.repository(workspace)
		a := adder{host: h}
		if err == nil && r.top != "" && a.refused(workspace, workspace, r) == "" {
			top = r.top
		}
	}
	// A command of an earlier run could have made a symlink of the working directory.
	if within, err := h.Real(first); err != nil || within != filepath.Join(real, strings.TrimPrefix(first, workspace)) {
		first = workspace
	}
	for dir := first; ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == top || dir == "/" {
			return dirs
		}
	}
}

// SuggestFor names the presets for the programs that a command line probably runs, such as npm for "sh -c 'cd x && npm ci'". Where it runs a program of the
// project, or one such as make that runs others, these are also the presets that the project calls for: see [Suggest]. It names only those that would show a
// policy's command something of this host.
func SuggestFor(p policy.Policy, command []string, h Host) (names []string) {
	words := programWords(command)
	var dirs []string
	if slices.ContainsFunc(words, runsOthers) {
		dirs = projectDirs(p, h)
	}
	for _, t := range Table() {
		mentioned := slices.ContainsFunc(words, func(word string) bool { return slices.Contains(t.Programs, filepath.Base(word)) })
		if !mentioned {
			mentioned = firstMark(t, dirs) != ""
		}
		if mentioned && !slices.Contains(p.Tools, t.Name) && adds(p, t.Name, h) {
			names = append(names, t.Name)
		}
	}
	return names
}

// Unshown returns the first note on something that a preset in use could not show and that a program of the command line may miss.
func Unshown(notes []policy.Note, command []string) (policy.Note, bool) {
	words := programWords(command)
	for _, n := range notes {
		name, _, _ := strings.Cut(n.Loss, ": ")
		if n.Feature != "tools" || !slices.Contains(Names, name) {
			continue
		}
		if t, err := Find(name); err == nil &&
			slices.ContainsFunc(words, func(word string) bool { return slices.Contains(t.Programs, filepath.Base(word)) }) {
			return n, true
		}
	}
	return policy.Note{}, false
}

// runners are programs that run those of a project.
var runners = []string{"just", "make", "ninja", "task", "tox"}

// runsOthers reports whether a word names a program that runs those of a project: a script of it, by a relative path, or one such as make.
func runsOthers(word string) bool {
	return strings.Contains(word, "/") && !filepath.IsAbs(word) || slices.Contains(runners, filepath.Base(word))
}

// shells run a script that is named after them.
var shells = []string{"bash", "dash", "ksh", "sh", "zsh"}

// programWords returns the words that stand where a program does: the command, the script that a shell runs, and in what may be the text of a script the first
// word of each command. A script's name has a slash in it.
func programWords(command []string) (programs []string) {
	shell := len(command) > 0 && slices.Contains(shells, filepath.Base(command[0]))
	for i, word := range command {
		switch {
		case i == 0:
			programs = append(programs, word)
		case i == 1 && shell && !strings.HasPrefix(word, "-") && !filepath.IsAbs(word):
			programs = append(programs, "./"+word)
		}
		text := i == 2 && shell && strings.HasPrefix(command[1], "-") && strings.HasSuffix(command[1], "c")
		if !text && !strings.ContainsAny(word, " \n;") {
			continue
		}
		for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return strings.ContainsRune(";&|()`\n", r) }) {
			for _, first := range strings.Fields(part) {
				if !strings.Contains(first, "=") && !slices.Contains(before, first) {
					programs = append(programs, first)
					break
				}
			}
		}
	}
	return programs
}

// before are words of a shell that come before a program.
var before = []string{"!", "command", "do", "else", "env", "exec", "if", "nice", "sudo", "then", "time", "until", "while", "{"}

// adds reports whether a preset shows something that exists, changes the filter, or is of variables alone.
func adds(p policy.Policy, name string, h Host) bool {
	asked := len(p.FS)
	p.Tools = []string{name}
	with, _, err := Add(p, policy.Operator{}, h)
	if err != nil {
		return false
	}
	if t, err := Find(name); err == nil && len(t.Places) == 0 && len(t.Set) > 0 {
		return true
	}
	return with.Seccomp.Filter != p.Seccomp.Filter || slices.ContainsFunc(with.FS[asked:], func(e policy.FS) bool {
		_, err := os.Stat(e.Source)
		return e.Kind == policy.File || e.Source != "" && err == nil
	})
}
