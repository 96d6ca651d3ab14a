package policy

import (
	"cmp"
	"slices"
)

// Explain is whether a result reports what was refused to the command, and what would allow it: see the package result.
type Explain string

// The levels, the least first. The empty Explain is ExplainOff.
const (
	ExplainOff Explain = "off" // nothing
	ExplainOn  Explain = "on"  // opening, executing, connecting, changing files, and system calls that a filter refuses
	ExplainAll Explain = "all" // and looking at files, and calls that programs try and do without
)

// Explains lists them, the least first.
var Explains = []Explain{ExplainOff, ExplainOn, ExplainAll}

// Level returns e with the zero value spelled out.
func (e Explain) Level() Explain { return cmp.Or(e, ExplainOff) }

// Less reports whether e is a lower level than other.
func (e Explain) Less(other Explain) bool {
	return slices.Index(Explains, e.Level()) < slices.Index(Explains, other.Level())
}

// explain lowers the level to the ceiling's. A report reveals to the caller that files of the host exist.
func (k *cutter) explain(c Ceiling) {
	if most := cmp.Or(c.Explain, ExplainAll); most.Less(k.Explain) {
		k.note("explain", string(k.Explain)+" is beyond the ceiling; it is "+string(most), `"explain": "`+string(k.Explain)+`"`)
		k.Explain = most
	}
}
