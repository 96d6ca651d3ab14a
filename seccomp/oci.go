package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Docker, Podman and the OCI runtimes take a profile as JSON and compile it with libseccomp. That language has no order of rules, no
// "not one of", and no alternatives in one rule: the conditions of a rule all hold, several rules for a call are alternatives, and two
// conditions on one argument of a rule are silently made alternatives too (runc, libcontainer/seccomp: "revert to old behaviour").
//
// So a rule of ours is written as the set of arguments that it allows, cut into parts that do not overlap and of which each is one
// masked comparison an argument (SCMP_CMP_MASKED_EQ under a mask of 32 bits, which is what a condition of ours looks at). What is allowed
// is exactly the same. How a call is refused can differ: arguments outside of the parts get the profile's default, which is why a refusal
// that is stricter than that is an error.

// ociMost bounds the parts of one rule: a profile of ours takes some forty.
const ociMost = 1024

type ociProfile struct {
	DefaultAction   string    `json:"defaultAction"`
	DefaultErrnoRet *uint16   `json:"defaultErrnoRet,omitempty"`
	Architectures   []string  `json:"architectures"`
	Syscalls        []ociRule `json:"syscalls"`
}

type ociRule struct {
	Names    []string  `json:"names"`
	Action   string    `json:"action"`
	ErrnoRet *uint16   `json:"errnoRet,omitempty"`
	Args     []ociCond `json:"args,omitempty"`
}

// ociCond holds when argument Index under the mask Value is ValueTwo.
type ociCond struct {
	Index    uint8  `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

// OCI returns p as the JSON that Docker's --security-opt seccomp= and the OCI runtime specification take, for arch alone: the runtime's
// libseccomp kills calls of any other. The calls named by extra are allowed besides, whatever their arguments.
//
// The JSON never allows what p does not. It is an error if that cannot be promised: p allows calls without a rule, which would be those
// too that the runtime's libseccomp does not know; or p refuses some arguments of a call more strictly than the rest, as by killing.
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

func ociArch(a Arch) string {
	return map[Arch]string{AMD64: "SCMP_ARCH_X86_64", ARM64: "SCMP_ARCH_AARCH64"}[a]
}

// ociAction is a as the JSON has it. What needs a second program to answer is not for a container.
func ociAction(a Action) (name string, errno *uint16, err error) {
	switch a & actionFull {
	case Allow:
		return "SCMP_ACT_ALLOW", nil, nil
	case Kill:
		return "SCMP_ACT_KILL_PROCESS", nil, nil
	case actionKillThread:
		return "SCMP_ACT_KILL_THREAD", nil, nil
	case actionErrno:
		n := uint16(a)
		return "SCMP_ACT_ERRNO", &n, nil
	}
	return "", nil, fmt.Errorf("%q as OCI: %w", a, errors.ErrUnsupported)
}

// add writes the answer for one call.
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
			continue // the default's answer
		}
		o.Syscalls = append(o.Syscalls, ociRule{Names: []string{e.name}, Action: "SCMP_ACT_ALLOW", Args: p.args.conds()})
	}
	return nil
}

// whole writes the answer for a call whatever its arguments. libseccomp takes no rule that says what the default says (seccomp_rule_add(3),
// EACCES), and not every runtime leaves it out.
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

// ociArgs is a set of arguments: those whose low words, under the masks, have the values.
type ociArgs [6]struct{ mask, value uint32 }

func (c ociArgs) conds() (out []ociCond) {
	for i, w := range c {
		if w.mask != 0 {
			out = append(out, ociCond{uint8(i), uint64(w.mask), uint64(w.value), "SCMP_CMP_MASKED_EQ"})
		}
	}
	return out
}

// part is the answer for the arguments of one set.
type part struct {
	args   ociArgs
	action Action
}

// parts cuts all arguments into sets that do not overlap, each with r's answer.
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
		for _, cond := range c.If { // the first that fails decides
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

// narrow returns the parts of sets in which c holds, or fails.
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

// cut appends the parts of c in which argument arg, under mask, is one of values, or none of them: bit by bit from the highest, until all
// that is left of a part is on one side.
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
