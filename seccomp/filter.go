package seccomp

import (
	"encoding/binary"
	"fmt"
)

// MaxLen is the greatest number of instructions that the kernel accepts in one filter, BPF_MAXINSNS.
const MaxLen = 4096

// Instruction is one instruction of classic BPF, laid out as struct sock_filter (include/uapi/linux/filter.h).
type Instruction struct {
	Code   uint16
	Jt, Jf uint8
	K      uint32
}

// Filter is a compiled filter for one architecture.
type Filter []Instruction

// Bytes returns f as an array of struct sock_filter, little-endian: the format of [ParseRaw] and of bwrap's --seccomp.
func (f Filter) Bytes() []byte {
	b := make([]byte, 0, 8*len(f))
	for _, ins := range f {
		b = binary.LittleEndian.AppendUint16(b, ins.Code)
		b = append(b, ins.Jt, ins.Jf)
		b = binary.LittleEndian.AppendUint32(b, ins.K)
	}
	return b
}

// String lists the instructions, one on each line. The targets of jumps are line numbers.
func (f Filter) String() string { return f.Annotate(0) }

// text returns the instruction at index at in readable form.
func (ins Instruction) text(at int) string {
	jump := func(op string) string {
		return fmt.Sprintf("if A %s 0x%x goto %d else %d", op, ins.K, at+1+int(ins.Jt), at+1+int(ins.Jf))
	}
	switch ins.Code {
	case opRet:
		return "return " + Action(ins.K).String()
	case opLoad:
		return "A = " + field(ins.K)
	case opAnd:
		return fmt.Sprintf("A &= 0x%x", ins.K)
	case opJump:
		return fmt.Sprintf("goto %d", at+1+int(ins.K))
	case opJeq:
		return jump("==")
	case opJge:
		return jump(">=")
	case opJgt:
		return jump(">")
	case opJset:
		return jump("&")
	}
	return fmt.Sprintf("code 0x%02x jt %d jf %d k 0x%x", ins.Code, ins.Jt, ins.Jf, ins.K)
}

// field returns the name of a word of struct seccomp_data.
func field(offset uint32) string {
	switch {
	case offset == offNR:
		return "nr"
	case offset == offArch:
		return "arch"
	case offset < offArgs:
		return fmt.Sprintf("data[%d]", offset)
	case offset%8 == 0:
		return fmt.Sprintf("low(arg%d)", (offset-offArgs)/8)
	}
	return fmt.Sprintf("high(arg%d)", (offset-offArgs)/8)
}
