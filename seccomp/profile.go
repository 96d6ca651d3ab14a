package seccomp

import (
	"errors"
	"fmt"
	"strings"
)

// Profile is a filter as a table. Calls of another architecture than the filter's always kill the process; on amd64 these include i386 and
// x32. The zero Profile kills the thread at its first call.
type Profile struct {
	Name string
	Doc  string // one line: the programs that it is for
	// Base, if not nil, has the rule of every call that Rules does not name.
	Base *Profile
	// Default is the action for calls without a rule, including those of newer kernels.
	Default Action
	Rules   []Rule
}

// Rule is the answer for some calls.
type Rule struct {
	Calls  string // names separated by white space; a name that only another architecture has is skipped
	Action Action // if none of Cases applies
	Cases  []Case // tried in order; the first that applies decides
}

// Case applies if all its conditions hold.
type Case struct {
	If     []Cond
	Action Action
}

// Cond holds if the low 32 bits of argument Arg, under Mask, are one of In or, with Not, none of them.
type Cond struct {
	Arg  uint8  // 0..5
	Mask uint32 // 0 means all 32 bits
	In   []uint32
	Not  bool
}

// Names returns the names of the built-in profiles.
func Names() []string {
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.Name
	}
	return names
}

// Lookup returns the built-in profile called name. Its tables are shared and must not be changed. The error for an unknown name lists the
// existing names.
func Lookup(name string) (Profile, error) {
	for _, p := range profiles {
		if p.Name == name {
			return *p, nil
		}
	}
	return Profile{}, fmt.Errorf("seccomp filter %q: not one of %s", name, strings.Join(Names(), ", "))
}

// Builtin returns the compiled form of a built-in profile. It does no work, and the instructions must not be changed.
func Builtin(name string, arch Arch) (Filter, error) {
	if _, err := Lookup(name); err != nil {
		return nil, err
	}
	if f, _ := builtin(name, arch); f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("seccomp filter %s for architecture %s: %w", name, arch, errors.ErrUnsupported)
}

// BuiltinHash returns the SHA-256 of a built-in profile's [Filter.Bytes] in hexadecimal. It is the same on every machine and identifies the
// filter in receipts. go generate has computed it, because linking crypto/sha256 costs every start of a program 13 to 55 µs.
func BuiltinHash(name string, arch Arch) string {
	_, hash := builtin(name, arch)
	return hash
}

// entry is the rule of one system call number.
type entry struct {
	nr   uint32
	name string
	rule *Rule
}

// entries returns the rule of every number in arch's table, in order. Calls without a rule get one with the default action.
func (p *Profile) entries(arch Arch) ([]entry, error) {
	byName := map[string]*Rule{}
	if err := p.collect(byName, arch); err != nil {
		return nil, err
	}
	rows, _ := arch.rows()
	fallback := &Rule{Action: p.Default}
	out := make([]entry, len(rows))
	for i, row := range rows {
		out[i] = entry{uint32(row.nr), row.name, fallback}
		if r := byName[row.name]; r != nil {
			out[i].rule = r
		}
	}
	return out, nil
}

// collect puts the rules of p and its bases into byName, and returns every fault in the tables.
func (p *Profile) collect(byName map[string]*Rule, arch Arch) error {
	var faults []error
	if p.Base != nil {
		if p.Base.Default != p.Default {
			faults = append(faults, fmt.Errorf("profile %s: default differs from that of its base", p.Name))
		}
		faults = append(faults, p.Base.collect(byName, arch))
	}
	own := map[string]bool{}
	for i := range p.Rules {
		r := &p.Rules[i]
		faults = append(faults, r.check(p.Name))
		for name := range strings.FieldsSeq(r.Calls) {
			switch {
			case own[name]:
				faults = append(faults, fmt.Errorf("profile %s: %s has two rules", p.Name, name))
			case !known(name):
				faults = append(faults, unknown(name))
			}
			own[name], byName[name] = true, r
		}
	}
	return errors.Join(faults...)
}

// check returns every fault of a rule.
func (r *Rule) check(profile string) error {
	var faults []error
	for _, c := range r.Cases {
		if len(c.If) == 0 {
			faults = append(faults, fmt.Errorf("profile %s: %s: a case without a condition hides what follows", profile, r.Calls))
		}
		for _, cond := range c.If {
			if cond.Arg > 5 {
				faults = append(faults, fmt.Errorf("profile %s: %s: argument %d: there are six, 0 to 5", profile, r.Calls, cond.Arg))
			}
			if len(cond.In) == 0 {
				faults = append(faults, fmt.Errorf("profile %s: %s: a condition without values", profile, r.Calls))
			}
		}
	}
	return errors.Join(faults...)
}
