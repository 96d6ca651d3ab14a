package seccomp

import (
	"fmt"
	"slices"
)

// Watch returns one filter that asks a listener, where filters refuse a call with an errno, and at the watched calls that they allow. What
// they kill for is killed for. A listener answers a call that [Decide] refuses with that errno and lets every other one go on, and so the
// command has the answers that filters give.
//
// Without walks, who reads a tree is not asked about each file in it: openat(2) for reading, of what is in a directory that is open already and no link.
//
// Only what [Compile] returns can be joined like this. The kernel takes the strictest answer of all filters, so others are installed beside
// the one that is returned. It is to be installed by [LowerListener].
func Watch(filters []Filter, calls []string, walks bool, arch Arch) (Filter, error) {
	tail, err := Compile(Profile{Name: "watch", Default: Allow, Rules: watchRules(calls, walks, arch)}, arch)
	if err != nil {
		return nil, err
	}
	parts := append(slices.Clone(filters), tail)
	size := 0
	for _, f := range parts {
		size += len(f)
	}
	joined := make(Filter, 0, size)
	for n, f := range parts {
		next := len(joined) + len(f) // where the filter behind this one begins
		for _, ins := range f {
			switch ins.Code {
			case opRet:
				ins = joint(ins, n+1 == len(parts), next-len(joined)-1)
			case opRetA:
				return nil, fmt.Errorf("bug: filter %d to watch was not compiled here", n)
			}
			joined = append(joined, ins)
		}
	}
	return joined, joined.Check()
}

// watchRules are the rules of the watched calls. A look at an open file asks for no path, and is not watched: fstat(3) is one.
func watchRules(calls []string, walks bool, arch Arch) []Rule {
	byPath := func(flags uint8) []Case {
		return []Case{{If: []Cond{{Arg: flags, Mask: atEmptyPath, In: []uint32{0}, Not: true}}, Action: Allow}}
	}
	cases := map[string][]Case{"newfstatat": byPath(3), "statx": byPath(2)}
	if !walks {
		nofollow := uint32(amd64NoFollow)
		if arch == ARM64 {
			nofollow = arm64NoFollow
		}
		cases["openat"] = []Case{{If: []Cond{{Arg: 0, In: []uint32{atCWD}, Not: true}, {Arg: 2, Mask: nofollow | accessMode | create, In: []uint32{nofollow}}}, Action: Allow}}
	}
	rules := make([]Rule, len(calls))
	for i, name := range calls {
		rules[i] = Rule{Calls: name, Action: actionNotify, Cases: cases[name]}
	}
	return rules
}

// Flags of openat(2) and others. O_NOFOLLOW is not the same everywhere.
const (
	atEmptyPath   = 0x1000     // AT_EMPTY_PATH
	atCWD         = 0xffffff9c // AT_FDCWD
	accessMode    = 0o3        // O_ACCMODE
	create        = 0o100      // O_CREAT
	amd64NoFollow = 0o400000
	arm64NoFollow = 0o100000
)

// joint makes of a return what [Watch] says. The end of an allowing filter is the beginning of the next. The last one is for what the others
// allow: without them it kills for nothing.
func joint(ins Instruction, last bool, toNext int) Instruction {
	action := Action(ins.K)
	switch {
	case action&actionFull == actionErrno:
		ins.K = uint32(actionNotify)
	case last && action == Kill:
		ins.K = uint32(Allow)
	case !last && action == Allow:
		return Instruction{Code: opJump, K: uint32(toNext)}
	}
	return ins
}

// Errno returns the errno that an action fails a call with, and whether it does. One that asks a tracer, or a listener, fails it with ENOSYS where
// there is none.
func (a Action) Errno() (n uint16, ok bool) {
	switch a & actionFull {
	case actionErrno:
		return uint16(a), true
	case actionTrace, actionNotify:
		return uint16(enosys & ^actionFull), true
	}
	return 0, false
}

// Allows reports whether the kernel carries a call out, be it logged or not.
func (a Action) Allows() bool { return a&actionFull == Allow || a&actionFull == actionLog }
