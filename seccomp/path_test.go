package seccomp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryDecisionIsShort counts the instructions on the longest way through each built-in filter. The kernel takes the way of every call number
// when a filter is installed, and of a call when it is made: a list of the calls, one after the other, would have some 400 on it.
func TestEveryDecisionIsShort(t *testing.T) {
	for _, arch := range Arches() {
		for _, name := range Names() {
			f, err := Builtin(name, arch)
			require.NoError(t, err)
			assert.Less(t, longestWay(f), 40, "%s for %s", name, arch)
		}
	}
	list := Filter{{Code: opLoad}}
	for i := range 400 {
		list = append(list, Instruction{Code: opJeq, K: uint32(i), Jt: uint8(min(255, 400-i))})
	}
	list = append(list, Instruction{Code: opRet}, Instruction{Code: opRet})
	assert.Greater(t, longestWay(list), 400, "control")
}

// longestWay is how many instructions can come to be carried out. Jumps go forward.
func longestWay(f Filter) int {
	from := make([]int, len(f)+1)
	for pc := len(f) - 1; pc >= 0; pc-- {
		switch ins := f[pc]; ins.Code {
		case opRet, opRetA:
			from[pc] = 1
		case opJump:
			from[pc] = 1 + from[pc+1+int(ins.K)]
		case opJeq, opJgt, opJge, opJset, opJeqX, opJgtX, opJgeX, opJsetX:
			from[pc] = 1 + max(from[pc+1+int(ins.Jt)], from[pc+1+int(ins.Jf)])
		default:
			from[pc] = 1 + from[pc+1]
		}
	}
	return from[0]
}
