package seccomp

import (
	"errors"
	"fmt"
)

// The shipped filters are not compiled by libseccomp, because its filters are slower to install. Since Linux 5.11 the kernel interprets a
// new filter once for every system call number, to find the numbers that it may always allow (seccomp_cache_prepare in kernel/seccomp.c).
// So the cost of installing a filter is the number of instructions that each number takes, plus the length of the filter, which is compiled
// to machine code.
//
// libseccomp has a leaf for every call, compares masked bits one by one, and shares nothing: 2028 instructions and 0.26 ms for the default
// profile on amd64. This compiler has a leaf for each range of numbers with the same answer, balances the tree by the width of the ranges,
// and shares equal blocks: 197 instructions and 0.06 ms. BenchmarkInstall measures both. Under the build tag libseccomp, a test compares
// all verdicts.

const (
	x32Bit  = 0x40000000 // __X32_SYSCALL_BIT
	x32Over = 0x80000000 // numbers from here on are negative and belong to no ABI; tracers use -1 to skip a call
)

// span is a range of numbers with the same answer. It ends where the next span begins.
type span struct {
	from   uint32
	rule   *Rule
	weight int // how many of its numbers the kernel interprets the filter for
}

// Compile turns p into a filter for arch. The error lists every fault of p: unknown names, names with two rules, conditions without values.
// A call that arch does not have is skipped.
//
// The filter kills the process at any call of a foreign architecture and, on amd64, at the x32 numbers, 0x40000000 to 0x7fffffff. Higher
// numbers get the default action.
func Compile(p Profile, arch Arch) (Filter, error) {
	if arch.Audit() == 0 {
		return nil, fmt.Errorf("seccomp profile %s: no architecture: %w", p.Name, errors.ErrUnsupported)
	}
	entries, err := p.entries(arch)
	if err != nil {
		return nil, err
	}
	a := assembler{rets: map[Action]int{}, memo: map[[4]int]int{}}
	tree := a.tree(spans(entries, p.Default, arch))
	start := a.step(opLoad, offNR, tree)
	kill := a.ret(Kill)
	start = a.jump(opJeq, arch.Audit(), start, kill)
	a.step(opLoad, offArch, start)
	f := a.program()
	if len(f) > MaxLen {
		return nil, fmt.Errorf("seccomp profile %s: %d instructions, the kernel takes %d", p.Name, len(f), MaxLen)
	}
	return f, nil
}

// spans joins neighbouring numbers with the same answer. Numbers that arch does not use get the default action.
func spans(entries []entry, fallback Action, arch Arch) []span {
	none := &Rule{Action: fallback}
	out := []span{{rule: none}}
	add := func(from uint32, r *Rule) {
		last := &out[len(out)-1]
		switch {
		case last.from == from:
			last.rule = r
			if n := len(out); n > 1 && same(out[n-2].rule, r) {
				out = out[:n-1]
			}
		case !same(last.rule, r):
			out = append(out, span{from: from, rule: r})
		}
	}
	for _, e := range entries {
		add(e.nr, e.rule)
		add(e.nr+1, none)
	}
	end := entries[len(entries)-1].nr + 1
	if arch == AMD64 {
		add(x32Bit, &Rule{Action: Kill})
		add(x32Over, none)
	}
	for i := range out {
		next := end
		if i+1 < len(out) {
			next = min(end, out[i+1].from)
		}
		out[i].weight = 1
		if next > out[i].from {
			out[i].weight = int(next - out[i].from)
		}
	}
	return out
}

// same reports whether two rules have the same answer for every call.
func same(a, b *Rule) bool {
	return a == b || len(a.Cases) == 0 && len(b.Cases) == 0 && a.Action == b.Action
}

// tree adds a search for the number, which the accumulator holds, among the spans. It returns where the search starts.
func (a *assembler) tree(s []span) int {
	if len(s) == 1 {
		return a.rule(s[0].rule)
	}
	if len(s) == 3 && s[2].from-s[1].from == 1 && same(s[0].rule, s[2].rule) { // one number among others
		rest := a.rule(s[0].rule)
		return a.jump(opJeq, s[1].from, a.rule(s[1].rule), rest)
	}
	k := halve(s)
	right := a.tree(s[k:])
	return a.jump(opJge, s[k].from, right, a.tree(s[:k]))
}

// halve returns the index that divides s into two parts of nearly equal weight.
func halve(s []span) int {
	left, total := 0, 0
	for _, x := range s {
		total += x.weight
	}
	for k := 1; k < len(s); k++ {
		left += s[k-1].weight
		if 2*left >= total {
			if k > 1 && 2*left-total > total-2*(left-s[k-1].weight) {
				return k - 1
			}
			return k
		}
	}
	return len(s) - 1
}

// rule adds the answer of one rule and returns where it starts.
func (a *assembler) rule(r *Rule) int {
	at := a.ret(r.Action)
	for i := len(r.Cases) - 1; i >= 0; i-- {
		c, no := r.Cases[i], at
		at = a.ret(c.Action)
		for j := len(c.If) - 1; j >= 0; j-- {
			at = a.test(c.If[j], at, no)
		}
	}
	return at
}

// test adds a condition. It compares only the low word of the argument, see the package comment.
func (a *assembler) test(c Cond, yes, no int) int {
	if c.Not {
		yes, no = no, yes
	}
	load := offArgs + 8*uint32(c.Arg)
	if c.Mask != 0 && len(c.In) == 1 && c.In[0] == 0 {
		return a.step(opLoad, load, a.jump(opJset, c.Mask, no, yes))
	}
	at := no
	for i := len(c.In) - 1; i >= 0; i-- {
		at = a.jump(opJeq, c.In[i], yes, at)
	}
	if c.Mask != 0 && c.Mask != ^uint32(0) {
		at = a.step(opAnd, c.Mask, at)
	}
	return a.step(opLoad, load, at)
}
