package runner

import (
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// pipesOf finds the FIFOs in what a policy grants to be read inside something that it grants to be written: see [plan.Pipes].
func pipesOf(p policy.Policy) (plan.Pipes, error) {
	if p.Bare() || p.Backend == policy.BackendLandlock {
		return plan.Pipes{}, nil
	}
	writable := map[string]bool{}
	for _, e := range p.FS {
		if e.Write && (e.Kind == policy.Bind || e.Kind == policy.Tmpfs || e.Kind == policy.Overlay) {
			writable[e.Dest] = true
		}
	}
	var trees []backend.Tree
	without := map[string]map[string]bool{} // of each tree, by its place
	for _, e := range p.FS {
		if e.Kind != policy.Bind || e.Write || !slices.ContainsFunc(above(e.Dest), func(dir string) bool { return writable[dir] }) {
			continue
		}
		if without[e.Dest] == nil {
			without[e.Dest] = map[string]bool{}
		}
		trees = append(trees, backend.Tree{Source: e.Source, Dest: e.Dest, Without: without[e.Dest]})
	}
	for _, e := range p.FS {
		for _, dir := range above(e.Dest) {
			if names := without[dir]; names != nil {
				names[strings.TrimPrefix(e.Dest[len(dir):], "/")] = true
			}
		}
	}
	return backend.FindPipes(trees)
}

// above returns the directories above a clean path, innermost first.
func above(dest string) (dirs []string) {
	for len(dest) > 1 {
		dest = path.Dir(dest)
		dirs = append(dirs, dest)
	}
	return dirs
}
