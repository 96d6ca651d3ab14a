package bwrap

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/syndtr/gocapability/capability"
)

// What glibc's strtol and an int of 32 bits make of a word; each was checked against bubblewrap 0.13.1.
func TestNumber(t *testing.T) {
	for _, c := range []struct {
		word string
		want int
		ok   bool
	}{
		{"0", 0, true}, {"7", 7, true}, {"+7", 7, true}, {" \t7", 7, true}, {"-0", 0, true}, {"007", 7, true}, {"2147483647", 2147483647, true},
		{"4294967296", 0, true}, {"4294967299", 3, true},
		{"", 0, false}, {" ", 0, false}, {"+", 0, false}, {"7 ", 0, false}, {"0x7", 0, false}, {"-1", 0, false}, {"2147483648", 0, false},
		{"4294967295", 0, false}, {"9223372036854775808", 0, false}, {"18446744073709551616", 0, false}, {"7a", 0, false},
	} {
		got, ok := number(c.word)
		assert.Equal(t, c.ok, ok, "%q", c.word)
		if ok {
			assert.Equal(t, c.want, got, "%q", c.word)
		}
	}
	got, ok := number("-99999999999999999999")
	assert.True(t, ok, "LONG_MIN put into an int is 0")
	assert.Zero(t, got)
}

func TestOctal(t *testing.T) {
	for word, want := range map[string]uint32{"0": 0, "755": 0o755, "07777": 0o7777, " 7": 7, "+7": 7, "-0": 0, "-1777777777777777777777": 1} {
		got, ok := octal(word)
		assert.True(t, ok, "%q", word)
		assert.Equal(t, want, got, "%q", word)
	}
	for _, word := range []string{"", " ", "8", "10000", "7 ", "-1", "0x7", "7777777777777777777777777"} {
		_, ok := octal(word)
		assert.False(t, ok, "%q", word)
	}
}

func TestByteCount(t *testing.T) {
	for word, want := range map[string]uint64{"1": 1, "4096": 4096, "0x1000": 4096, "0X1f": 31, "010000": 4096, "0b101": 5,
		"9223372036854775808": 1 << 63, "18446744073709551615": 1<<64 - 1} {
		got, ok := byteCount(word)
		assert.True(t, ok, "%q", word)
		assert.Equal(t, want, got, "%q", word)
	}
	for _, word := range []string{"", "0", "0x0", "08", "0x", "0b", "0b2", " 1", "+1", "-1", "1k", "18446744073709551616", "a"} {
		_, ok := byteCount(word)
		assert.False(t, ok, "%q", word)
	}
}

func TestCapabilityNumbers(t *testing.T) {
	for word, want := range map[string]int{"cap_chown": 0, "CAP_Net_Admin": 12, "5": 5, "63": 63, "0x5": 5, "05": 5, "5abc": 5, "09": 0, "0x": 0,
		"cap_chown=ep": 0, "cap_chown1": 0, "cap_kill-": 5, "cap_checkpoint_restore": 40} {
		got, ok := capNumber(word)
		assert.True(t, ok, "%q", word)
		assert.Equal(t, want, got, "%q", word)
	}
	for _, word := range []string{"", "chown", "cap_", "cap_chownx", "cap_all", "64", "-1", " 5", "99999999999999999999", "cap chown"} {
		_, ok := capNumber(word)
		assert.False(t, ok, "%q", word)
	}
}

// The table is as old as the library it is made from; that library must know no more.
func TestCapabilityTable(t *testing.T) {
	list := capability.List()
	assert.Len(t, capNames, len(list), "go generate has been run")
	for _, c := range list {
		assert.Equal(t, c.String(), capNames[int(c)])
	}
}

func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"x", []string{"PATH=/bin", "HOME=/home/me", "PWD=/work"}},
		{"--setenv HOME /h --setenv A b=c x", []string{"PATH=/bin", "HOME=/h", "PWD=/work", "A=b=c"}},
		{"--setenv A b --clearenv --setenv B c x", []string{"B=c"}},
		{"--unsetenv HOME --unsetenv NONE --unsetenv PWD x", []string{"PATH=/bin"}},
		{"--clearenv x", []string{}},
	} {
		assert.Equal(t, c.want, parse(t, split(c.args)...).Env, c.args)
	}
	e := environment{"A=1", "B", "A=2"}
	e.set("A", "3")
	assert.Equal(t, environment{"A=3", "B", "A=2"}, e, "the first of two is set")
	e.unset("A")
	assert.Equal(t, environment{"B"}, e, "both are taken out")
}
