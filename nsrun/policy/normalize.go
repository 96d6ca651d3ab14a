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
// four passes. A ceiling has the last word: nothing that comes after it could widen what it has cut.
//
//   - arrange orders the entries, so that none hides another, and makes one of those at one place;
//   - validate returns every fault, joined; each is a *[Fault];
//   - obey does to grants what the policy's Autonomy says, see [AutonomyTable];
//   - cut takes away what the operator does not permit, or refuses the policy.
//
// A note tells of each thing that is not as it was wished. Normalize is idempotent, with or without the operator the second time.
func Normalize(p Policy, op Operator) (Policy, error) {
	for _, pass := range []func(*Policy, Operator) error{arranged, validated, obeyed, permitted} {
		if err := pass(&p, op); err != nil {
			return p, err
		}
	}
	return p, nil
}

func arranged(p *Policy, _ Operator) error {
	entries, notes := arrange(p.FS)
	p.FS = entries
	p.addNotes(notes)
	return nil
}

func validated(p *Policy, _ Operator) error { return p.Validate() }

func obeyed(p *Policy, _ Operator) error {
	p.narrow(p.byAutonomy())
	return nil
}

func permitted(p *Policy, op Operator) error {
	for _, c := range op.Ceilings {
		if err := c.refuses(*p, op.Audit); err != nil && c.File != "" {
			return fmt.Errorf("%s: %w", c.File, err)
		} else if err != nil {
			return err
		}
		p.narrow(p.under(c))
	}
	if op.Audit != "" && !slices.Contains(p.Audit, op.Audit) {
		p.Audit = append(slices.Clip(p.Audit), op.Audit)
	}
	return nil
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
