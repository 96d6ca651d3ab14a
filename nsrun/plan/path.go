package plan

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// keptHome notes that the home directory is kept, or that it is not.
func (c *compiler) keptHome() {
	at := c.pol.At(c.home)
	switch {
	case c.pol.KeepHome == "":
	case c.plan.Backend != BackendNone && at != nil && at.Kind == policy.Bind && at.Dest == c.home:
		c.note("home", "it is kept for "+c.pol.KeepHome+": the next run finds what this one leaves in "+at.Source, "")
	default:
		c.note("home", "it is not kept for "+c.pol.KeepHome+", as the backend "+c.plan.Backend+" shows the host's", "use the backend native")
	}
}

// noRetries has programs give up at once that would try again for minutes where there is no network: npm for 70 s, pip for 8 s.
var noRetries = []policy.Var{{Name: "npm_config_fetch_retries", Value: "0"}, {Name: "PIP_RETRIES", Value: "0"}}

// path is the PATH of the command: the caller's, of which the directories are left out that are not in the view, then the system's. Under command
// rules it is the system's alone, as the rules look for programs there: in the caller's, a program that a command has written could stand for
// another one.
func (c *compiler) path() string {
	if c.pol.Commands != "" {
		return policy.DefaultPath
	}
	var dirs, hidden []string
	seen := map[string]bool{}
	for dir := range strings.SplitSeq(cmp.Or(pathOf(c.req.Environ), policy.DefaultPath), ":") {
		dir = path.Clean(dir) // an empty one is the working directory, which is relative, too
		if seen[dir] {
			continue
		}
		seen[dir] = true
		if c.inView(dir) {
			dirs = append(dirs, dir)
		} else {
			hidden = append(hidden, dir)
		}
	}
	for dir := range strings.SplitSeq(policy.DefaultPath, ":") {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		hidden = slices.DeleteFunc(hidden, func(h string) bool { return h == dir })
	}
	c.hiddenPath(hidden)
	return strings.Join(dirs, ":")
}

// inView reports whether what the host has at dir is what the sandbox has there. It looks at no files: a directory that is not there does no harm.
func (c *compiler) inView(dir string) bool {
	if !strings.HasPrefix(dir, "/") || policy.CheckPath(dir) != nil {
		return false
	}
	if c.plan.Backend == BackendNone {
		return true
	}
	e := c.pol.At(dir)
	return e != nil && e.Kind == policy.Bind && e.Source == e.Dest && !e.NoExec
}

// HiddenPath lists the absolute directories of a caller's PATH that are not in that of the command.
func (p *Plan) HiddenPath(environ []string) (hidden []string) {
	own := strings.Split(pathOf(p.Env), ":")
	for dir := range strings.SplitSeq(pathOf(environ), ":") {
		if dir = path.Clean(dir); path.IsAbs(dir) && !slices.Contains(own, dir) && !slices.Contains(hidden, dir) {
			hidden = append(hidden, dir)
		}
	}
	return hidden
}

// Shows reports whether something of the host's is mounted at a path, or above it.
func (p *Plan) Shows(place string) bool {
	return slices.ContainsFunc(p.Mounts, func(op mount) bool {
		return op.Kind == mounts.Bind && op.Source == op.Dest && policy.Inside(place, op.Dest)
	})
}

// pathOf is the PATH of an environment.
func pathOf(environ []string) string {
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			return value
		}
	}
	return ""
}

// mostNamed is how many directories a note names.
const mostNamed = 3

// hiddenPath notes directories of the caller's PATH that the command does not get.
func (c *compiler) hiddenPath(dirs []string) {
	if len(dirs) == 0 {
		return
	}
	named := strings.Join(dirs[:min(len(dirs), mostNamed)], ", ")
	if more := len(dirs) - mostNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	fix := ""
	if i := slices.IndexFunc(dirs, path.IsAbs); i >= 0 {
		fix = "show one with --ro " + dirs[i]
	}
	c.note("path", "left out of PATH, as the sandbox does not show them: "+named, fix)
}
