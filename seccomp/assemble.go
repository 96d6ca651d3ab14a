package seccomp

import "slices"

// assembler builds a program from its end to its beginning. Jumps of classic BPF only go forward, so the target of every jump exists before
// the jump itself, and equal instructions with equal targets can be shared. Positions count from the end of the program.
type assembler struct {
	code []Instruction
	rets map[Action]int // the position of the last return of each action
	memo map[[4]int]int // the position of an instruction by its code, its K and where it leads
}

const reach = 255 // the farthest that a conditional jump reaches

// program returns the finished program, first instruction first.
func (a *assembler) program() Filter {
	f := slices.Clone(a.code)
	slices.Reverse(f)
	return f
}

// push adds an instruction before the others and returns its position.
func (a *assembler) push(ins Instruction) int {
	a.code = append(a.code, ins)
	return len(a.code) - 1
}

// distance returns the offset that a jump to at needs in the instruction that is pushed next.
func (a *assembler) distance(at int) int { return len(a.code) - at - 1 }

// ret returns the position of a return of action within reach.
func (a *assembler) ret(action Action) int {
	if at, ok := a.rets[action]; ok && a.distance(at) < reach {
		return at
	}
	a.rets[action] = a.push(Instruction{Code: opRet, K: uint32(action)})
	return a.rets[action]
}

// near returns a position that does the same as at and that a conditional jump reaches, after spare more instructions have been pushed.
func (a *assembler) near(at, spare int) int {
	if a.distance(at)+spare <= reach {
		return at
	}
	if a.code[at].Code == opRet {
		return a.ret(Action(a.code[at].K))
	}
	return a.push(Instruction{Code: opJump, K: uint32(a.distance(at))})
}

// jump adds a conditional jump, or nothing if both ways lead to the same position.
func (a *assembler) jump(code uint16, k uint32, jt, jf int) int {
	if jt == jf {
		return jt
	}
	key := [4]int{int(code), int(k), jt, jf}
	if at, ok := a.memo[key]; ok {
		return at
	}
	t := a.near(jt, 1) // near for jf may push one more instruction
	f := a.near(jf, 0)
	at := a.push(Instruction{Code: code, Jt: uint8(a.distance(t)), Jf: uint8(a.distance(f)), K: k})
	a.memo[key] = at
	return at
}

// step adds an instruction that is followed by the one at next.
func (a *assembler) step(code uint16, k uint32, next int) int {
	key := [4]int{int(code), int(k), next, next}
	if at, ok := a.memo[key]; ok {
		return at
	}
	if a.distance(next) != 0 {
		a.push(Instruction{Code: opJump, K: uint32(a.distance(next))})
	}
	at := a.push(Instruction{Code: code, K: k})
	a.memo[key] = at
	return at
}
