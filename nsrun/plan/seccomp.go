package plan

import (
	"fmt"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/seccomp"
)

// DefaultProfile is the seccomp profile of a policy that names none.
const DefaultProfile = "default"

func (c *compiler) seccomp() error {
	want := c.pol.Seccomp
	if want.Profile == policy.SeccompOff && len(want.Deny) == 0 && len(want.Raw) == 0 {
		c.note("seccomp", "switched off by the policy", "")
		return nil
	}
	if !c.facts.Can(facts.Seccomp) {
		c.lack(facts.Seccomp, false)
		return nil
	}
	if want.Profile == "" {
		want.Profile = DefaultProfile
	}
	s := &Seccomp{Profile: want.Profile, Deny: want.Deny, Raw: want.Raw}
	filters, err := s.Filters(c.facts.Arch)
	if err != nil {
		return err
	}
	if want.Profile != policy.SeccompOff {
		s.Hash = filters[0].Hash()
	}
	c.plan.Seccomp = s
	return nil
}

// Filters returns the filters in the order they are installed: the profile, the raw filter, the denied names. The kernel takes
// the strictest verdict of all, so the order has no say in it.
func (s *Seccomp) Filters(arch string) ([]seccomp.Filter, error) {
	var a seccomp.Arch
	for _, known := range seccomp.Arches() {
		if known.String() == arch {
			a = known
		}
	}
	var filters []seccomp.Filter
	if s.Profile != policy.SeccompOff {
		f, err := seccomp.Builtin(s.Profile, a)
		if err != nil {
			return nil, err
		}
		filters = append(filters, f)
	}
	if len(s.Raw) > 0 {
		f, err := seccomp.ParseRaw(s.Raw)
		if err != nil {
			return nil, fmt.Errorf("seccomp filter file: %w", err)
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
