package seccomp

import "fmt"

// The opcodes by name: class | size or source | mode or operation (include/uapi/linux/bpf_common.h).
const (
	opLoad    = 0x20 // LD W ABS
	opLoadLen = 0x80
	opLoadImm = 0x00
	opLoadMem = 0x60
	opXLen    = 0x81
	opXImm    = 0x01
	opXMem    = 0x61
	opStore   = 0x02
	opStoreX  = 0x03
	opAddK    = 0x04
	opAddX    = 0x0c
	opSubK    = 0x14
	opSubX    = 0x1c
	opMulK    = 0x24
	opMulX    = 0x2c
	opDivK    = 0x34
	opDivX    = 0x3c
	opOrK     = 0x44
	opOrX     = 0x4c
	opAnd     = 0x54
	opAndX    = 0x5c
	opLshK    = 0x64
	opLshX    = 0x6c
	opRshK    = 0x74
	opRshX    = 0x7c
	opXorK    = 0xa4
	opXorX    = 0xac
	opNeg     = 0x84
	opJump    = 0x05
	opJeq     = 0x15
	opJeqX    = 0x1d
	opJgt     = 0x25
	opJgtX    = 0x2d
	opJge     = 0x35
	opJgeX    = 0x3d
	opJset    = 0x45
	opJsetX   = 0x4d
	opRet     = 0x06
	opRetA    = 0x16
	opTax     = 0x07
	opTxa     = 0x87
)

// Layout of struct seccomp_data (include/uapi/linux/seccomp.h), little-endian.
const (
	offNR    = 0
	offArch  = 4
	offArgs  = 16 // the low word of argument 0
	dataSize = 64
	memWords = 16 // BPF_MEMWORDS
)

// Data is a system call as a filter sees it, struct seccomp_data.
type Data struct {
	NR   uint32
	Arch uint32 // see [Arch.Audit]
	IP   uint64
	Args [6]uint64
}

// word returns the 32 bits at offset, which is a multiple of four below dataSize.
func (d *Data) word(offset uint32) uint32 {
	switch {
	case offset == offNR:
		return d.NR
	case offset == offArch:
		return d.Arch
	case offset < offArgs:
		return uint32(d.IP >> (8 * (offset - 8)))
	}
	return uint32(d.Args[(offset-offArgs)/8] >> (8 * (offset % 8)))
}

// Decide returns the kernel's answer to call d under filters: the strictest one. If several are equally strict, it is that of the filter
// installed last. Without filters it is Allow.
func Decide(d Data, filters ...Filter) (Action, error) {
	decider, err := NewDecider(filters...)
	if err != nil {
		return 0, err
	}
	return decider.Decide(d)
}

// Decider answers as [Decide] does, by filters that were checked once. It is for one goroutine.
type Decider struct {
	filters []Filter
	known   map[question]Action // answers that depend on nothing else
}

type question struct{ arch, nr uint32 }

// NewDecider checks filters. The error is that of [Filter.Check].
func NewDecider(filters ...Filter) (*Decider, error) {
	for _, f := range filters {
		if err := f.Check(); err != nil {
			return nil, err
		}
	}
	return &Decider{filters, map[question]Action{}}, nil
}

// mostKnown bounds the answers that are remembered: more than there are calls.
const mostKnown = 1024

// Decide returns the kernel's answer to call d.
func (r *Decider) Decide(d Data) (Action, error) {
	q := question{d.Arch, d.NR}
	if a, ok := r.known[q]; ok {
		return a, nil
	}
	verdict, deep := Allow, false
	for i := len(r.filters) - 1; i >= 0; i-- {
		a, looked, err := interpret(r.filters[i], d)
		if err != nil {
			return 0, err
		}
		if deep = deep || looked; stricter(a, verdict) {
			verdict = a
		}
	}
	if !deep && len(r.known) < mostKnown {
		r.known[q] = verdict
	}
	return verdict, nil
}

// Interpret runs f for call d as the kernel does. The error is that of [Filter.Check], if the kernel would refuse f.
func Interpret(f Filter, d Data) (Action, error) {
	if err := f.Check(); err != nil {
		return 0, err
	}
	a, _, err := interpret(f, d)
	return a, err
}

// interpret is Interpret for a filter that has passed Check. Deep says that it has looked at more than the call's number and architecture.
func interpret(f Filter, d Data) (a Action, deep bool, err error) {
	m := machine{d: &d}
	for pc := 0; pc < len(f); pc++ { // comes to an end: jumps go forward, and the last instruction returns
		ins := f[pc]
		switch ins.Code {
		case opRet:
			return Action(ins.K), m.deep, nil
		case opRetA:
			return Action(m.a), m.deep, nil
		case opJump:
			pc += int(ins.K)
		case opJeq, opJgt, opJge, opJset, opJeqX, opJgtX, opJgeX, opJsetX:
			if m.holds(ins) {
				pc += int(ins.Jt)
			} else {
				pc += int(ins.Jf)
			}
		case opDivX:
			if m.x == 0 {
				return 0, m.deep, nil // division by zero ends a classic filter with 0, which kills the thread
			}
			m.a /= m.x
		default:
			m.do(ins)
		}
	}
	return 0, false, fmt.Errorf("bug: a checked filter ran off its end")
}

// machine has the registers and the memory of a classic BPF program.
type machine struct {
	a, x uint32
	mem  [memWords]uint32
	d    *Data
	deep bool // an address or an argument was loaded
}

// holds reports whether the condition of a jump is true.
func (m *machine) holds(ins Instruction) bool {
	v := ins.K
	if ins.Code&0x08 != 0 { // BPF_X
		v = m.x
	}
	switch ins.Code &^ 0x08 {
	case opJeq:
		return m.a == v
	case opJgt:
		return m.a > v
	case opJge:
		return m.a >= v
	}
	return m.a&v != 0
}

// do executes an instruction that only changes registers or memory.
func (m *machine) do(ins Instruction) {
	switch ins.Code {
	case opLoad:
		m.a = m.d.word(ins.K)
		m.deep = m.deep || ins.K != offNR && ins.K != offArch
	case opLoadLen:
		m.a = dataSize
	case opLoadImm:
		m.a = ins.K
	case opLoadMem:
		m.a = m.mem[ins.K]
	case opXLen:
		m.x = dataSize
	case opXImm:
		m.x = ins.K
	case opXMem:
		m.x = m.mem[ins.K]
	case opStore:
		m.mem[ins.K] = m.a
	case opStoreX:
		m.mem[ins.K] = m.x
	case opTax:
		m.x = m.a
	case opTxa:
		m.a = m.x
	case opNeg:
		m.a = -m.a
	default:
		v := ins.K
		if ins.Code&0x08 != 0 {
			v = m.x
		}
		m.a = arithmetic(ins.Code&^0x08, m.a, v)
	}
}

func arithmetic(code uint16, a, v uint32) uint32 {
	switch code {
	case opAddK:
		return a + v
	case opSubK:
		return a - v
	case opMulK:
		return a * v
	case opDivK:
		return a / v // by a constant: Check refuses 0
	case opOrK:
		return a | v
	case opAnd:
		return a & v
	case opXorK:
		return a ^ v
	case opLshK:
		return a << (v & 31) // as in eBPF, to which the kernel translates: Documentation/bpf/standardization
	default: // opRshK
		return a >> (v & 31)
	}
}
