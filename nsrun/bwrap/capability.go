package bwrap

import (
	"math"
	"strings"
)

// maxCaps is how many capabilities a set has room for.
const maxCaps = 64

// capability changes the set that the command is to have.
func (p *parser) capability(row option, operands []string) error {
	p.capsNamed = true
	mask := uint64(math.MaxUint64)
	if !strings.EqualFold(operands[0], "ALL") {
		number, ok := capNumber(operands[0])
		if !ok {
			return p.die("unknown cap: %s", operands[0])
		}
		mask = 1 << number
	}
	if row.name == "--cap-add" {
		p.caps |= mask
	} else {
		p.caps &^= mask
	}
	return nil
}

// capNumber reads a capability as libcap does: a name with cap_, in any case, or a number as C writes it. What follows a number, or
// a name and something that is neither a letter nor an underscore, is not looked at.
func capNumber(word string) (int, bool) {
	if word != "" && digit(word[0]) <= 9 {
		n, _, overflow, _ := integer(word, 0)
		return int(n), !overflow && n < maxCaps
	}
	end := strings.IndexFunc(word, func(r rune) bool { return r != '_' && (r < 'A' || 'Z' < r) && (r < 'a' || 'z' < r) })
	if end >= 0 {
		word = word[:end]
	}
	for number, name := range capNames {
		if strings.EqualFold(word, "cap_"+name) {
			return number, true
		}
	}
	return 0, false
}

// capList lists the capabilities of a set that the kernel knows.
func capList(set uint64, last int) []int {
	var list []int
	for n := 0; n <= last && n < maxCaps; n++ {
		if set&(1<<n) != 0 {
			list = append(list, n)
		}
	}
	return list
}
