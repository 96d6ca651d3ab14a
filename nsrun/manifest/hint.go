package manifest

import (
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// globs are the characters that make a segment of a path a glob.
const globs = "*?[{"

// cut is the part of a hint before the first segment that holds a glob: "~/notes" of "~/notes/**/*.md".
func cut(hint string) string {
	i := strings.IndexAny(hint, globs)
	if i < 0 {
		return hint
	}
	i = strings.LastIndexByte(hint[:i], '/')
	switch i {
	case -1:
		return "."
	case 0:
		return "/"
	}
	return hint[:i]
}

// hint checks hints and, where globs were refused before, all paths of the host.
func hint(s string) (problem, fix string) {
	first, _, _ := strings.Cut(s, "/")
	switch root := cut(s); {
	case strings.HasPrefix(s, "$"):
		return clip(s) + " begins with a variable, and none is expanded", "write ~/... for the home directory, or the path itself"
	case strings.HasPrefix(s, "~") && first != "~":
		return clip(s) + " begins with ~ and a name", "only ~ and ~/... are expanded; write the path itself"
	case strings.Contains("/"+s+"/", "/../"):
		return clip(s) + " holds ..", "give the path it leads to"
	case root == ".":
		return clip(s) + " names the manifest's own directory", "name what is needed in it"
	case path.Clean(root) == "/":
		return clip(s) + " names /, the whole host", "name the directories that are needed"
	case kernelPlace(root):
		return clip(s) + " names a place of the kernel", "nothing of the host's /proc, /sys or /dev can be shown; the sandbox has its own"
	default:
		return cleanPath(root)
	}
}

// kernelPlace reports whether a path belongs to what policies refuse to show.
func kernelPlace(p string) bool {
	return slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool { return policy.Inside(path.Clean(p), dir) })
}

// resolve gives the absolute path of the host that a hint or path of the manifest means. Precondition: its check found nothing.
func (c Context) resolve(s string) (abs, problem, fix string) {
	s = cut(s)
	base, rest := c.Dir, s
	switch {
	case strings.HasPrefix(s, "/"):
		return s, "", ""
	case s == "~" || strings.HasPrefix(s, "~/"):
		if c.home() == "" {
			return "", clip(s) + " needs a home directory, and " + clip(c.Home) + " cannot be one", "write the path itself"
		}
		base, rest = c.Home, s[1:]
	case policy.CheckPath(c.Dir) != nil:
		return "", clip(s) + " is relative, and the manifest's directory is not known", "give an absolute path"
	}
	return path.Join(base, rest), "", ""
}

// home is the home directory, or nothing where there is none that could be one: relative, unclean, or /.
func (c Context) home() string {
	if c.Home == "/" || policy.CheckPath(c.Home) != nil {
		return ""
	}
	return c.Home
}
