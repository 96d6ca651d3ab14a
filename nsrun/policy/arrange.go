package policy

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// arrange puts entries into an order in which none hides another that was asked for: entries at parents come before entries at
// what lies below them, one entry for each place, read-only winning over writable. What it returns does not depend on the order
// of entries. It returns a note for each entry it narrowed or left out for another.
//
// The command line of bubblewrap, whose order has meaning, becomes a plan without it.
func arrange(entries []FS) (arranged []FS, notes []Note) {
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, byPlace)
	arranged = make([]FS, 0, len(sorted))
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n].Dest == sorted[0].Dest {
			n++
		}
		one, said := onePlace(sorted[:n])
		arranged, notes, sorted = append(arranged, one), append(notes, said...), sorted[n:]
	}
	return dropCovered(arranged), notes
}

func depth(path string) int {
	if path == "/" {
		return 0
	}
	return strings.Count(path, "/")
}

// byPlace orders by depth, then place; at one place by who decides it: what was asked for before what every sandbox has, and
// an empty directory last. What is asked for twice is ordered strictest first.
func byPlace(a, b FS) int {
	if c := cmp.Compare(depth(a.Dest), depth(b.Dest)); c != 0 {
		return c
	}
	if c := strings.Compare(a.Dest, b.Dest); c != 0 {
		return c
	}
	return cmp.Or(truth(a.Kind == Dir, b.Kind == Dir), truth(a.System, b.System), truth(a.Tool != "", b.Tool != ""), truth(a.Write, b.Write),
		strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Source, b.Source),
		strings.Compare(string(a.Data), string(b.Data)), strings.Compare(a.Why, b.Why))
}

func truth(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// onePlace makes one entry of all those at one place. Precondition: ordered by byPlace.
func onePlace(all []FS) (FS, []Note) {
	var notes []Note
	one := all[0]
	for _, e := range all[1:] {
		switch {
		case one.Force && e.System, one.Tool == "" && e.Tool != "": // gives way, too
		case same(one, e):
			if one.Write != e.Write {
				text := " was asked for read-only and writable; it is read-only"
				if one.System || e.System {
					text = " is the system's; it is read-only"
				}
				notes = append(notes, Note{Feature: "fs", Loss: e.Dest + text, Fix: "ask for it once"})
			}
			one = stricter(one, e)
		case e.Kind == Dir || e.System: // gives way
		default:
			notes = append(notes, Note{Feature: "fs", Loss: e.Dest + " was asked for twice; it shows " + one.shows() + ", not " + e.shows(), Fix: "ask for it once"})
		}
	}
	return one, slices.Compact(notes)
}

// same reports whether two entries at one place show the same thing.
func same(a, b FS) bool {
	return a.Kind == b.Kind && a.Source == b.Source && string(a.Data) == string(b.Data)
}

// shows says what an entry puts at its place.
func (e FS) shows() string {
	if e.Source != "" {
		return e.Source
	}
	return "a " + string(e.Kind)
}

// stricter is the entry that grants only what both grant.
func stricter(a, b FS) FS {
	a.Write = a.Write && b.Write
	a.NoExec = a.NoExec || b.NoExec
	a.NoFollow = a.NoFollow || b.NoFollow
	a.KeepLink = a.KeepLink || b.KeepLink
	a.Directory = a.Directory || b.Directory
	a.System = a.System || b.System
	a.Optional = a.Optional && b.Optional
	a.Quiet = a.Quiet && b.Quiet
	a.Force = a.Force || b.Force
	a.Agent = a.Agent || b.Agent
	a.Tool, a.Variable = min(a.Tool, b.Tool), max(a.Variable, b.Variable) // of two presets
	a.Found = a.Found || b.Found
	a.SizeMB = least(a.SizeMB, b.SizeMB)
	a.Inodes = least(a.Inodes, b.Inodes)
	if a.Mode != b.Mode {
		a.Mode = cmp.Or(a.Mode, 0o755) & cmp.Or(b.Mode, 0o755)
	}
	if within, ok := meet(a.Within, b.Within); ok {
		a.Within = within
	}
	if a.Why != b.Why {
		why := append(strings.Split(a.Why, ", "), strings.Split(b.Why, ", ")...)
		slices.Sort(why)
		a.Why = strings.Join(slices.Compact(why), ", ")
	}
	return a
}

// least is the smaller of two bounds, where 0 is no bound.
func least(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// meet is the set of directories that lie in both a and b, where an empty one means anywhere. It reports false when there is none.
func meet(a, b []string) ([]string, bool) {
	if len(a) == 0 || len(b) == 0 {
		return append(slices.Clone(a), b...), true
	}
	var both []string
	for _, x := range a {
		for _, y := range b {
			switch {
			case Inside(x, y):
				both = append(both, x)
			case Inside(y, x):
				both = append(both, y)
			}
		}
	}
	slices.Sort(both)
	return slices.Compact(both), len(both) > 0
}

// dropCovered drops binds that show what a bind above shows at the same place with the same access, and empty directories
// inside binds. Precondition: parents first.
func dropCovered(entries []FS) []FS {
	kept := entries[:0]
	at := make(map[string]int, len(entries))
	for _, e := range entries {
		above, found := nearest(e.Dest, at)
		if found && covered(e, kept[above]) {
			continue
		}
		at[e.Dest] = len(kept)
		kept = append(kept, e)
	}
	return kept
}

// nearest finds the entry at the closest place above dest: the one that decides what is seen there.
func nearest(dest string, at map[string]int) (int, bool) {
	for dest != "/" && dest != "." { // what is relative is an error later
		dest = path.Dir(dest)
		if i, ok := at[dest]; ok {
			return i, true
		}
	}
	return 0, false
}

// covered reports whether a, the nearest entry above e, shows already what e would. What has to be there is looked at all the same, so that
// its absence is an error.
func covered(e, a FS) bool {
	switch {
	case a.Kind != Bind:
		return false
	case e.Kind == Dir:
		return a.Write || !a.Optional
	}
	rest := strings.TrimPrefix(e.Dest, a.Dest)
	if e.NoExec && e.System && e.Source == a.Source+rest && !a.System && (!a.Write || a.Force) {
		return true // one of SystemFacts gives way to a directory above it that was asked for
	}
	return e.Kind == Bind && e.Optional && e.Source == a.Source+rest && e.Write == a.Write && e.NoExec == a.NoExec && !a.Optional
}
