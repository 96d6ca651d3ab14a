package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Kind is how a preset shows a place.
type Kind string

// The kinds of places.
const (
	Read     Kind = "read"     // the host's, read-only, where it exists
	Cache    Kind = "cache"    // a copy of the host's: what is written stays in memory, and is gone afterwards
	Build    Kind = "build"    // the same, but where a home directory is kept or given, it is that one's
	Private  Kind = "private"  // an empty directory in memory
	Settings Kind = "settings" // those of git's settings that run no program, as a file of the sandbox's own
	Copy     Kind = "copy"     // a file of the sandbox's own with what the host's has, of at most 1 MiB
	Socket   Kind = "socket"   // the host's Unix socket, where it exists
	Agent    Kind = "agent"    // the host's SSH agent, by a filter that passes what lists keys and what signs; SSH_AUTH_SOCK names it
	// Repository is what of a git repository lies outside of the workspace. Such a place has no path.
	Repository Kind = "repository"
)

// Kinds lists them all.
var Kinds = []Kind{Read, Cache, Build, Private, Settings, Copy, Socket, Agent, Repository}

// Place is one place that a tool needs.
type Place struct {
	// Path is where it is: absolute, below the home directory with "~/", or below the directory that a variable of the caller's names, with "$NAME". Several
	// are separated by "|"; the first whose variable is set counts, and of sockets the first that is there.
	Path string `json:"path,omitempty"`
	// At is where the sandbox has it, if that is another place: absolute, or below the home directory with "~/".
	At   string `json:"at,omitempty"`
	Kind Kind   `json:"kind"`
	// Why says what the tool needs it for.
	Why string `json:"why"`
}

// Tool is a preset.
type Tool struct {
	Name string `json:"name"`
	Help string `json:"help"`
	// Marks are files of a project, and Programs names of programs, by which the tool is suggested: see [Suggest] and [SuggestFor].
	Marks    []string `json:"marks,omitempty"`
	Programs []string `json:"programs,omitempty"`
	Places   []Place  `json:"places,omitempty"`
	// Pass names variables to take from the caller where they are set. Set gives values, and Offline does where there is no network. What a policy itself
	// passes or sets stays.
	Pass    []string     `json:"pass,omitempty"`
	Set     []policy.Var `json:"set,omitempty"`
	Offline []policy.Var `json:"offline,omitempty"`
	// Filter is a filter of system calls in place of the default one. Empty means that one.
	Filter string `json:"filter,omitempty"`
	// Opens says what a command can do with the preset that it cannot without.
	Opens string `json:"opens"`
}

// Names are those of the table, which a start that uses none does not build.
var Names = []string{"browser", "cc", "dotnet", "git", "go", "gpg", "java", "jupyter", "node", "office", "php", "python", "ruby", "rust", "ssh"}

// Find returns the row of a name or, if the word has a slash in it, the one that the file of that path has: JSON with the fields of a [Tool].
func Find(word string) (Tool, error) {
	if strings.Contains(word, "/") {
		return fromFile(word)
	}
	rows := Table()
	if i := slices.IndexFunc(rows, func(t Tool) bool { return t.Name == word }); i >= 0 {
		return rows[i], nil
	}
	hint := "use " + strings.Join(Names, ", ") + ", or the path of a file with a row of your own"
	if near, ok := policy.Nearest(word, Names); ok {
		hint = fmt.Sprintf("did you mean %s? nsrun tool list has all", near)
	}
	return Tool{}, fmt.Errorf("%q is no preset; %s", word, hint)
}
