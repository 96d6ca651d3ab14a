package policy

import (
	"cmp"
	"slices"
)

// Protect is what is done about places in writable grants that make programs of the host run something, such as git hooks: see the package hostrun.
type Protect string

// The levels, the least first. The empty Protect is ProtectReport.
const (
	ProtectOff    Protect = "off"    // nothing
	ProtectReport Protect = "report" // hooks and shell start-up files are read-only; what changes in the other places is reported
	ProtectRevert Protect = "revert" // and put back after the run
	ProtectStrict Protect = "strict" // the whole .git and all these places are read-only where they exist; the rest is reported
)

// Protects lists them, the least first.
var Protects = []Protect{ProtectOff, ProtectReport, ProtectRevert, ProtectStrict}

// Level returns p with the zero value spelled out.
func (p Protect) Level() Protect { return cmp.Or(p, ProtectReport) }

// Less reports whether p is a lower level than q.
func (p Protect) Less(q Protect) bool {
	return slices.Index(Protects, p.Level()) < slices.Index(Protects, q.Level())
}

// WritableDirs returns the entries by which the command can write to something of the host's, one for each place inside.
func (p Policy) WritableDirs() (entries []FS) {
	for _, e := range p.FS {
		if e.Kind == Bind && e.Write && !e.System {
			entries = append(entries, e)
		}
	}
	return entries
}

// protect raises the level to the ceiling's.
func (k *cutter) protect(c Ceiling) {
	if least := c.Protect.Level(); k.Protect.Less(least) {
		k.note("protect", string(k.Protect.Level())+" is beyond the ceiling; it is "+string(least), `"protect": "`+string(k.Protect.Level())+`"`)
		k.Protect = least
	}
}
