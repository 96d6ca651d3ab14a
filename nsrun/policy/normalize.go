package policy

import (
	"fmt"
	"slices"
)

// Operator is what the operator has decided, whoever wrote a policy. The zero Operator has decided nothing.
type Operator struct {
	Ceilings []Ceiling // each of them counts
	Audit    string    // a log besides those of the policy, which no ceiling cuts; or empty
}

// Normalize makes of wishes, which front ends only append, the policy that a sandbox is planned by. It is called once for each request, and has
// seven passes. A ceiling has the last word: nothing that comes after it could widen what it has cut.
//
//   - mistakes refuses writable grants that are probably none, unless autonomy makes them read-only: see [FS.Force];
//   - homeFits leaves the private home directory out where a grant shows another;
//   - arrange orders the entries, so that none hides another, and makes one of those at one place;
//   - Validate returns every fault, joined; each is a *[Fault];
//   - spelled writes the rules of the network as they are understood;
//   - byAutonomy does to grants what the policy's Autonomy says, see [AutonomyTable], and NoExec takes execution from what is writable;
//   - under takes away what a ceiling of the operator's does not permit, where that does not refuse the policy.
//
// A note tells of each thing that is not as it was wished. Normalize is idempotent, with or without the operator the second time.
func Normalize(p Policy, op Operator) (Policy, error) {
	if err := p.mistakes(); err != nil {
		return p, err
	}
	fits, notes := p.homeFits()
	p.addNotes(notes)
	p.FS, notes = arrange(fits.FS)
	p.addNotes(notes)
	if err := p.Validate(); err != nil {
		return p, err
	}
	p.narrow(p.spelled())
	p.narrow(p.byAutonomy())
	if p.NoExec {
		p.FS = withoutExec(p.FS)
	}
	for _, c := range op.Ceilings {
		if err := c.refuses(p, op.Audit); err != nil && c.File != "" {
			return p, fmt.Errorf("%s: %w", c.File, err)
		} else if err != nil {
			return p, err
		}
		p.narrow(p.under(c))
	}
	if op.Audit != "" && !slices.Contains(p.Audit, op.Audit) {
		p.Audit = append(slices.Clip(p.Audit), op.Audit)
	}
	return p, nil
}

// withoutExec takes execution from every place that is writable.
func withoutExec(entries []FS) []FS {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].NoExec = entries[i].NoExec || entries[i].Write
	}
	return entries
}

// narrow takes what a pass has made of p. Entries that were writable may be covered by the ones above now.
func (p *Policy) narrow(to Policy, notes []Note) {
	to.FS = dropCovered(slices.Clone(to.FS))
	*p = to
	p.addNotes(notes)
}

func (p *Policy) addNotes(notes []Note) {
	p.Notes = slices.Clip(p.Notes)
	for _, n := range notes {
		if !slices.Contains(p.Notes, n) {
			p.Notes = append(p.Notes, n)
		}
	}
}
