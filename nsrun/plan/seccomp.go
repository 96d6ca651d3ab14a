package plan

import (
	"fmt"
	"slices"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/seccomp"
)

// DefaultFilter is the seccomp filter of a policy that names none.
const DefaultFilter = "default"

func (c *compiler) seccomp() error {
	want := c.pol.Seccomp
	if want.Filter == policy.SeccompOff && len(want.Deny) == 0 && len(want.Raw) == 0 {
		c.note("seccomp", "switched off by the policy", "")
		if c.plan.Backend != BackendLandlock && !c.pol.NoExec { // which have filters of their own
			return nil
		}
	}
	if !c.facts.Can(facts.Seccomp) {
		c.lack(facts.Seccomp, c.plan.Backend == BackendLandlock)
		return nil
	}
	if want.Filter == "" {
		want.Filter = DefaultFilter
	}
	s := &Seccomp{Filter: want.Filter, Deny: want.Deny, Raw: want.Raw}
	if c.runsNothingWritten() && (s.HasBuiltin() || c.pol.NoExec) {
		s.Refuse = append(s.Refuse, seccomp.RefuseMemfdExec)
	}
	if _, err := s.Filters(c.facts.Arch); err != nil {
		return err
	}
	s.Hash = seccomp.BuiltinHash(want.Filter, arch(c.facts.Arch))
	c.plan.Seccomp = s
	return nil
}

// runsNothingWritten reports whether a command can execute no file that it has written: files in memory are what is left then. It is asked
// under readonly and noexec only, as a file in memory is a program's ordinary means elsewhere.
func (c *compiler) runsNothingWritten() bool {
	return (c.pol.Autonomy == policy.ReadOnly || c.pol.NoExec) && !slices.ContainsFunc(c.pol.FS, func(e policy.FS) bool { return e.Write && !e.NoExec })
}

// Filters returns the filters in the order they are installed: the built-in filter, the raw one, the denied names. The kernel takes
// the strictest verdict of all, so the order has no say in it.
func (s *Seccomp) Filters(goarch string) ([]seccomp.Filter, error) {
	a := arch(goarch)
	var filters []seccomp.Filter
	if s.Filter != policy.SeccompOff {
		f, err := seccomp.Builtin(s.Filter, a)
		if err != nil {
			return nil, err
		}
		filters = append(filters, f)
	}
	if len(s.Raw) > 0 {
		f, err := seccomp.ParseRaw(s.Raw)
		if err != nil {
			return nil, err
		}
		filters = append(filters, f)
	}
	if len(s.Refuse) > 0 {
		f, err := seccomp.Refuse(s.Refuse, a)
		if err != nil {
			return nil, err
		}
		filters = append(filters, f)
	}
	if len(s.Deny) > 0 {
		f, err := seccomp.Deny(s.Deny, a)
		if err != nil {
			return nil, fmt.Errorf("seccomp deny: %w", err)
		}
		filters = append(filters, f)
	}
	return filters, nil
}

func arch(goarch string) seccomp.Arch {
	for _, a := range seccomp.Arches() {
		if a.String() == goarch {
			return a
		}
	}
	return 0
}
