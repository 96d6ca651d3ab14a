package manifest

import (
	"fmt"
	"path"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// The checks of strings. Each reports what is wrong with one and what to do about it, or nothing. The patterns beside them are what a
// schema can say of the same.

const (
	wordPattern   = `^[a-z][a-z0-9_.-]*$`
	envPattern    = `^[^=*?\[ ]+$`
	insidePattern = `^/.`
	hostPattern   = `^(/|~/|~$)`
	hintPattern   = `^[^$]`
	auditPattern  = `^(/|~/).*[.]jsonl$`
)

// word checks names of ours: lower case, digits, _ . and -.
func word(s string) (problem, fix string) {
	for i, r := range s {
		if !(r >= 'a' && r <= 'z' || i > 0 && (r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.')) {
			return clip(s) + " is not a name", "use lower case letters, digits, _ . and -"
		}
	}
	if s == "" || len(s) > 64 {
		return "the name is empty or longer than 64 letters", "give a shorter one"
	}
	return "", ""
}

func title(s string) (problem, fix string) {
	if s == "" || len(s) > 128 {
		return "the name is empty or longer than 128 bytes", "give a shorter one"
	}
	return "", ""
}

func hostname(s string) (problem, fix string) {
	if policy.CheckHostname(s) != nil {
		return clip(s) + " is not a host name", "use 1 to 64 letters, digits, dots or hyphens"
	}
	return "", ""
}

func envName(s string) (problem, fix string) {
	switch {
	case !policy.ValidEnvName(s) || policy.CheckText(s) != nil || strings.Contains(s, " "):
		return clip(s) + " is not a variable name", "use letters, digits and _"
	case strings.ContainsAny(s, globs):
		return clip(s) + " holds a glob", "name each variable"
	}
	return "", ""
}

// envValue checks values: in PATH a directory that is not absolute would be looked for wherever the program happens to be.
func envValue(name, value string) (problem, fix string) {
	if name != "PATH" {
		return "", ""
	}
	for dir := range strings.SplitSeq(value, ":") {
		if !strings.HasPrefix(dir, "/") {
			return clip(dir) + " in PATH is not an absolute path", "give absolute directories"
		}
	}
	return "", ""
}

func labelValue(name, value string) (problem, fix string) {
	if policy.CheckLabel("a", value) != nil {
		return "the value of " + name + " has control characters", "write one line of text"
	}
	return "", ""
}

// insidePath checks paths inside the sandbox.
func insidePath(s string) (problem, fix string) {
	if !strings.HasPrefix(s, "/") && s != "" {
		return clip(s) + " is not an absolute path", "give the path as it is inside the sandbox, from /"
	}
	if problem, fix = cleanPath(s); problem == "" && s == "/" {
		return "/ is the sandbox's own root", "name a directory in it, such as /workspace"
	}
	return problem, fix
}

// workDir checks working directories, which may be the root.
func workDir(s string) (problem, fix string) {
	if s == "/" {
		return "", ""
	}
	return insidePath(s)
}

// placement checks workspace_at.
func placement(s string) (problem, fix string) {
	if s == "same" {
		return "", ""
	}
	if problem, fix = insidePath(s); problem != "" {
		fix += `; or "same"`
	}
	return problem, fix
}

// hostPath checks paths of the host: absolute, or below the home directory.
func hostPath(s string) (problem, fix string) {
	if s != "" && !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "~") && !strings.HasPrefix(s, "$") {
		return clip(s) + " is a relative path", "give an absolute path, or ~/..."
	}
	return filePath(s)
}

// auditPath checks the name of an audit log. A manifest makes that file wherever its reader may write: the ending keeps it from being one
// that some program takes for its own.
func auditPath(s string) (problem, fix string) {
	if problem, fix = hostPath(s); problem == "" && (!strings.HasSuffix(s, ".jsonl") || strings.HasSuffix(s, "/.jsonl")) {
		return clip(s) + " does not end in .jsonl", "name the log NAME.jsonl"
	}
	return problem, fix
}

// filePath checks paths of the host that may also be relative to the manifest's directory.
func filePath(s string) (problem, fix string) {
	if strings.ContainsAny(s, globs) {
		return clip(s) + " holds a glob", "name the file or directory; only hints of capabilities may hold globs"
	}
	return hint(s)
}

// rootPath checks directories of a ceiling: absolute, and / for everything.
func rootPath(s string) (problem, fix string) {
	switch {
	case s == "/":
		return "", ""
	case !strings.HasPrefix(s, "/"):
		return clip(s) + " is not an absolute path", "give an absolute path"
	}
	return cleanPath(s)
}

// cleanPath checks what all paths have in common.
func cleanPath(s string) (problem, fix string) {
	switch {
	case s == "":
		return "the path is empty", "leave the key out, or give a path"
	case len(s) > 4095:
		return fmt.Sprintf("the path is %d bytes long", len(s)), "the kernel takes 4095"
	}
	for name := range strings.SplitSeq(s, "/") {
		switch {
		case name == "..":
			return clip(s) + " holds ..", "give the path it leads to"
		case len(name) > 255:
			return fmt.Sprintf("the path holds a name of %d bytes", len(name)), "the kernel takes 255"
		}
	}
	if clean := path.Clean(s); clean != s {
		return clip(s) + " is not clean", "write " + clean
	}
	return "", ""
}

// toolPattern is what toolWord takes, for the schema.
const toolPattern = `^([a-z][a-z0-9_.-]*|.*/.*)$`

// toolWord checks the name of a preset, or the path of a file with one.
func toolWord(s string) (problem, fix string) {
	if strings.Contains(s, "/") {
		return hostPath(s)
	}
	return word(s)
}

// homePattern is what homeWord takes, for the schema.
const homePattern = `^(private|keep|none|.*/.*|~)$`

// homeWord checks home: a word, or a directory, which has a slash so that nobody takes it for one.
func homeWord(s string) (problem, fix string) {
	if s == policy.HomePrivate || s == policy.HomeNone || s == policy.HomeKeep {
		return "", ""
	}
	if !strings.Contains(s, "/") && s != "~" {
		return clip(s) + " is no kind of home directory", "use private, keep, none, or a directory with a slash in it"
	}
	return hostPath(s)
}
