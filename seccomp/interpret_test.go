package seccomp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var retA = Instruction{Code: opRetA}

func TestInterpretEveryOperation(t *testing.T) {
	d := Data{NR: 7, Arch: 9, IP: 0x1111111122222222, Args: [6]uint64{0x3333333344444444, 0, 0, 0, 0, 0x5555555566666666}}
	x := func(op uint16, a, x uint32) Filter {
		return Filter{{opXImm, 0, 0, x}, {opLoadImm, 0, 0, a}, {Code: op}, retA}
	}
	k := func(op uint16, a, k uint32) Filter { return Filter{{opLoadImm, 0, 0, a}, {op, 0, 0, k}, retA} }
	load := func(off uint32) Filter { return Filter{{opLoad, 0, 0, off}, retA} }
	for name, row := range map[string]struct {
		f    Filter
		want uint32
	}{
		"nr": {load(0), 7}, "arch": {load(4), 9}, "ip low": {load(8), 0x22222222}, "ip high": {load(12), 0x11111111},
		"arg0 low": {load(16), 0x44444444}, "arg0 high": {load(20), 0x33333333},
		"arg5 low": {load(56), 0x66666666}, "arg5 high": {load(60), 0x55555555},
		"add": {k(opAddK, 5, 6), 11}, "add x": {x(opAddX, 5, 6), 11}, "sub": {k(opSubK, 5, 6), ^uint32(0)}, "sub x": {x(opSubX, 5, 6), ^uint32(0)},
		"mul": {k(opMulK, 5, 6), 30}, "mul x": {x(opMulX, 5, 6), 30}, "div": {k(opDivK, 13, 6), 2}, "div x": {x(opDivX, 13, 6), 2},
		"div by no x": {x(opDivX, 13, 0), 0}, "or": {k(opOrK, 5, 6), 7}, "or x": {x(opOrX, 5, 6), 7},
		"and": {k(opAnd, 5, 6), 4}, "and x": {x(opAndX, 5, 6), 4}, "xor": {k(opXorK, 5, 6), 3}, "xor x": {x(opXorX, 5, 6), 3},
		"shl": {k(opLshK, 5, 6), 320}, "shl x": {x(opLshX, 5, 38), 320}, "shr": {k(opRshK, 64, 6), 1}, "shr x": {x(opRshX, 64, 6), 1},
		"neg": {k(opNeg, 1, 0), ^uint32(0)}, "length": {Filter{{Code: opLoadLen}, retA}, 64},
		"x length":   {Filter{{Code: opXLen}, {Code: opTxa}, retA}, 64},
		"tax":        {Filter{{opLoadImm, 0, 0, 3}, {Code: opTax}, {opLoadImm, 0, 0, 0}, {Code: opTxa}, retA}, 3},
		"memory":     {Filter{{opLoadImm, 0, 0, 3}, {opStore, 0, 0, 15}, {opLoadImm, 0, 0, 0}, {opLoadMem, 0, 0, 15}, retA}, 3},
		"x memory":   {Filter{{opXImm, 0, 0, 4}, {opStoreX, 0, 0, 2}, {opXMem, 0, 0, 2}, {Code: opTxa}, retA}, 4},
		"jump":       {Filter{{opJump, 0, 0, 1}, {opRet, 0, 0, 1}, {opRet, 0, 0, 2}}, 2},
		"jeq taken":  {Filter{{opLoadImm, 0, 0, 3}, {opJeq, 1, 0, 3}, {opRet, 0, 0, 1}, {opRet, 0, 0, 2}}, 2},
		"jgt equal":  {Filter{{opLoadImm, 0, 0, 3}, {opJgt, 1, 0, 3}, {opRet, 0, 0, 1}, {opRet, 0, 0, 2}}, 1},
		"jge equal":  {Filter{{opLoadImm, 0, 0, 3}, {opJge, 1, 0, 3}, {opRet, 0, 0, 1}, {opRet, 0, 0, 2}}, 2},
		"jset none":  {Filter{{opLoadImm, 0, 0, 3}, {opJset, 1, 0, 4}, {opRet, 0, 0, 1}, {opRet, 0, 0, 2}}, 1},
		"jeq x":      {Filter{{opXImm, 0, 0, 3}, {opLoadImm, 0, 0, 3}, {opJeqX, 1, 0, 9}, {opRet, 0, 0, 1}, {opRet, 0, 0, 2}}, 2},
		"jset x":     {Filter{{opXImm, 0, 0, 1}, {opLoadImm, 0, 0, 3}, {opJsetX, 1, 0, 9}, {opRet, 0, 0, 1}, {opRet, 0, 0, 2}}, 2},
		"jge x less": {Filter{{opXImm, 0, 0, 4}, {opLoadImm, 0, 0, 3}, {opJgeX, 1, 0, 0}, {opRet, 0, 0, 1}, {opRet, 0, 0, 2}}, 1},
		"jgt x":      {Filter{{opXImm, 0, 0, 2}, {opLoadImm, 0, 0, 3}, {opJgtX, 1, 0, 9}, {opRet, 0, 0, 1}, {opRet, 0, 0, 2}}, 2},
	} {
		got, err := Interpret(row.f, d)
		require.NoError(t, err, name)
		assert.Equal(t, Action(row.want), got, name)
	}
}

// invalid are filters that no kernel takes, by what is wrong with them. A test on Linux offers them to one.
func invalid() map[string]Filter {
	ret := Instruction{Code: opRet}
	return map[string]Filter{
		"empty":                                  {},
		"takes 4096":                             make(Filter, MaxLen+1),
		"last instruction does not return":       {{opLoad, 0, 0, 0}},
		"outside of struct seccomp_data":         {{opLoad, 0, 0, 64}, ret},
		"not a whole word":                       {{opLoad, 0, 0, 2}, ret},
		"no such memory word":                    {{opStore, 0, 0, 16}, ret},
		"divides by zero":                        {{opDivK, 0, 0, 0}, ret},
		"shifts by more":                         {{opLshK, 0, 0, 32}, ret},
		"instruction 0 (goto 2): jumps out":      {{opJump, 0, 0, 1}, ret},
		"(if A == 0x0 goto 2 else 1): jumps out": {{opJeq, 1, 0, 0}, ret},
		"(if A > 0x0 goto 1 else 2): jumps out":  {{opJgt, 0, 1, 0}, ret},
		"goto 4294967296":                        {{opJump, 0, 0, 0xffffffff}, ret},
		"code 0x28 jt 0 jf 0 k 0x0): not allowed in a seccomp filter": {{0x28, 0, 0, 0}, ret}, // a half word
		"code 0x94": {{0x94, 0, 0, 3}, ret}, // modulo
		"reads memory that is not written on every path": {{opJeq, 0, 1, 0}, {opStore, 0, 0, 3}, {opLoadMem, 0, 0, 3}, ret},
	}
}

func TestCheckRefusesWhatTheKernelRefuses(t *testing.T) {
	for fault, f := range invalid() {
		err := f.Check()
		require.ErrorContains(t, err, fault)
		_, err = Interpret(f, Data{})
		require.Error(t, err, fault)
		_, err = ParseRaw(f.Bytes())
		require.Error(t, err, fault)
		_, err = Decide(Data{}, f)
		require.Error(t, err, fault)
	}
	ok := Filter{{opStore, 0, 0, 3}, {opJeq, 1, 0, 0}, {opStoreX, 0, 0, 3}, {opLoadMem, 0, 0, 3}, retA}
	require.NoError(t, ok.Check())
}

func TestParseRawReadsWhatBytesWrote(t *testing.T) {
	for _, name := range Names() {
		for _, arch := range Arches() {
			f, err := Builtin(name, arch)
			require.NoError(t, err)
			got, err := ParseRaw(f.Bytes())
			require.NoError(t, err)
			assert.Equal(t, f, got)
		}
	}
	_, err := ParseRaw(make([]byte, 12))
	require.ErrorContains(t, err, "12 bytes: not a multiple of 8")
}
