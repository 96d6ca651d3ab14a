package policy

import (
	"cmp"
	"slices"
	"strings"
)

// Arrange puts entries into an order in which none hides another that was asked for: entries at parents come before entries at
// what lies below them, one entry for each place, read-only winning over writable. It returns a note for each entry it narrowed.
//
// Precondition: the entries are valid. Front ends whose order is not the user's (the manifest, the flags of run) call it; one
// whose order has meaning (bwrap) does not.
func Arrange(entries []FS) (arranged []FS, notes []Note) {
	arranged, notes = uniquePlaces(entries)
	slices.SortStableFunc(arranged, func(a, b FS) int { return cmp.Compare(depth(a.Dest), depth(b.Dest)) })
	return dropCovered(arranged), notes
}

func depth(path string) int {
	if path == "/" {
		return 0
	}
	return strings.Count(path, "/")
}

// uniquePlaces keeps one entry a place: a later one replaces an earlier one of another kind, and of two binds the stricter wins.
func uniquePlaces(entries []FS) (kept []FS, notes []Note) {
	at := map[string]int{}
	for _, e := range entries {
		i, seen := at[e.Dest]
		if !seen {
			at[e.Dest] = len(kept)
			kept = append(kept, e)
			continue
		}
		old := kept[i]
		switch {
		case e.Kind == Dir: // something more than an empty directory is there already
		case old.Kind == Bind && e.Kind == Bind && old.Source == e.Source && old.Write != e.Write:
			e.Write = false
			notes = append(notes, Note{"fs", e.Dest + " was asked for read-only and writable; it is read-only", "ask once"})
			kept[i] = e
		default:
			kept[i] = e
		}
	}
	return kept, notes
}

// dropCovered drops binds that show what a bind above shows at the same place with the same access, and empty directories
// inside binds. Precondition: parents first.
func dropCovered(entries []FS) (kept []FS) {
	for _, e := range entries {
		if !covered(e, kept) {
			kept = append(kept, e)
		}
	}
	return kept
}

func covered(e FS, above []FS) bool {
	for _, a := range slices.Backward(above) {
		if e.Dest == a.Dest || !Inside(e.Dest, a.Dest) {
			continue
		}
		if a.Kind != Bind { // the nearest entry above decides
			return false
		}
		if e.Kind == Dir {
			return a.Write || !a.Optional
		}
		rest := strings.TrimPrefix(e.Dest, a.Dest)
		return e.Kind == Bind && e.Source == a.Source+rest && e.Write == a.Write && !a.Optional && !e.NoExec
	}
	return false
}
