package backend

import (
	"errors"
	"os"
	"path"
	"strings"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Lookup returns the error with which a run of the plan ends if its program is not found inside, where that is certain, and nil where the program
// is there or only the run can tell. It reads the host's directories as the mounts show them. Resolved is what has been found of the mounts; it
// is nil if the sandbox sees the host's own tree.
func Lookup(p *plan.Plan, resolved []mounts.Resolved) error {
	if p.Backend == plan.BackendDocker { // whose own root is not looked at
		return nil
	}
	if p.Bare() && nowhere(p) {
		return explainExec(&Error{Stage: "exec", Op: p.Command[0]}, unix.ENOENT, p)
	}
	v := view{mounts: p.Mounts, resolved: resolved, host: resolved == nil}
	for _, name := range stages.Candidates(p.Command[0], p.Env) {
		if !path.IsAbs(name) {
			name = p.Dir + "/" + name
		}
		if !v.lacks(name) {
			return nil
		}
	}
	return explainExec(&Error{Stage: "exec", Op: p.Command[0]}, unix.ENOENT, p)
}

// view is what a sandbox sees, as far as the host can tell.
type view struct {
	mounts   []mounts.Op
	resolved []mounts.Resolved
	host     bool // it sees the host's own tree
}

// place is a directory or file inside. host is its path on the host, or empty where the sandbox has it alone.
type place struct {
	inside, host string
}

// errUnsure means that only a run can tell what is at a place.
var errUnsure = errors.New("only a run can tell")

// maxLinks is how many symbolic links a path may lead through: MAXSYMLINKS of the kernel.
const maxLinks = 40

// lacks reports whether certainly nothing is at a path inside. It walks name by name, as the kernel does.
func (v view) lacks(name string) bool {
	left, links := strings.Split(name, "/"), 0
	root := place{inside: "/"}
	if v.host {
		root.host = "/"
	}
	stack := []place{root}
	for len(left) > 0 {
		one := left[0]
		left = left[1:]
		switch one {
		case "", ".":
			continue
		case "..":
			stack = stack[:max(1, len(stack)-1)]
			continue
		}
		next, link, err := v.step(stack[len(stack)-1], one)
		if err != nil {
			return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
		}
		if link == "" {
			stack = append(stack, next)
			continue
		}
		if links++; links > maxLinks {
			return false
		}
		if path.IsAbs(link) {
			stack = stack[:1]
		}
		left = append(strings.Split(link, "/"), left...)
	}
	return false
}

// step finds a name in a directory. A link is returned as what it leads to.
func (v view) step(dir place, name string) (next place, link string, err error) {
	next.inside = path.Join(dir.inside, name)
	below := false
	for i := len(v.resolved) - 1; i >= 0; i-- {
		s := v.resolved[i]
		if s.Missing || i >= len(v.mounts) {
			continue
		}
		if s.Dest == next.inside {
			return v.mounted(next, v.mounts[i], s)
		}
		below = below || strings.HasPrefix(s.Dest, next.inside+"/")
	}
	if dir.host == "" {
		if !below {
			return next, "", unix.ENOENT
		}
		return next, "", nil // a directory on the way to a mount
	}
	next.host = path.Join(dir.host, name)
	info, err := os.Lstat(next.host)
	if err == nil && info.Mode().Type() == os.ModeSymlink {
		link, err = os.Readlink(next.host)
	}
	if err != nil && below {
		err = errUnsure
	}
	return next, link, err
}

// mounted is what an operation has put at a place.
func (v view) mounted(at place, op mounts.Op, s mounts.Resolved) (place, string, error) {
	switch {
	case s.Link:
		return at, s.Target, nil
	case op.Kind == mounts.Bind:
		at.host = s.Source
		return at, "", nil
	case op.Kind == mounts.Tmpfs, op.Kind == mounts.Dir, op.Kind == mounts.File:
		return at, "", nil
	}
	return at, "", errUnsure
}
