package bwrap

import (
	"math"
	"strconv"
	"strings"
)

// maxSize is the largest size of a tmpfs: half of what a size_t holds.
const maxSize = math.MaxUint64 >> 1

// integer reads what strtoul(3) reads at the beginning of s: blanks, a sign, digits. With base 0 the base is told by a prefix. It
// returns the number without its sign, whether it was too large, and the rest of s, which is s itself if there is no number.
func integer(s string, base int) (n uint64, negative, overflow bool, rest string) {
	digits := strings.TrimLeft(s, " \t\n\v\f\r")
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		negative = digits[0] == '-'
		digits = digits[1:]
	}
	if base == 0 {
		base, digits = radix(digits)
	}
	end := 0
	for end < len(digits) && digit(digits[end]) < base {
		end++
	}
	if end == 0 {
		return 0, false, false, s
	}
	n, err := strconv.ParseUint(digits[:end], base, 64)
	return n, negative, err != nil, digits[end:]
}

// radix tells the base of a number as C writes it.
func radix(digits string) (base int, rest string) {
	for _, prefix := range []struct {
		text string
		base int
	}{{"0x", 16}, {"0X", 16}, {"0b", 2}, {"0B", 2}} {
		// Without a digit behind it the prefix is a zero and a letter.
		if rest, ok := strings.CutPrefix(digits, prefix.text); ok && rest != "" && digit(rest[0]) < prefix.base {
			return prefix.base, rest
		}
	}
	if strings.HasPrefix(digits, "0") {
		return 8, digits
	}
	return 10, digits
}

// digit returns the value of a digit, or one that no base has.
func digit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'Z':
		return int(c-'A') + 10
	}
	return math.MaxInt
}

// number reads a descriptor or an id: a decimal number that is not negative once it has been put into an int of 32 bits.
func number(s string) (int, bool) {
	n, negative, overflow, rest := integer(s, 10)
	if s == "" || rest != "" {
		return 0, false
	}
	long := int64(n)
	switch {
	case overflow || n > math.MaxInt64:
		long = math.MaxInt64
		if negative {
			long = math.MinInt64
		}
	case negative:
		long = -long
	}
	short := int32(long) // the upper half is lost, as in bubblewrap
	return int(short), short >= 0
}

// octal reads permissions.
func octal(s string) (uint32, bool) {
	n, negative, overflow, rest := integer(s, 8)
	if s == "" || rest != "" || overflow {
		return 0, false
	}
	if negative {
		n = -n
	}
	return uint32(n & 0o7777), n <= 0o7777
}

// byteCount reads a size: a number as C writes it that is not zero.
func byteCount(s string) (uint64, bool) {
	if s == "" || digit(s[0]) > 9 {
		return 0, false
	}
	n, _, overflow, rest := integer(s, 0)
	return n, rest == "" && !overflow && n != 0
}
