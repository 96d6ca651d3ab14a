package runner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/watch"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// maxChanges bounds what a result lists.
const maxChanges = 100

// protectNote is the feature of notes on protected places.
const protectNote = "protect"

// watchFor looks at the places in a policy's writable grants that make the host run something. It is nil if there are none to look at.
func watchFor(p policy.Policy) *watch.Watch {
	if p.Protect == policy.ProtectOff {
		return nil
	}
	var grants []watch.Grant
	for _, e := range p.WritableDirs() {
		if slices.ContainsFunc(grants, func(g watch.Grant) bool { return g.Source == e.Source }) {
			continue
		}
		g := watch.Grant{Source: e.Source}
		for _, place := range p.ProtectPaths {
			if place != e.Source && policy.Inside(place, e.Source) {
				g.Paths = append(g.Paths, strings.TrimPrefix(place, strings.TrimSuffix(e.Source, "/")+"/"))
			}
		}
		grants = append(grants, g)
	}
	if len(grants) == 0 {
		return nil
	}
	return watch.Open(grants, watch.Options{Strict: p.Protect == policy.ProtectStrict, Revert: p.Protect == policy.ProtectRevert})
}

// keptBy lists what is to be read-only, wherever a grant is shown. It is not nil.
func keptBy(w *watch.Watch, p policy.Policy) []plan.Kept {
	kept := []plan.Kept{}
	for _, e := range p.WritableDirs() {
		real, names := w.Kept(e.Source)
		for _, name := range names {
			kept = append(kept, plan.Kept{Real: real, Grant: e.Dest, Path: name})
		}
	}
	return kept
}

// uncompared has a note for each place of which too much would have to be looked at.
func uncompared(w *watch.Watch) (notes []plan.Note) {
	for _, at := range w.Uncompared() {
		notes = append(notes, plan.Note{Feature: protectNote, Loss: at + " holds too much to be compared"})
	}
	return notes
}

// compared looks again, once the command and all that it has started have ended, and adds what has changed to its result. The watch is closed.
func compared(w *watch.Watch, end *result.Result) {
	if w == nil {
		return
	}
	defer w.Close()
	changes, moved := w.Finish()
	notes := uncompared(w)
	for _, text := range moved {
		notes = append(notes, plan.Note{Feature: protectNote, Loss: text})
	}
	if more := len(changes) - maxChanges; more > 0 {
		changes = changes[:maxChanges]
		notes = append(notes, plan.Note{Feature: protectNote, Loss: fmt.Sprintf("%d more places have changed that make the host run something", more)})
	}
	for _, c := range changes {
		change := result.ProtectedChange{Path: c.Path, What: c.What, Why: c.Why, Reverted: c.Reverted, NotReverted: c.Left}
		end.ProtectedChanged = append(end.ProtectedChanged, change)
		notes = append(notes, plan.Note{Feature: protectNote, Loss: change.String()})
	}
	end.Receipt.Notes = append(slices.Clone(end.Receipt.Notes), notes...)
}
