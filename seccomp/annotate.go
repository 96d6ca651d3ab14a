package seccomp

import (
	"fmt"
	"strings"
)

// Annotate lists the instructions as [Filter.String] does, and beside each that compares a system call's number, the name of that call, or of
// the range that begins there.
func (f Filter) Annotate(arch Arch) string {
	from := f.loaded()
	var out strings.Builder
	for i, ins := range f {
		text := ins.text(i)
		if note := ins.note(arch, from[i]); note != "" {
			text = fmt.Sprintf("%-44s # %s", text, note)
		}
		fmt.Fprintf(&out, "%4d  %s\n", i, text)
	}
	return out.String()
}

// nothing is no offset into struct seccomp_data.
const nothing = ^uint32(0)

// loaded says, for each instruction, which word of the call's data is in the accumulator when it is reached; nothing where that depends on the
// way there. Jumps only go forward.
func (f Filter) loaded() []uint32 {
	known, from := make([]bool, len(f)+1), make([]uint32, len(f)+1)
	reach := func(i int, word uint32) {
		if i > len(f) {
			return
		}
		if known[i] && from[i] != word {
			word = nothing
		}
		known[i], from[i] = true, word
	}
	reach(0, nothing)
	for i, ins := range f {
		word := from[i]
		switch ins.Code {
		case opRet, opRetA:
		case opJump:
			reach(i+1+int(ins.K), word)
		case opJeq, opJgt, opJge, opJset:
			reach(i+1+int(ins.Jt), word)
			reach(i+1+int(ins.Jf), word)
		case opLoad:
			reach(i+1, ins.K)
		default:
			reach(i+1, nothing)
		}
	}
	return from
}

func (ins Instruction) note(arch Arch, word uint32) string {
	switch {
	case word == offArch && ins.Code == opJeq && ins.K == arch.Audit():
		return arch.String()
	case word != offNR:
		return ""
	}
	name, ok := arch.Name(ins.K)
	switch {
	case !ok:
		return ""
	case ins.Code == opJeq:
		return name
	case ins.Code == opJge:
		return "from " + name
	case ins.Code == opJgt:
		return "after " + name
	}
	return ""
}
