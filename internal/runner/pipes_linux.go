package runner

import (
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
	var trees []backend.Tree
	for _, e := range p.FS {
		if e.Kind != policy.Bind || e.Write || !insideWritable(p.FS, e.Dest) {
			continue
		}
		t := backend.Tree{Source: e.Source, Dest: e.Dest, Without: map[string]bool{}}
		for _, o := range p.FS {
			if o.Dest != e.Dest && policy.Inside(o.Dest, e.Dest) {
				t.Without[strings.TrimPrefix(o.Dest, e.Dest+"/")] = true
			}
		}
		trees = append(trees, t)
	}
	return backend.FindPipes(trees)
}

func insideWritable(all []policy.FS, dest string) bool {
	for _, o := range all {
		if o.Write && (o.Kind == policy.Bind || o.Kind == policy.Tmpfs) && o.Dest != dest && policy.Inside(dest, o.Dest) {
			return true
		}
	}
	return false
}
