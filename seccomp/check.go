package seccomp

import (
	"encoding/binary"
	"fmt"
)

// ParseRaw parses an array of struct sock_filter, the format of libseccomp's export and of bwrap's --seccomp, and checks it as the kernel
// does.
func ParseRaw(b []byte) (Filter, error) {
	if len(b)%8 != 0 {
		return nil, fmt.Errorf("seccomp filter: %d bytes: not a multiple of 8, the size of an instruction", len(b))
	}
	if len(b) > 8*MaxLen {
		return nil, fmt.Errorf("seccomp filter: %d instructions, the kernel takes %d", len(b)/8, MaxLen)
	}
	f := decode(b)
	if err := f.Check(); err != nil {
		return nil, err
	}
	return f, nil
}

// decode returns the instructions in b, without a check.
func decode(b []byte) Filter {
	f := make(Filter, len(b)/8)
	for i := range f {
		raw := b[8*i : 8*i+8]
		f[i] = Instruction{binary.LittleEndian.Uint16(raw), raw[2], raw[3], binary.LittleEndian.Uint32(raw[4:])}
	}
	return f
}

// Check returns the reason why the kernel refuses f, or nil. It checks in the order of bpf_check_classic (net/core/filter.c) and
// seccomp_check_filter (kernel/seccomp.c). A filter that passes comes to an end for every call.
func (f Filter) Check() error {
	if len(f) == 0 {
		return fmt.Errorf("seccomp filter: empty")
	}
	if len(f) > MaxLen {
		return fmt.Errorf("seccomp filter: %d instructions, the kernel takes %d", len(f), MaxLen)
	}
	for i, ins := range f {
		if fault := ins.fault(i, len(f)); fault != "" {
			return fmt.Errorf("seccomp filter: instruction %d (%s): %s", i, ins.text(i), fault)
		}
	}
	if last := f[len(f)-1].Code; last != opRet && last != opRetA {
		return fmt.Errorf("seccomp filter: last instruction does not return")
	}
	return f.checkMemory()
}

// fault returns the fault of the instruction at index i of n, or "".
func (ins Instruction) fault(i, n int) string {
	switch ins.Code {
	case opLoad:
		if ins.K >= dataSize || ins.K%4 != 0 {
			return "loads from outside of struct seccomp_data, or not a whole word"
		}
	case opLoadMem, opXMem, opStore, opStoreX:
		if ins.K >= memWords {
			return "no such memory word"
		}
	case opDivK:
		if ins.K == 0 {
			return "divides by zero"
		}
	case opLshK, opRshK:
		if ins.K >= 32 {
			return "shifts by more than 31"
		}
	case opJump:
		if ins.K >= uint32(n-i-1) {
			return "jumps out of the filter"
		}
	case opJeq, opJgt, opJge, opJset, opJeqX, opJgtX, opJgeX, opJsetX:
		if i+1+int(ins.Jt) >= n || i+1+int(ins.Jf) >= n {
			return "jumps out of the filter"
		}
	case opLoadLen, opLoadImm, opXLen, opXImm, opRet, opRetA, opTax, opTxa, opNeg,
		opAddK, opAddX, opSubK, opSubX, opMulK, opMulX, opDivX, opOrK, opOrX, opAnd, opAndX, opXorK, opXorX, opLshX, opRshX:
	default:
		return "not allowed in a seccomp filter"
	}
	return ""
}

// checkMemory finds a read of a memory word that some path has not written, as check_load_and_stores in net/core/filter.c does.
func (f Filter) checkMemory() error {
	masks := make([]uint16, len(f)) // words that are written on every path that jumps here
	for i := range masks {
		masks[i] = ^uint16(0)
	}
	written := uint16(0)
	for i, ins := range f {
		written &= masks[i]
		switch ins.Code {
		case opStore, opStoreX:
			written |= 1 << ins.K
		case opLoadMem, opXMem:
			if written>>ins.K&1 == 0 {
				return fmt.Errorf("seccomp filter: instruction %d (%s): reads memory that is not written on every path", i, ins.text(i))
			}
		case opJump:
			masks[i+1+int(ins.K)] &= written
			written = ^uint16(0)
		case opJeq, opJgt, opJge, opJset, opJeqX, opJgtX, opJgeX, opJsetX:
			masks[i+1+int(ins.Jt)] &= written
			masks[i+1+int(ins.Jf)] &= written
			written = ^uint16(0)
		}
	}
	return nil
}
