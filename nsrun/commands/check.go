package commands

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Resolver says whether a path, as the command would be given it, leads to a place inside the workspace. The error of one that is not there is
// [fs.ErrNotExist]; any other error is a reason to refuse it.
type Resolver func(path string) (inside bool, err error)

// Set is a set of command rules, ready to check by.
type Set struct {
	Name  string
	Rules []Rule
}

// Decision is what command rules come to for one command line.
type Decision struct {
	Accepted bool     `json:"accepted"`
	Commands string   `json:"commands"`
	Rule     string   `json:"rule,omitempty"` // that accepts, or that comes nearest
	Env      []string `json:"env,omitempty"`  // what the rule sets for the command
	// Index and Word are the argument that is refused; 0 is the program. An index behind the last means that something is missing.
	Index  int    `json:"index,omitempty"`
	Word   string `json:"word,omitempty"`
	Reason string `json:"reason,omitempty"`
	Try    string `json:"try,omitempty"` // what would be accepted
}

// Text says in a line what was decided.
func (d Decision) Text() string {
	switch {
	case d.Accepted:
		return fmt.Sprintf("command rules %s: accepted by %q", d.Commands, d.Rule)
	case d.Word == "" && d.Index > 0:
		return fmt.Sprintf("command rules %s: argument %d: %s", d.Commands, d.Index, d.Reason)
	}
	return fmt.Sprintf("command rules %s: argument %d %q: %s", d.Commands, d.Index, clip(d.Word), d.Reason)
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

// systemDirs are where a program that is given by its path may lie.
var systemDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// unspecific are reasons that a better one can take the place of, the better ones first.
var unspecific = []string{wordWanted, noOption, notNamed, notMore}

// Check decides on a command line. resolve answers for its file arguments.
func (s Set) Check(argv []string, resolve Resolver) Decision {
	if len(argv) == 0 {
		return Decision{Commands: s.Name, Reason: "there is no command", Try: s.list("")}
	}
	no := Decision{Commands: s.Name, Word: argv[0]}
	name := argv[0]
	if strings.Contains(name, "/") {
		if name = path.Base(name); !slices.Contains(systemDirs, path.Dir(argv[0])) || argv[0] != path.Dir(argv[0])+"/"+name {
			no.Reason, no.Try = "a program is named as PATH has it, or by a path in "+strings.Join(systemDirs, ", "), name
			return no
		}
	}
	nearest := miss{at: -1}
	for _, r := range s.Rules {
		if r.Program != name {
			continue
		}
		missed := r.check(argv[1:], resolve)
		if missed == nil {
			return Decision{Accepted: true, Commands: s.Name, Rule: r.String(), Env: slices.Clone(r.Env)}
		}
		if missed.nearer(nearest) {
			nearest, no.Rule, no.Try = *missed, r.String(), r.Try
		}
	}
	if nearest.at < 0 {
		return s.unknown(no, name, argv)
	}
	no.Index, no.Word, no.Reason = nearest.at+1, "", nearest.why
	if no.Index < len(argv) {
		no.Word = argv[no.Index]
	}
	if i := slices.IndexFunc(argv[1:], isOperator); i >= 0 && no.Reason != noShellHere {
		no.Index, no.Word, no.Reason = i+1, argv[i+1], noShellHere
	} else if why := cmp.Or(explain(name+" "+argv[no.Index-1], no), explain(name, no)); why != "" && slices.Contains(unspecific, no.Reason) {
		no.Reason = why
	}
	if no.Try == "" {
		no.Try = s.list(name)
	}
	return no
}

// nearer reports whether a miss says more of what is wrong than another one does: it is further on in the arguments, but for a word that is
// missing, which says less than what is wrong with one that is there.
func (m miss) nearer(other miss) bool {
	specific := func(m miss) bool {
		return m.at >= 0 && !slices.Contains(unspecific, m.why) && !strings.HasSuffix(m.why, isMissing)
	}
	switch {
	case specific(other) && strings.HasSuffix(m.why, isMissing):
		return false
	case specific(m) && strings.HasSuffix(other.why, isMissing):
		return true
	case m.at != other.at:
		return m.at > other.at
	}
	return slices.Index(unspecific, m.why) < slices.Index(unspecific, other.why)
}

// unknown refuses a program that no rule names.
func (s Set) unknown(no Decision, name string, argv []string) Decision {
	names := s.programs()
	no.Reason, no.Try = "no rule names this program", strings.Join(names, ", ")
	stem := strings.TrimRight(name, "0123456789.-")
	near, ok := policy.Nearest(name, names)
	if i := slices.IndexFunc(names, func(n string) bool { return stem != "" && strings.TrimRight(n, "0123456789") == stem }); i >= 0 {
		near, ok = names[i], true
	}
	switch why := notForUs(name); {
	case why != "":
		no.Reason += "; " + why
	case strings.ContainsAny(name, " \t\n"):
		no.Reason = "this is a whole command line in one word; " + noShellHere
	case shellWord(name) != "":
		no.Reason = noShellHere
	case ok:
		no.Try = near
	}
	if i := slices.IndexFunc(argv[1:], isOperator); i >= 0 {
		no.Reason += "; besides, of " + fmt.Sprintf("%q", argv[i+1]) + ": " + noShellHere
	}
	return no
}

// check says which argument a rule refuses, and nothing if it accepts.
func (r Rule) check(args []string, resolve Resolver) *miss {
	tokens, err := parse(r.Shape)
	if err != nil {
		return &miss{0, "the rule cannot be read: " + err.Error()}
	}
	files, missed := fit(tokens, args)
	if missed != nil {
		return missed
	}
	for i, a := range args {
		if strings.Contains(a, "\x00") {
			return &miss{i, "it holds a NUL byte"}
		}
	}
	dirs := []string{"."}
	for _, i := range files {
		place := tokens[min(i, len(tokens)-1)].place(args[i])
		if r.Globs && strings.ContainsAny(place, globs) {
			return &miss{i, r.Program + " would expand it to other files, which nobody has checked; name one file, without any of " + globs}
		}
		if why := cmp.Or(outside(place, resolve), outside(path.Clean(place), resolve)); why != "" { // some programs take .. away before they open it
			return &miss{i, why}
		}
		if _, err := resolve(place + "/."); r.Plain && err == nil {
			why := ": "
			if len(r.Absent) > 0 {
				why = ", and may hold further files by which "
			}
			return &miss{i, "it is a directory" + why + r.Why + "; name a file"}
		}
		if why := r.writesOutside(place, resolve); why != "" {
			return &miss{i, why}
		}
		dirs = append(dirs, above(place)...)
	}
	for _, dir := range dirs {
		if found := r.present(dir, resolve); found != "" {
			return &miss{len(args) - 1, found + " is there, and " + r.Why}
		}
	}
	return nil
}

// outside says why a place cannot be named.
func outside(place string, resolve Resolver) string {
	inside, err := resolve(place)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "it cannot be resolved: " + err.Error()
	case !inside:
		return "it does not resolve inside the workspace"
	}
	return ""
}

// globs are the characters by which programs that expand patterns tell one from a name.
const globs = `*?[]{}\`

// writesOutside says which directory beside a place leads out of the workspace, where the program would write.
func (r Rule) writesOutside(place string, resolve Resolver) string {
	for _, name := range r.Caches {
		if why := outside(place[:strings.LastIndexByte(place, '/')+1]+name, resolve); why != "" {
			return name + " is beside it, where " + r.Program + " would write: " + why
		}
	}
	return ""
}

// above lists the directory of a place, and those that are above it by name: what is above it where links lead is found on the way up.
func above(place string) []string {
	i := strings.LastIndexByte(place, '/')
	dirs := []string{"./" + place[:max(i, 0)]}
	if path.IsAbs(place) {
		dirs[0] = place[:i+1]
	}
	for dir := path.Dir(place); len(dirs) < deepest; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == path.Dir(dir) || path.Base(dir) == ".." {
			break
		}
	}
	return dirs
}

// deepest bounds the search for files that must not be there.
const deepest = 64

// present finds a file that must not be there, from dir up to where the workspace ends.
func (r Rule) present(dir string, resolve Resolver) string {
	for range deepest {
		if len(r.Absent) == 0 {
			return ""
		}
		if inside, err := resolve(dir); !inside || err != nil { // what is not there has nothing in it
			return ""
		}
		for _, name := range r.Absent {
			if _, err := resolve(dir + "/" + name); !errors.Is(err, fs.ErrNotExist) {
				return path.Join(dir, name)
			}
		}
		dir += "/.."
	}
	return dir
}

// explain says what is wrong with an argument, where that is known.
func explain(program string, no Decision) string {
	name, _, _ := strings.Cut(no.Word, "=")
	if strings.HasPrefix(name, "--") && program == "go" {
		name = name[1:] // package flag takes both
	}
	why := ""
	for _, k := range known {
		switch {
		case k.program != program:
		case slices.Contains(k.words, name):
			return k.why
		case no.Reason == notNamed && name != "" && name[0] != '-' && slices.Contains(k.words, "FILE"):
			why = k.why
		}
	}
	return why
}

// list gives the command lines of a program that are accepted, or the programs.
func (s Set) list(program string) string {
	if program == "" {
		return strings.Join(s.programs(), ", ")
	}
	var all []string
	for _, r := range s.Rules {
		if r.Program == program {
			all = append(all, r.String())
		}
	}
	return strings.Join(all, "; ")
}

func (s Set) programs() (names []string) {
	for _, r := range s.Rules {
		if !slices.Contains(names, r.Program) {
			names = append(names, r.Program)
		}
	}
	return names
}
