package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/homes"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// withKept returns p with the home directory that is kept for its workspace, if there is to be one. It looks, and makes nothing: see [useKept].
func withKept(p policy.Policy) (policy.Policy, error) {
	if !keeps(p) {
		return p, nil
	}
	home, err := homes.For(p.KeepHome)
	if err != nil {
		return p, keepFault(err.Error())
	}
	if err := unshown(p, filepath.Dir(home.Dir())); err != nil {
		return p, keepFault(err.Error() + "; grant less, or set XDG_STATE_HOME to another directory")
	}
	// It takes the place of the private one, so that what is granted below comes after it. A plan looks for what only the run makes.
	p.FS = slices.Clone(p.FS)
	if i := slices.IndexFunc(p.FS, func(e policy.FS) bool { return e.System && e.Dest == p.Home }); i >= 0 {
		p.FS[i] = policy.FS{Kind: policy.Bind, Source: home.Dir(), Dest: p.Home, Write: true, NoExec: p.NoExec, Directory: true, NoFollow: true,
			System: true, Optional: true, Quiet: true, Why: "home, kept for " + home.Workspace}
	}
	return p, nil
}

// keeps reports whether a policy's sandbox has a home directory that is kept. A note of the plan says where a backend has none.
func keeps(p policy.Policy) bool {
	return p.KeepHome != "" && !p.Bare()
}

func keepFault(text string) error { return &policy.Fault{Field: "home", Text: text} }

// useKept makes the home directory that is kept, if there is to be one, with places for what is mounted in it. It is not removed until release is called, or
// this process ends.
func useKept(p policy.Policy) (release func(), err error) {
	none := func() {}
	if !keeps(p) {
		return none, nil
	}
	p, err = withKept(p)
	if err != nil {
		return none, err
	}
	home, err := homes.For(p.KeepHome)
	if err != nil {
		return none, keepFault(err.Error())
	}
	shown := func(e policy.FS) bool { return e.System && e.Dest == p.Home && e.Source == home.Dir() }
	if !slices.ContainsFunc(p.FS, shown) { // a grant is the home directory
		return none, nil
	}
	release, err = home.Use(placesBelow(p))
	if err != nil {
		return none, &Error{Stage: homeStage, Err: err}
	}
	return release, nil
}

// mostKept is what a home directory that is kept may take on disk before a run tells of it.
const mostKept = 5 << 30

// largeHome tells of one that takes more.
func largeHome(p policy.Policy) []plan.Note {
	if !keeps(p) {
		return nil
	}
	home, err := homes.For(p.KeepHome)
	if err != nil || !home.Above(mostKept) {
		return nil
	}
	return []plan.Note{{Feature: "home size", Loss: fmt.Sprintf("what is kept for %s takes more than %d GiB in %s", home.Workspace, mostKept>>30, filepath.Dir(home.Dir())),
		Fix: "remove it with nsrun home rm " + home.Name + ", or part of it with a run"}}
}

// placesBelow are the places in the home directory where a policy's grants are mounted, of those that exist.
func placesBelow(p policy.Policy) (places []homes.Place) {
	for _, e := range p.FS {
		if above := p.At(filepath.Dir(e.Dest)); e.Dest == p.Home || above == nil || above.Dest != p.Home {
			continue
		}
		place := homes.Place{Path: e.Dest[len(p.Home)+1:], File: e.Kind == policy.File}
		if e.Kind == policy.Bind || e.Kind == policy.Socket || e.Kind == policy.Overlay {
			info, err := os.Stat(e.Source)
			if err != nil {
				continue // it is left out, or an error that the run has
			}
			place.File = !info.IsDir()
		}
		places = append(places, place)
	}
	return places
}
