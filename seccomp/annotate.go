package seccomp

import (
	"fmt"
	"strings"
)

// Annotate lists the instructions as [Filter.String] does. Beside each instruction that compares the number of a system call it adds the
// name of that call, or of the first call of a range. Without an Arch it knows no names.
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

// nothing stands for no offset in struct seccomp_data.
const nothing = ^uint32(0)

// loaded returns, for each instruction, the offset of the word that the accumulator holds when the instruction is reached, or nothing if
// that depends on the path. One pass is enough, because jumps only go forward.
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

// note returns the name that the instruction compares with, if the accumulator holds word.
func (ins Instruction) note(arch Arch, word uint32) string {
	switch {
	case word == offArch && ins.Code == opJeq && ins.K == arch.Audit() && arch != 0:
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
