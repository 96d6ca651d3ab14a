package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Docker, Podman and the OCI runtimes read a profile as JSON and compile it with libseccomp. That language has no order of rules, no "not
// one of", and no alternatives within one rule. All conditions of a rule must hold, and several rules for one call are alternatives. Two
// conditions on one argument of a rule silently become alternatives, too (runc, libcontainer/seccomp: "revert to old behaviour").
//
// So this file writes a [Rule] as the set of arguments that it allows. It cuts the set into parts that do not overlap, each with one masked
// comparison for each argument (SCMP_CMP_MASKED_EQ under a mask of 32 bits, which is what a [Cond] compares). The JSON allows exactly the
// same calls. A refusal can differ: arguments outside of the parts get the profile's default action. A refusal that is stricter than the
// default is therefore an error.

// ociMost limits the parts of one rule. The built-in profiles need about forty.
const ociMost = 1024

// ociProfile is the JSON of a profile (opencontainers/runtime-spec, config-linux.md). Docker's format adds includes and excludes.
type ociProfile struct {
	DefaultAction   string          `json:"defaultAction"`
	DefaultErrnoRet *uint           `json:"defaultErrnoRet,omitempty"`
	Architectures   []string        `json:"architectures"`
	ArchMap         json.RawMessage `json:"archMap,omitempty"` // other architectures of the same kernel, whose calls are killed here
	Flags           []string        `json:"flags,omitempty"`
	Syscalls        []ociRule       `json:"syscalls"`
}

// ociRule is the JSON of one rule.
type ociRule struct {
	Name     string    `json:"name,omitempty"`
	Names    []string  `json:"names"`
	Action   string    `json:"action"`
	ErrnoRet *uint     `json:"errnoRet,omitempty"`
	Args     []ociCond `json:"args,omitempty"`
	Comment  string    `json:"comment,omitempty"`
	Includes ociFor    `json:"includes,omitzero"`
	Excludes ociFor    `json:"excludes,omitzero"`
}

// ociFor is the condition under which a rule applies. Caps are the container's capabilities; a sandbox has none.
type ociFor struct {
	Caps      []string `json:"caps,omitempty"`
	Arches    []string `json:"arches,omitempty"`
	MinKernel string   `json:"minKernel,omitempty"`
}

// ociCond holds if argument Index, under the mask Value, is ValueTwo.
type ociCond struct {
	Index    uint8  `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

// OCI returns p as JSON for Docker's --security-opt seccomp= and the OCI runtimes. It is for arch only: the runtime's libseccomp kills
// calls of any other architecture. The calls named by extra are allowed in addition, with any arguments.
//
// The JSON never allows what p refuses. If that cannot be guaranteed, OCI returns an error. This is so if p allows calls without a rule,
// because the JSON would also allow calls that the runtime's libseccomp does not know. It is also so if p refuses some arguments of a call
// more strictly than others, for instance by killing.
func OCI(p Profile, arch Arch, extra ...string) ([]byte, error) {
	if arch.Audit() == 0 {
		return nil, fmt.Errorf("seccomp profile %s: no architecture: %w", p.Name, errors.ErrUnsupported)
	}
	var faults []error
	for _, name := range extra {
		if !known(name) {
			faults = append(faults, unknown(name))
		}
	}
	entries, err := p.entries(arch)
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}
	if p.Default == Allow || p.Default&actionFull == actionLog {
		return nil, fmt.Errorf("seccomp profile %s: allows calls without a rule, which as OCI would be all that the runtime does not know: %w", p.Name, errors.ErrUnsupported)
	}
	action, errno, err := ociAction(p.Default)
	if err != nil {
		return nil, fmt.Errorf("seccomp profile %s: %w", p.Name, err)
	}
	out := ociProfile{DefaultAction: action, DefaultErrnoRet: errno, Architectures: []string{ociArch(arch)}}
	for _, e := range entries {
		if slices.Contains(extra, e.name) {
			e.rule = &Rule{Action: Allow}
		}
		if err := out.add(e, p.Default); err != nil {
			return nil, fmt.Errorf("seccomp profile %s: %s: %w", p.Name, e.name, err)
		}
	}
	slices.SortStableFunc(out.Syscalls, func(a, b ociRule) int { return len(a.Args) - len(b.Args) })
	return json.Marshal(out)
}

// ociArch returns libseccomp's name of an architecture.
func ociArch(a Arch) string {
	return map[Arch]string{AMD64: "SCMP_ARCH_X86_64", ARM64: "SCMP_ARCH_AARCH64"}[a]
}

// ociAction returns a in the words of the JSON. An action that needs a second program to answer has no equivalent.
func ociAction(a Action) (name string, errno *uint, err error) {
	switch a & actionFull {
	case Allow:
		return "SCMP_ACT_ALLOW", nil, nil
	case Kill:
		return "SCMP_ACT_KILL_PROCESS", nil, nil
	case actionKillThread:
		return "SCMP_ACT_KILL_THREAD", nil, nil
	case actionErrno:
		return "SCMP_ACT_ERRNO", new(uint(uint16(a))), nil
	}
	return "", nil, fmt.Errorf("%q as OCI: %w", a, errors.ErrUnsupported)
}

// add adds the rules for one call. fallback is the profile's default action.
func (o *ociProfile) add(e entry, fallback Action) error {
	parts, err := e.rule.parts()
	if err != nil {
		return err
	}
	if a := parts[0].action; !slices.ContainsFunc(parts, func(p part) bool { return p.action != a }) {
		return o.whole(e.name, a, fallback)
	}
	for _, p := range parts {
		if p.action != Allow {
			if stricter(p.action, fallback) {
				return fmt.Errorf("%q for some arguments and %q for the rest, as OCI: %w", p.action, fallback, errors.ErrUnsupported)
			}
			continue // the default action answers
		}
		o.Syscalls = append(o.Syscalls, ociRule{Names: []string{e.name}, Action: "SCMP_ACT_ALLOW", Args: p.args.conds()})
	}
	return nil
}

// whole adds the rule for a call with one answer for all arguments. libseccomp refuses a rule with the default action (seccomp_rule_add(3),
// EACCES), and not every runtime omits such a rule, so whole does.
func (o *ociProfile) whole(call string, a, fallback Action) error {
	if a == fallback {
		return nil
	}
	name, errno, err := ociAction(a)
	if err != nil {
		return err
	}
	for i := range o.Syscalls {
		r := &o.Syscalls[i]
		if len(r.Args) == 0 && r.Action == name && (errno == nil || *r.ErrnoRet == *errno) {
			r.Names = append(r.Names, call)
			return nil
		}
	}
	o.Syscalls = append(o.Syscalls, ociRule{Names: []string{call}, Action: name, ErrnoRet: errno})
	return nil
}

// ociArgs is a set of arguments: those whose low words, under the masks, equal the values.
type ociArgs [6]struct{ mask, value uint32 }

// conds returns the set as conditions, one for each argument with a mask.
func (c ociArgs) conds() (out []ociCond) {
	for i, w := range c {
		if w.mask != 0 {
			out = append(out, ociCond{uint8(i), uint64(w.mask), uint64(w.value), "SCMP_CMP_MASKED_EQ"})
		}
	}
	return out
}

// part is a set of arguments with the same answer.
type part struct {
	args   ociArgs
	action Action
}

// parts divides all possible arguments into sets that do not overlap, each with the answer of r.
func (r *Rule) parts() (out []part, err error) {
	rest := []ociArgs{{}}
	give := func(to []ociArgs, a Action) {
		for _, c := range to {
			out = append(out, part{c, a})
		}
	}
	for _, c := range r.Cases {
		hold := rest
		rest = nil
		for _, cond := range c.If { // the first condition that fails decides
			rest = append(rest, narrow(hold, cond, false)...)
			hold = narrow(hold, cond, true)
		}
		give(hold, c.Action)
		if len(rest)+len(out) > ociMost {
			return nil, fmt.Errorf("more than %d parts as OCI: %w", ociMost, errors.ErrUnsupported)
		}
	}
	give(rest, r.Action)
	return out, nil
}

// narrow returns the parts of sets in which c holds or, with holds false, fails.
func narrow(sets []ociArgs, c Cond, holds bool) (out []ociArgs) {
	mask := c.Mask
	if mask == 0 {
		mask = ^uint32(0)
	}
	for _, from := range sets {
		out = from.cut(c.Arg, mask, c.In, holds != c.Not, out)
	}
	return out
}

// cut appends to out the parts of c in which argument arg, under mask, is one of values (in) or none of them. It divides c bit by bit from
// the highest bit, until each part is on one side.
func (c ociArgs) cut(arg uint8, mask uint32, values []uint32, in bool, out []ociArgs) []ociArgs {
	w := &c[arg]
	left := slices.DeleteFunc(slices.Clone(values), func(v uint32) bool { return (v^w.value)&w.mask&mask != 0 || v&^mask != 0 })
	open := mask &^ w.mask
	switch {
	case len(left) == 0 && in:
		return out
	case len(left) == 0:
		return append(out, c)
	case open == 0 && in:
		return append(out, c)
	case open == 0:
		return out
	}
	bit := uint32(1) << (bits.Len32(open) - 1)
	w.mask |= bit
	out = c.cut(arg, mask, left, in, out)
	w.value |= bit
	return c.cut(arg, mask, left, in, out)
}
