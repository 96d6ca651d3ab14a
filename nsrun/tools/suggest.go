package tools

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Suggest names the presets that a workspace calls for: those of which it has a mark at its top.
func Suggest(workspace string) (names []string) {
	for _, t := range Table() {
		for _, mark := range t.Marks {
			if _, err := os.Lstat(filepath.Join(workspace, mark)); err == nil {
				names = append(names, t.Name)
				break
			}
		}
	}
	return names
}

// SuggestFor names the presets for the programs that a command line probably runs, such as npm for "sh -c 'cd x && npm ci'", of those that would show a
// policy's command something of this host.
func SuggestFor(p policy.Policy, command []string, h Host) (names []string) {
	programs := mentioned(command)
	for _, t := range Table() {
		mentioned := slices.ContainsFunc(t.Programs, func(program string) bool { return slices.Contains(programs, program) })
		if mentioned && !slices.Contains(p.Tools, t.Name) && adds(p, t.Name, h) {
			names = append(names, t.Name)
		}
	}
	return names
}

// mentioned are the names that stand where a program does: the command, and in what may be a script of a shell's the first word of each command.
func mentioned(command []string) (programs []string) {
	for i, word := range command {
		if i == 0 {
			programs = append(programs, filepath.Base(word))
		}
		if !strings.ContainsAny(word, " \n;") {
			continue
		}
		for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return strings.ContainsRune(";&|()`\n", r) }) {
			for _, first := range strings.Fields(part) {
				if !strings.Contains(first, "=") && !slices.Contains(before, first) {
					programs = append(programs, filepath.Base(first))
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
